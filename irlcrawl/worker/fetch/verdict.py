"""What a finished request means for its URL and for its visit: pure rules, one function.

A passing failure (no connection, no TLS, time-out, lost connection, 429, 5xx but 501 and 505) makes the URL due again,
later each time, while it has repeats left; anything else is final. Failures of the host, not of the URL, end the visit.
So does a challenge, which is final: its host would rather not be asked by a program, and is asked less and less.
"""

from __future__ import annotations

from dataclasses import dataclass

from irlcrawl.base.reasons import CRAWL_LOG_STATUS, PASSING, Class, Reason
from irlcrawl.config.keys import Config
from irlcrawl.config.rests import rests_of_urls
from irlcrawl.web.retry_after import MAY_THROTTLE, THROTTLES, seconds_asked
from irlcrawl.worker.fetch.http import Fetched
from irlcrawl.worker.harvest.process import REDIRECTS
from irlcrawl.worker.page.interstitial import STATUSES, sign_of

_PERMANENT_5XX = frozenset((501, 505))


@dataclass(slots=True)
class Verdict:
    cls: Class
    reason: Reason
    status: int  # HTTP, or the crawl log's negative code
    keep: bool  # the exchange is archived; without, the unit is a metadata record
    retry_due: float | None = None  # unix seconds
    retry_after: float | None = None  # seconds, what the server asked for
    ends: str | None = None  # the outcome of a visit that ends here: "throttled", "failed", "ok" (a lost connection)


def judge(fetched: Fetched, attempt: int, config: Config, conditional: bool = False) -> Verdict:
    """The verdict on request number `attempt` (from 0) for a URL. conditional: it was asked for only if it changed."""
    politeness = config.politeness
    again = attempt < politeness.retries_max
    if fetched.reason is not Reason.OK:
        status = CRAWL_LOG_STATUS[fetched.reason]
        # What broke off after it began, or is no HTTP, is a page's failure: its host answers, and need not rest for it.
        ends = None if fetched.reason is Reason.PROTOCOL else "failed" if fetched.exchange is None else "ok"
        if again and fetched.reason in PASSING:
            delay = rests_of_urls(politeness).after(attempt + 1)
            return Verdict(Class.RETRY, fetched.reason, status, False, fetched.ended + delay, ends=ends)
        if fetched.exchange is not None:  # no more repeats: what came of it is kept
            return Verdict(Class.FETCHED, Reason.TRUNCATED, fetched.status, True, ends=ends)
        return Verdict(Class.FAILED, fetched.reason, status, False, ends=ends)
    status = fetched.status
    if conditional and status == 304:
        return Verdict(Class.FETCHED, Reason.NOT_MODIFIED, status, True)
    if (exchange := fetched.exchange) is not None and status in STATUSES:
        sign = sign_of(status, exchange, config.fetch.decoded_bytes_max)
        if sign is not None:
            fetched.detail = sign.maker
            if sign.parked:
                return Verdict(Class.FETCHED, Reason.PARKED, status, True)
            told = retry_after_of(fetched, politeness.retry_after_max_seconds)
            return Verdict(Class.FETCHED, Reason.CHALLENGE, status, True, None, told, ends="throttled")
    retry_after = retry_after_of(fetched, politeness.retry_after_max_seconds)
    throttled = status in THROTTLES or bool(retry_after)
    passing = throttled or (500 <= status < 600 and status not in _PERMANENT_5XX)
    cls = Class.RETRY if passing and again else Class.FETCHED
    due = None
    if cls is Class.RETRY:
        delay = rests_of_urls(politeness).after(attempt + 1)
        due = fetched.ended + max(delay, retry_after or 0.0)
    return Verdict(cls, _reason(fetched, throttled), status, True, due, retry_after, "throttled" if throttled else None)


def _reason(fetched: Fetched, throttled: bool) -> Reason:
    if throttled:
        return Reason.THROTTLED
    if fetched.status >= 400:
        return Reason.HTTP_ERROR
    if fetched.status in REDIRECTS:
        return Reason.REDIRECT
    if fetched.unwanted:
        return fetched.unwanted
    return Reason.TRUNCATED if fetched.exchange is not None and fetched.exchange.truncated else Reason.OK


def retry_after_of(fetched: Fetched, seconds_max: float) -> float | None:
    """Retry-After in seconds, at most `seconds_max`; None without a valid one, and for a status with which it does not
    ask for fewer requests."""
    if not (fetched.status in MAY_THROTTLE or fetched.status >= 500):
        return None
    value, date = ((fetched.value(name) or b"").decode("latin-1") for name in (b"retry-after", b"date"))
    seconds = seconds_asked(value, fetched.ended, date)
    return None if seconds is None else min(seconds, seconds_max)
