"""A web with every kind of outcome, whose outcomes do not depend on who dies when: what a host does is a function of
the URL and the time, and every passing failure passes in fewer repeats than are allowed.

What may differ between two crawls of it `settled` leaves out: which URLs of a host are over its quota, and whether a
URL of a host that stops answering still had tries left when the host was given up.
"""

from __future__ import annotations

import asyncio
import random

from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Config, Site
from irlcrawl.frontier.dispatch.dns import Resolved, ResolveError
from tests.crawl.virtual_crawl import START, Answer, Names, Web

FETCH_S = 0.2
GAP_HOST_S, GAP_ADDRESS_S = 0.4, 0.2
CRAWL_DELAY_S = 2.0
THROTTLED_UNTIL, RETRY_AFTER_S = START + 8.0, 5
QUOTA_HOST, QUOTA_SITE = 36, 8
SHARED = "10.99.0.1"
HTML = {"content-type": "text/html"}
ROBOTS = b"User-agent: *\nDisallow: /secret\n"
SHARED_RULES = "http://h2.s2.test/robots.txt"  # another host's robots.txt leads there
SEED = "http://start.test/"
MENDED, MENDED_AT = "mended.test", START + 12.0
"""Its URLs fail for good before that, and are put back after it (tests/crash/crawl.py: operator)."""
MENDED_URLS = [f"http://{MENDED}/r{n}" for n in range(5)]

TREES = [f"h{n}.s{n % 5}.test" for n in range(9)]
UNREACHED = {
    "connect": Reason.CONNECT, "timeout": Reason.TIMEOUT, "tls": Reason.TLS, "protocol": Reason.PROTOCOL,
    "lost": Reason.LOST,
}  # fmt: skip


class TimedNames(Names):
    """Addresses by name, the same in every life; `late.test` resolves from the third second on."""

    def __init__(self) -> None:
        super().__init__()
        self.answers |= {"nowhere.test": Reason.DNS, "private.test": Reason.ADDRESS}
        self.answers |= {"shared0.test": SHARED, "shared1.test": SHARED}

    async def resolve(self, name: str) -> Resolved:
        now = asyncio.get_running_loop().time()
        if name == "late.test" and now < START + 3:
            await asyncio.sleep(0.001)
            raise ResolveError(name, "no answer", Reason.DNS, permanent=False)
        if name not in self.answers:
            number = random.Random(name).randrange(1 << 22)
            self.answers[name] = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        return await super().resolve(name)


def tree(web: Web, host: str, pages: int, more: list[str]) -> None:
    """Pages in a binary tree; each links home, to a page that robots.txt forbids, and some to elsewhere."""
    for number in range(pages):
        below = [f"http://{host}/p{n}" for n in (2 * number + 1, 2 * number + 2) if n < pages]
        away = [more[(number * 7 + at) % len(more)] for at in range(2)]
        url = f"http://{host}/" if number == 0 else f"http://{host}/p{number}"
        web.page(url, [*below, f"http://{host}/", f"http://{host}/secret{number % 3}", *away])
    web.answers[f"http://{host}/robots.txt"] = Answer(200, {"content-type": "text/plain"}, ROBOTS)


def front(web: Web, host: str, pages: list[str]) -> None:
    web.page(f"http://{host}/", [f"http://{host}/{page}" for page in pages])


