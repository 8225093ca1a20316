"""One visit: the URLs a lease names, one request at a time, no sooner than the gap after the last exchange ended.

Every request of a visit, robots.txt and its redirects included, goes through `_ask`, which waits first; so the promise
of the gap is kept in one place. A visit ends early rather than wait long, when the host is in trouble, or on a stop;
URLs it did not reach simply have no unit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from irlcrawl.base.clock import Clock
from irlcrawl.base.reasons import CRAWL_LOG_STATUS, DOUBTFUL, Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Carried, Robots
from irlcrawl.base.url import PORTS, canonical, split
from irlcrawl.config.keys import ROBOTS_FRESH_S_MAX, Config
from irlcrawl.config.rests import rests_of_hosts
from irlcrawl.web import tdmrep
from irlcrawl.web.retry_after import THROTTLES
from irlcrawl.web.robots import Rules, outcome
from irlcrawl.worker.archive.known import Known, conditions
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.fetch.http import Fetched, Fetcher, Request
from irlcrawl.worker.fetch.lease import Lease
from irlcrawl.worker.fetch.terms import TermsOf
from irlcrawl.worker.fetch.verdict import judge
from irlcrawl.worker.fetch.wire import Message
from irlcrawl.worker.harvest.process import REDIRECTS, received
from irlcrawl.worker.harvest.rules_log import Pointer

TDM_AGAIN_SECONDS = 3600.0
"""When a robots.txt is asked for again whose visit had no time for the tdmrep.json beside it."""
FRESH_GAPS, FRESH_SECONDS = 10, 600.0
"""So many gaps and seconds a robots.txt lasts at least, where its visit has no room for a page: if it were stale by the
time the host may be asked again, each visit would ask for nothing else."""
UNREADABLE = "reading it ended workers"
"""What the log says of such a URL, beside a reason."""


class Signs(Protocol):
    def fields(self, request: Request, now: float) -> tuple[tuple[str, str], ...]:
        """Header fields that sign a request which goes out now."""
        ...


class Services(Protocol):
    """The parts of its worker that a visit needs."""

    config: Config
    clock: Clock
    fetcher: Fetcher
    terms: TermsOf
    stopping: asyncio.Event
    redirected: dict[int, tuple[bytes, int]]
    """host key -> (URL, redirects so far): robots.txt fetches that a visit had to leave in the middle."""
    blocked: Callable[[bytes], bool] | None
    """Whether the operator lets nothing be asked of a URL; None: none is blocked."""
    unreadable: set[bytes]
    """URLs whose reading ended workers."""

    @property
    def signer(self) -> Signs | None:
        """None: requests are not signed."""
        ...

    async def keep(self, unit: Unit, exchange: Exchange | None, rules: Rules | None = None) -> Pointer | None:
        """Archive a unit and take in what it yields; where its robots.txt text was put, if it brought one. `rules` of
        its host: what they say about its use is noted."""
        ...

    def opted_out(self, url: bytes) -> bool:
        """Whether its owner wants it left alone."""
        ...

    def learnt_robots(self, visit: int, robots: dict[str, Any]) -> None:
        """Tell the frontier, before a harvest could."""
        ...

    def rules_at(self, pointer: Sequence[int]) -> Rules | None:
        """The rules a pointer names; None when their log is gone. Damaged."""
        ...

    def rules_of(self, exchange: Exchange | None, tdm: str = "") -> Rules | None:
        """The rules in a robots.txt response (None: there are none), with the lines of a tdmrep.json. None where its
        content coding is damaged."""
        ...

    async def detour(self, visit: int, url: bytes, fetch_s: float) -> Detour:
        """Permission to ask another host for its part of a robots.txt redirect, or, where others are visited at the
        same time, this one again, whose last exchange took `fetch_s` seconds."""
        ...

    def detour_end(
        self, detour: Detour, ended: float | None, fetch_s: float, outcome: str = "ok", retry_after: float | None = None
    ) -> None:
        """A granted detour is over. ended: None if nothing was asked. outcome: "ok" or "throttled"."""
        ...

    async def charged(self, visit: int) -> bool:
        """Whether a request that had no (whole) response is held against its URL and host: not when it is us."""
        ...

    async def room(self) -> None:
        """Waits while there is more harvested than may be held."""
        ...


@dataclass(slots=True, frozen=True)
class Detour:
    """The frontier's answer to a visit that must ask another host, because robots.txt redirects there."""

    number: int
    address: str | None  # None: refused
    reason: int | None  # why, when the answer is final
    paces: dict[str, float] | None = None  # as Lease.paces, of the other host