def build() -> Web:
    web = Web(fetch_s=FETCH_S)
    homes = [f"http://{host}/" for host in TREES]
    for host in TREES:
        tree(web, host, 31, homes)
    named = ["odd", "shared0", "shared1", "slow", "throttled", "flaky", "dying", "closed", "moved", "large", "late"]
    others = [*named, "nowhere", "private", "blocked", *UNREACHED]
    web.page(SEED, [*homes, *(f"http://{name}.test/" for name in others), "http://www.heavy.test/", *MENDED_URLS])
    front(web, "odd.test", ["gone", "error", "here", "loop", "cut", "not-html", "seemingly-empty", "absent", "absent2"])
    web.answers |= {
        "http://odd.test/gone": Answer(410, HTML, b"gone"),
        "http://odd.test/error": Answer(500, HTML, b"always"),
        "http://odd.test/here": Answer(301, {"location": "http://odd.test/there"}),
        "http://odd.test/there": Answer(302, {"location": "http://h1.s1.test/"}),
        "http://odd.test/loop": Answer(302, {"location": "http://odd.test/loop"}),
        "http://odd.test/cut": Answer(200, HTML, b"<p>" * 900, truncated="length"),
        "http://odd.test/not-html": Answer(200, {"content-type": "image/png"}, random.Random(1).randbytes(9000)),
        "http://odd.test/seemingly-empty": Answer(200, HTML, b""),
    }
    for host in ("shared0.test", "shared1.test"):
        front(web, host, [f"s{n}" for n in range(5)])
        for n in range(5):
            web.page(f"http://{host}/s{n}")
    front(web, "slow.test", [f"d{n}" for n in range(4)])
    web.answers["http://slow.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nCrawl-delay: %d\n" % CRAWL_DELAY_S)
    front(web, "throttled.test", [f"t{n}" for n in range(4)])
    web.moods["throttled.test"] = _throttled
    front(web, "flaky.test", [f"f{n}" for n in range(3)])
    web.moods["flaky.test"] = lambda url, now: Answer(reason=Reason.CONNECT) if now < START + 5 else None
    front(web, "dying.test", [f"y{n}" for n in range(5)])
    web.moods["dying.test"] = _dying
    web.moods["closed.test"] = lambda url, now: Answer(500)
    front(web, "moved.test", ["m1", "m2"])
    web.answers["http://moved.test/robots.txt"] = Answer(301, {"location": SHARED_RULES})
    front(web, "large.test", [f"q{n}" for n in range(QUOTA_HOST + 6)])
    front(web, "www.heavy.test", [f"w{n}" for n in range(QUOTA_SITE + 6)])
    front(web, "late.test", ["l1"])
    web.moods[MENDED] = _mended
    for url in MENDED_URLS:
        web.page(url)
    for name, reason in UNREACHED.items():
        web.moods[f"{name}.test"] = lambda url, now, reason=reason: Answer(reason=reason)
    return web


def _throttled(url: str, now: float) -> Answer | None:
    if now >= THROTTLED_UNTIL or url.endswith("/robots.txt"):
        return None
    return Answer(429, {"retry-after": str(RETRY_AFTER_S)})


def _mended(url: str, now: float) -> Answer | None:
    return Answer(reason=Reason.PROTOCOL) if now < MENDED_AT and url in MENDED_URLS else None


def _dying(url: str, now: float) -> Answer | None:
    return None if url in ("http://dying.test/", "http://dying.test/robots.txt") else Answer(reason=Reason.CONNECT)


def configure(config: Config) -> None:
    """Small numbers everywhere, so that rolls, compactions, spills and several turns happen in a crawl of a minute."""
    politeness = config.politeness
    politeness.gap_host_seconds, politeness.gap_address_seconds = GAP_HOST_S, GAP_ADDRESS_S
    politeness.retry_delay_seconds, politeness.retries_max = 1.0, 3
    politeness.backoff_seconds = 1.0
    politeness.visit_seconds = 2.0
    politeness.horizon_seconds = 6.0
    politeness.rest_seconds, politeness.rest_max_seconds, politeness.host_dead_hours = 1.0, 20.0, 8 / 3600
    config.archive.archive_sync_seconds = 3.0
    config.frontier.harvest_seconds = 2.5
    config.archive.log_roll_bytes = 20_000
    config.limits.pages_per_host = QUOTA_HOST
    config.budgets.base, config.budgets.seed_floor = 4, 10
    config.site["blocked.test"] = Site(block=True)
    config.site["heavy.test"] = Site(pages_max=QUOTA_SITE)


def settled(outcomes: dict[str, tuple[str, str]]) -> dict[str, object]:
    """What two crawls of this web agree on, whoever died in them."""
    told: dict[str, object] = {}
    for url, (outcome, reason) in outcomes.items():
        host = url.split("/")[2]
        if host in ("large.test", "www.heavy.test"):
            key = f"{host} {outcome} {reason}"
            count = told.get(key, 0)
            assert isinstance(count, int)
            told[key] = count + 1
        elif host == "dying.test" and outcome == "failed":
            told[url] = outcome
        else:
            told[url] = (outcome, reason)
    return told