class Visit:
    """Run it once; `run` gives the `end` message. On cancellation (abort) what is in flight is dropped, and the message
    says so all the same."""

    def __init__(self, lease: Lease, services: Services) -> None:
        self.lease = lease
        self._services = services
        self._config = services.config
        self._clock = services.clock
        self._gap = lease.gap
        self._paces = lease.paces  # of the last request
        self._patience = self._config.politeness.visit_seconds
        self._rules: Rules | None = None
        self._answered = False  # some response came in this visit
        self._reached = 0
        self._started: float | None = None
        self._ended: float | None = None
        self._fetch_s = 0.0
        self._fetching_s = self._body_s = 0.0  # of all requests together
        self._unpaid_s = 0.0  # so long after the last exchange its bytes would have come at the rate of its site
        self._requests = 0
        self._bytes = 0
        self._outcome = "ok"
        self._reason = Reason.OK
        self._retry_after: float | None = None
        self._robots: dict[str, Any] | None = None
        self._proxy_down: tuple[str, str] | None = None  # and why
        self._page = b""  # the URL of the lease that the next request is made for; empty: none

    async def run(self) -> Message:
        try:
            urls = list(self.lease.rows())
            while urls and await self._blocked(*urls[0]):  # so that not even robots.txt is asked for
                del urls[0]
            self._page = urls[0][2].encode("ascii") if urls else b""
            if (urls or not len(self.lease)) and await self._know_rules():
                # Not before: a robots.txt redirect followed in pieces might start anew with another worker each time.
                if self.lease.patience is not None:
                    self._patience = self.lease.patience
                for row in urls:
                    if self._is_overdrawn() or (not await self._blocked(*row) and not await self._url(*row)):
                        break
        except asyncio.CancelledError:
            self._ended = self._clock.now() if self._requests else None
        return self.end()

    def end(self) -> Message:
        """The `end` message as things stand."""
        nothing = self._outcome == "ok" and not self._requests and self._reached < len(self.lease)
        return {
            "t": "end",
            "visit": self.lease.visit,
            "reached": self._reached,
            "started": self._started,
            "ended": self._ended,
            "fetch_s": self._fetch_s,
            "fetching_s": self._fetching_s,
            "body_s": self._body_s,
            "requests": self._requests,
            "bytes": self._bytes,
            "answered": self._answered,
            "outcome": "unreached" if nothing else self._outcome,
            "reason": int(self._reason),
            "retry_after": self._retry_after,
            "robots": self._robots,
            "proxy_down": self._proxy_down,
        }

    def _unit(self, row: int, url_key: int, url: str, carried: Carried, known: Known | None) -> Unit:
        return Unit(
            url=url.encode("ascii"), segment=self.lease.urls["segment"], row=row, key=url_key, host=self.lease.host_key,
            carried=carried, cls=Class.NONE, reason=Reason.OK, status=0, start=0.0, page=known,
        )  # fmt: skip

    async def _blocked(self, row: int, url_key: int, url: str, carried: Carried, known: Known | None) -> bool:
        """Whether a URL of the lease was not to be asked, and is done."""
        services, stored = self._services, url.encode("ascii")
        cls, detail = Class.EXCLUDED, ""
        if stored in services.unreadable:
            cls, reason, detail = Class.FAILED, Reason.PROTOCOL, UNREADABLE
        elif services.opted_out(stored):
            reason = Reason.OPTED_OUT
        elif services.blocked is not None and services.blocked(stored):
            reason = Reason.BLOCKED
        else:
            return False
        unit = self._unit(row, url_key, url, carried, known)
        unit.detail = detail
        await self._decide(unit, cls, reason)
        self._reached += 1
        return True

    async def _url(self, row: int, url_key: int, url: str, carried: Carried, known: Known | None) -> bool:
        """One URL of the lease. Returns whether the visit goes on."""
        unit = self._unit(row, url_key, url, carried, known)
        self._page = unit.url
        asked = conditions(known, self._config.revisit.unconditional_every)
        if self._rules is not None and not self._rules.allowed(unit.url):
            await self._decide(unit, Class.EXCLUDED, Reason.ROBOTS)
            self._reached += 1
            return True
        bound = self._config.fetch.body_bytes_max
        fetched = await self._ask(unit.url, self.lease.address, bound, page=True, asked=asked)
        if fetched is None:
            return False
        verdict = judge(fetched, carried.attempt, self._config, conditional=bool(asked))
        unit.cls, unit.reason, unit.status = verdict.cls, verdict.reason, verdict.status
        unit.retry_due = verdict.retry_due
        self._stamp(unit, fetched)
        self._note_answer(unit, fetched, throttled=verdict.ends == "throttled")
        await self._services.keep(unit, fetched.exchange if verdict.keep else None, self._rules)
        self._reached += 1
        if verdict.ends is not None:
            self._outcome, self._reason, self._retry_after = verdict.ends, verdict.reason, verdict.retry_after
        return verdict.ends is None

    def _note_answer(self, unit: Unit, fetched: Fetched, throttled: bool) -> None:
        """A visit without any response, or the first response after failed ones, is news about the host; a 429 or 503
        after such ones is none."""
        first = not self._answered
        self._answered = self._answered or fetched.answered
        if first and self._answered and self.lease.failures and not throttled:
            unit.robots = {"failed": 0}
        elif not self._answered:
            unit.robots = {"failed": 1}

    async def _ask(
        self, url: bytes, address: str, body_bytes_max: int, detour: Detour | None = None, page: bool = False,
        asked: tuple[tuple[str, str], ...] = (),
    ) -> Fetched | None:  # fmt: skip
        """The only way to a request. None when it is not to be made in this visit. `page`: it is one that may be
        unwanted. `asked`: Request.fields."""
        scheme, host, port, target = split(url)
        terms = self._services.terms.of(host)
        wants = terms.wants if page else None
        request = Request(url, scheme, host, port, target, address, body_bytes_max, terms, wants, asked)
        self._paces = self.lease.paces if detour is None else detour.paces
        fetched = await self._ask_once(request, detour)
        if fetched is not None and fetched.stale:  # no answer, so no outcome; a new connection cannot be stale
            fetched = await self._ask_once(request, detour) if not self._paces else None
        if fetched is not None and fetched.proxy_down:
            self._outcome, self._proxy_down = "unreached", (fetched.proxy_down, fetched.detail)
            return None
        if fetched is not None and fetched.reason in DOUBTFUL and not await self._services.charged(self.lease.visit):
            self._outcome = "unreached"
            return None
        return fetched

    async def _ask_once(self, request: Request, detour: Detour | None) -> Fetched | None:
        if detour is None and self._is_spent():
            return None
        await self._services.room()
        if not await self._wait() or (detour is None and self._is_late()) or self._opted_out(request):
            return None
        self._requests += 1
        self._started = self._started or self._clock.now()
        if (signer := self._services.signer) is not None:
            request = replace(request, fields=request.fields + signer.fields(request, self._clock.now()))
        fetched = await self._services.fetcher.fetch(request)
        self._ended, self._fetch_s = fetched.ended, fetched.took
        self._fetching_s += fetched.took
        self._body_s += fetched.body_s
        size = 0 if fetched.exchange is None else received(fetched.exchange)
        self._bytes += size
        if request.terms is not None and (rate := request.terms.bytes_per_second):
            self._unpaid_s = size / rate - self._fetch_s
        return fetched

    def _opted_out(self, request: Request) -> bool:
        """Whether an owner's wish came while the gap was waited for: then the visit is over, and the next one excludes
        the page. A line that names the robots.txt of a host alone says nothing of its pages."""
        url = self._page if request.host == self.lease.host else request.url
        return bool(url) and self._services.opted_out(url)

    def _is_spent(self) -> bool:
        """Others are visited at the same time under a clock of this visit, which has a request every so often: this
        visit has had its own."""
        return bool(self.lease.paces and self._requests)

    def _is_overdrawn(self) -> bool:
        """More came than the bytes that this visit was given; its first page has come, too, so that every visit brings
        something."""
        charged = self.lease.bytes_charged
        return charged is not None and self._reached > 0 and self._bytes > charged

    def _room_for_a_page(self) -> bool:
        """Whether a visit that has asked for robots.txt may wait for the next request."""
        patience = self._patience if self.lease.patience is None else self.lease.patience
        return not self.lease.paces and self._gap <= patience

    def _is_late(self) -> bool:
        return self.lease.begin_by is not None and self._clock.now() > self.lease.begin_by

    async def _wait(self) -> bool:
        """Until the gap since the last exchange is over; False when that is too late or a stop comes first."""
        politeness = self._config.politeness
        now = self._clock.now()
        due = now
        if self._ended is not None:
            grown = min(politeness.gap_host_factor * self._fetch_s, politeness.gap_host_max_seconds)
            due = self._ended + max(self._gap, grown, self._unpaid_s)
        if due > self.lease.not_after or due - now > self._patience:
            return False
        while due > (now := self._clock.now()):  # timers have milliseconds and may fire a little early
            try:
                async with asyncio.timeout(max(due - now, 0.001)):
                    await self._services.stopping.wait()
            except TimeoutError:
                continue
            return False
        return now <= self.lease.not_after and not self._services.stopping.is_set()

    def _stamp(self, unit: Unit, fetched: Fetched) -> None:
        unit.start = fetched.started
        unit.duration_ms = round(fetched.took * 1000)
        unit.detail, unit.address = fetched.detail, self.lease.address
        unit.faults, unit.paces = fetched.faults, self._paces or None

    async def _decide(self, unit: Unit, cls: Class, reason: Reason) -> None:
        """A unit without a request."""
        unit.cls, unit.reason, unit.status = cls, reason, CRAWL_LOG_STATUS[reason]
        unit.start = self._clock.now()
        await self._services.keep(unit, None)

    # robots.txt

    async def _know_rules(self) -> bool:
        """Fills in the rules, asking for robots.txt when they are missing or stale; whether the host may be asked."""
        known = self.lease.robots
        state = known["state"] if known["until"] > self._clock.now() else Robots.UNKNOWN
        if state == Robots.DENY:
            self._outcome, self._reason = "failed", Reason.ROBOTS_UNREACHABLE
            return False
        if state == Robots.RULES and known["rules"] is not None:
            self._rules = self._services.rules_at(known["rules"])
            if self._rules is None:
                state = Robots.UNKNOWN
        if state == Robots.UNKNOWN:
            return await self._fetch_robots()
        self._gap = max(self._gap, known["crawl_delay"] or 0.0)
        return True

    async def _fetch_robots(self) -> bool:
        """robots.txt and its redirects, each archived as a unit of its own; the last one carries the fact. Where a
        visit ends between two of them (a long gap, no detour in time) the next one goes on there."""
        url, hops = self._services.redirected.pop(self.lease.host_key, (self._at_root(b"/robots.txt"), 0))
        while True:
            fetched, refused = await self._ask_robots(url, self._config.robots.bytes_max)
            if fetched is None:
                if refused is not None:
                    return await self._learn_robots(url, None, refused)
                if hops:
                    self._services.redirected[self.lease.host_key] = (url, hops)
                return False
            target = self._redirect(url, fetched)
            if target is None or hops >= self._config.robots.redirects_max:
                return await self._learn_robots(url, fetched, fetched.reason)
            self._answered = True
            await self._keep_robots(url, fetched, None)
            url, hops = target, hops + 1

    def _at_root(self, path: bytes) -> bytes:
        lease = self.lease
        host = f"[{lease.host}]" if ":" in lease.host else lease.host
        port = "" if lease.port == PORTS[lease.scheme] else f":{lease.port}"
        return f"{lease.scheme}://{host}{port}".encode("ascii") + path

    @staticmethod
    def _redirect(url: bytes, fetched: Fetched) -> bytes | None:
        location = fetched.value(b"location") if fetched.status in REDIRECTS else None
        return canonical(location, url) if location else None

    async def _ask_robots(self, url: bytes, bound: int) -> tuple[Fetched | None, Reason | None]:
        """A robots.txt or a tdmrep.json, `bound` bytes of it. Asks at the lease's address when it is the same host
        name, else where a detour may go; also there when this visit has had its request. The reason is there when
        nothing was asked and nothing will be."""
        here = split(url)[1] == self.lease.host
        services = self._services
        if url in services.unreadable:
            return None, Reason.ROBOTS_UNREACHABLE
        if not here and services.opted_out(url):
            return None, Reason.OPTED_OUT
        if not here and services.blocked is not None and services.blocked(url):
            return None, Reason.BLOCKED
        if here and not self._is_spent():
            return await self._ask(url, self.lease.address, bound), None
        if not here:
            await self._wait()  # while the clocks of the other host do not run yet
        try:
            async with asyncio.timeout(self.lease.not_after - self._clock.now()):
                detour = await self._services.detour(self.lease.visit, url, self._fetch_s)
        except TimeoutError:
            return None, None
        if detour.address is None:
            return None, Reason(detour.reason) if detour.reason and not here else None
        before, fetched = self._requests, None
        try:
            fetched = await self._ask(url, detour.address, bound, detour)
        finally:
            asked = self._requests > before
            verdict = None if fetched is None else judge(fetched, 0, self._config)
            throttled = verdict is not None and verdict.ends == "throttled"
            services.detour_end(
                detour, self._ended if asked else None, self._fetch_s if asked else 0.0,
                "throttled" if throttled else "ok", verdict.retry_after if verdict is not None else None,
            )  # fmt: skip
        return fetched, None

    async def _learn_robots(self, url: bytes, fetched: Fetched | None, reason: Reason) -> bool:
        """Archives the last answer with what it says about the host; whether the host may be asked for pages."""
        whole = fetched is not None and fetched.reason is Reason.OK
        status = fetched.status if fetched is not None and whole else None
        if fetched is not None and fetched.overdue and fetched.status < 300:
            status = None  # the rules that did not come in time might be those that forbid
        rest = rests_of_hosts(self._config.politeness).after(self.lease.denials + 1)
        state, seconds = outcome(status, self._config.robots, rest)
        asked = crawl_delay = 0.0
        damaged = False
        if state is Robots.RULES:
            assert fetched is not None and fetched.exchange is not None
            self._rules = self._services.rules_of(fetched.exchange)
            damaged = self._rules is None
            if damaged:  # as above
                state, seconds = outcome(None, self._config.robots, rest)
        if self._rules is not None:
            asked = self._rules.crawl_delay or 0.0
            crawl_delay = min(asked, self._config.politeness.crawl_delay_max_seconds)
            self._gap = max(self._gap, crawl_delay)
        self._answered = self._answered or (fetched is not None and fetched.exchange is not None)
        tdm = ""
        if self._config.page.tdmrep and state is not Robots.DENY:
            found = await self._ask_tdmrep()
            tdm = found or ""
            if tdm:
                rules_from = fetched.exchange if state is Robots.RULES and fetched is not None else None
                state, self._rules = Robots.RULES, self._services.rules_of(rules_from, tdm)
            elif found is None:  # it could not be asked now
                seconds = min(seconds, TDM_AGAIN_SECONDS)
        if state is not Robots.DENY and not self._room_for_a_page():
            seconds = max(seconds, FRESH_SECONDS, min(FRESH_GAPS * self._gap, ROBOTS_FRESH_S_MAX))
        until = self._clock.now() + seconds
        fact = {
            "robots": int(state),
            "robots_until": until,
            "crawl_delay": crawl_delay,
            "failed": int(not self._answered),
            "depth": next(iter(self.lease.urls["depth"]), 0),
        }
        if tdm:
            fact["tdm"] = tdm
        if asked > crawl_delay:
            fact["crawl_delay_asked"] = asked
        if damaged:
            fact["damaged"] = 1
        pointer = await self._keep_robots(url, fetched, fact, reason)
        self._robots = {"state": int(state), "until": until, "rules": pointer, "crawl_delay": crawl_delay}
        if state is not Robots.DENY:
            self._services.learnt_robots(self.lease.visit, self._robots)
            return not self._is_throttled(fetched) and self._outcome == "ok"
        self._outcome, self._reason = "failed", reason or Reason.ROBOTS_UNREACHABLE
        self._is_throttled(fetched)
        return False

    def _is_throttled(self, fetched: Fetched | None) -> bool:
        """Whether the answer asks for fewer requests; then the visit ends by that."""
        if fetched is None or fetched.reason is not Reason.OK:
            return False
        retry_after = judge(fetched, 0, self._config).retry_after
        if fetched.status not in THROTTLES and not retry_after:
            return False
        self._outcome, self._reason, self._retry_after = "throttled", Reason.THROTTLED, retry_after
        return True

    async def _ask_tdmrep(self) -> str | None:
        """The lines of the host's tdmrep.json, each of its answers archived as a unit of its own; empty where it has
        none, or where robots.txt forbids it; None when it could not be asked in this visit, however long that may
        wait, or the host is too busy: then the visit is over."""
        url, patience = self._at_root(tdmrep.PATH), self._patience
        self._patience = float("inf")
        try:
            for _ in range(self._config.robots.redirects_max + 1):
                here = split(url)[1] == self.lease.host
                if (here and self._rules is not None and not self._rules.allowed(url)) or self._services.opted_out(url):
                    return ""
                fetched, refused = await self._ask_robots(url, tdmrep.BYTES_MAX)
                if fetched is None:
                    return None if refused is None else ""
                await self._keep_robots(url, fetched, None, fetched.reason)
                target = self._redirect(url, fetched)
                if target is None:
                    break
                url = target
        finally:
            self._patience = patience
        if here and self._is_throttled(fetched):
            return None
        if (
            fetched is None
            or fetched.reason is not Reason.OK
            or fetched.exchange is None
            or not 200 <= fetched.status < 300
        ):
            return ""
        return tdmrep.lines(fetched.exchange.decoded(tdmrep.BYTES_MAX)[0])

    async def _keep_robots(
        self, url: bytes, fetched: Fetched | None, fact: dict[str, Any] | None, reason: Reason = Reason.OK
    ) -> Pointer | None:
        unit = Unit(
            url=url, segment=NO_SEGMENT, row=0, key=0, host=self.lease.host_key, carried=Carried(), cls=Class.NONE,
            reason=reason, status=0, start=self._clock.now(), robots=fact,
        )  # fmt: skip
        if fetched is None or fetched.exchange is None:
            unit.status = CRAWL_LOG_STATUS[Reason(unit.reason)]
        else:
            unit.status = fetched.status
            if fetched.reason is Reason.OK:
                unit.reason = judge(fetched, 0, self._config).reason
        if fetched is not None:
            self._stamp(unit, fetched)
        return await self._services.keep(unit, None if fetched is None else fetched.exchange)
