"""I3 inside a visit, under virtual time: whatever the host does, no request starts sooner than the gap after the end of
the one before, and what a visit reports is what it did."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Carried, Robots
from irlcrawl.config.keys import Config, Site
from irlcrawl.web.robots import Rules
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.fetch.http import Fetched, Request
from irlcrawl.worker.fetch.lease import Lease, urls_alike
from irlcrawl.worker.fetch.terms import TermsOf
from irlcrawl.worker.fetch.visit import Detour, Visit
from irlcrawl.worker.fetch.wire import Message
from irlcrawl.worker.harvest.rules_log import Pointer

START = 1000.0  # small, so that the nanosecond an event loop adds to its time is more than rounding
ANSWERS = ["200", "404", "301", "302", "429", "503", "500", "stop", "stale", "CONNECT", "LOST", "TIMEOUT"]
RULES = b"User-agent: *\nDisallow: /no\nCrawl-delay: %g\n"


class JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, moves the clock."""

    clock: VirtualClock

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        assert ready or timeout is not None, "everything waits for something that cannot come"
        if not ready and timeout:
            self.clock.advance(timeout)
        return ready


class Web:
    """A fetcher and everything else a visit asks of its worker. `answers`: (seconds, what) for each request in turn."""

    def __init__(self, config: Config, clock: VirtualClock, answers: Sequence[tuple[float, str]]) -> None:
        self.config, self.clock = config, clock
        self.fetcher: Any = self
        self.terms = TermsOf(config, {"file": [["Cookie", "id=1"]]})
        self.signer: Any = None
        self.stopping = asyncio.Event()
        self.redirected: dict[int, tuple[bytes, int]] = {}
        self.answers = list(answers)
        self.log: list[tuple[float, float, Request, str]] = []
        self.units: list[Unit] = []
        self.detours: list[tuple[str, int]] = []
        self.delay = 0.0
        self.told: list[float] = []  # Crawl-delays of the rules it was told of
        self.left_alone: set[bytes] = set()  # URLs on the opt-out list
        self.unreadable: set[bytes] = set()

    async def fetch(self, request: Request) -> Fetched:
        started = self.clock.now()
        seconds, what = self.answers.pop(0) if self.answers else (0.0, "200")
        if what == "stop":
            self.stopping.set()
            what = "200"
        stale = what == "stale" and bool(self.log) and self.log[-1][3] != "stale"  # a first connection cannot be stale
        if what == "stale" and not stale:
            what = "LOST"
        await asyncio.sleep(seconds)
        ended = self.clock.now()
        self.log.append((started, ended, request, what))
        if not what.isdigit():
            reason = Reason.LOST if stale else Reason[what]
            return Fetched(reason, None, 0, started, ended, stale)
        location = {"301": b"/elsewhere", "302": b"http://other.test/robots.txt"}.get(what)
        header = b"HTTP/1.1 %s X\r\n" % what.encode() + (b"Location: %s\r\n\r\n" % location if location else b"\r\n")
        exchange = Exchange(request.url, request.address, b"", header, b"")
        return Fetched(Reason.OK, exchange, int(what), started, ended)

    async def keep(self, unit: Unit, exchange: Exchange | None, rules: Rules | None = None) -> Pointer | None:
        self.units.append(unit)
        return (1, 0, 9) if unit.robots and unit.robots.get("robots") == Robots.RULES else None

    def opted_out(self, url: bytes) -> bool:
        return url in self.left_alone

    def learnt_robots(self, visit: int, robots: dict[str, Any]) -> None:
        self.told.append(robots["crawl_delay"])

    def rules_at(self, pointer: Sequence[int]) -> Rules | None:
        return Rules(RULES % self.delay, "testbot")

    def rules_of(self, exchange: Exchange | None, tdm: str = "") -> Rules:
        assert exchange is not None
        return Rules(RULES % self.delay, "testbot")

    async def detour(self, visit: int, url: bytes, fetch_s: float) -> Detour:
        await asyncio.sleep(0.5)
        self.detours.append(("granted", len(self.detours)))
        return Detour(len(self.detours), "10.0.0.2", None)

    def detour_end(
        self, detour: Detour, ended: float | None, fetch_s: float, outcome: str = "ok", retry_after: float | None = None
    ) -> None:
        self.detours.append(("ended", detour.number))

    blocked = None

    async def charged(self, visit: int) -> bool:
        return True

    async def room(self) -> None:
        pass


def visit(
    answers: Sequence[tuple[float, str]],
    targets: Sequence[str],
    gap: float,
    robots: Robots,
    delay: float,
    factor: float,
    **paced: Any,
) -> tuple[Web, Message]:
    clock = VirtualClock(START)
    selector = JumpingSelector()
    selector.clock = clock
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = clock.now  # type: ignore[method-assign]
    config = Config()
    config.politeness.gap_host_factor = factor
    config.site["a.test"] = Site(secrets_file="file", types=["text/html"])

    async def body() -> tuple[Web, Message]:
        web = Web(config, clock, answers)
        web.delay = delay
        texts = [f"http://a.test{target}" for target in targets]
        urls = urls_alike(3, 0, range(len(texts)), texts, Carried(1, 0, 2, 2))
        known = {
            "state": int(robots), "until": 0.0 if robots is Robots.UNKNOWN else clock.now() + 1e6, "rules": [1, 0, 9],
            "crawl_delay": delay if robots is Robots.RULES else 0.0,
        }  # fmt: skip
        lease = Lease(1, "a.test", "http", 80, "10.0.0.1", 99, gap, known, urls, clock.now() + 30.0, **paced)
        return web, await Visit(lease, web).run()

    try:
        return loop.run_until_complete(body())
    finally:
        loop.close()


@settings(max_examples=300, deadline=None)
@given(
    answers=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.001, 0.05, 0.4, 2.0, 20.0]),
            st.sampled_from(ANSWERS),
        ),
        max_size=8,
    ),
    targets=st.lists(st.sampled_from(["/", "/b", "/no", "/c"]), max_size=6),
    gap=st.sampled_from([0.0, 0.001, 0.3, 1.0, 4.0, 7.0]),
    robots=st.sampled_from([Robots.UNKNOWN, Robots.RULES, Robots.ALLOW, Robots.DENY]),
    delay=st.sampled_from([0.0, 0.1, 2.0, 100.0]),
    factor=st.sampled_from([0.0, 1.0, 10.0]),
)
def test_no_request_starts_before_its_gap_is_over(
    answers: list[tuple[float, str]], targets: list[str], gap: float, robots: Robots, delay: float, factor: float
) -> None:
    web, end = visit(answers, targets, gap, robots, delay, factor)
    rules = robots is Robots.RULES or (end["robots"] or {}).get("state") == Robots.RULES
    pages = {unit.url for unit in web.units if unit.segment != NO_SEGMENT}
    for (began, over, *_), (start, _, following, _) in zip(web.log, web.log[1:], strict=False):
        promised = max(gap, min(factor * (over - began), 300.0), delay if rules and following.url in pages else 0.0)
        assert start >= over + promised - 1e-6
    assert all(start <= START + 30.0 for start, *_ in web.log)
    _check_report(web, end, targets)


def _check_report(web: Web, end: Message, targets: list[str]) -> None:
    leased = [unit for unit in web.units if unit.segment != NO_SEGMENT]
    assert [unit.row for unit in leased] == list(range(end["reached"])), "units are the lease's first URLs, in order"
    assert end["requests"] == len(web.log)
    if web.log:
        assert (end["started"], end["ended"]) == (web.log[0][0], web.log[-1][1])
    else:
        assert (end["started"], end["ended"]) == (None, None)
    for unit in leased:
        assert (unit.reason == Reason.ROBOTS) == (unit.cls == Class.EXCLUDED)
    asked = [request.target for _, _, request, _ in web.log]
    if (end["robots"] or {}).get("state") == Robots.RULES or any(unit.reason == Reason.ROBOTS for unit in leased):
        assert "/no" not in asked, "robots are obeyed"
    for started, ended in zip(web.detours[::2], web.detours[1::2], strict=True):
        assert (started[0], ended[0]) == ("granted", "ended"), "every detour that was granted is given back"
    assert [request.address for *_, request, _ in web.log if request.host == "a.test"].count("10.0.0.2") == 0
    trouble = [what for *_, what in web.log if what in ("429", "503", "CONNECT", "LOST", "TIMEOUT")]
    if end["outcome"] in ("throttled", "failed") and web.log:
        assert trouble or end["robots"] is not None
    assert len(trouble) <= 1 or asked[0] == "/robots.txt", "trouble ends the visit"


def test_a_robots_redirect_that_takes_more_than_one_visit_goes_on_where_it_was() -> None:
    """A gap of 7 s is more than one visit may wait, so each visit makes one step."""
    web, end = visit([(0.0, "301")], ["/"], 7.0, Robots.UNKNOWN, 0.0, 0.0)
    assert (end["reached"], end["robots"], len(web.log)) == (0, None, 1)
    assert web.redirected == {99: (b"http://a.test/elsewhere", 1)}


PACED: dict[str, Any] = {"paces": {"address": 0.05}, "begin_by": START + 1.0}


def test_a_visit_of_a_shared_address_makes_one_request_and_tells_the_gap() -> None:
    """Others are visited at the same time: a second request would come between theirs."""
    web, end = visit([], ["/", "/b"], 0.3, Robots.UNKNOWN, 0.0, 0.0, **PACED)
    assert [request.target for _, _, request, _ in web.log] == ["/robots.txt"]
    assert (end["reached"], end["requests"], end["outcome"]) == (0, 1, "ok")
    web, end = visit([], ["/no", "/", "/b"], 0.3, Robots.RULES, 0.0, 0.0, **PACED)
    assert [request.target for _, _, request, _ in web.log] == ["/"] and end["reached"] == 2
    assert [unit.paces for unit in web.units] == [None, {"address": 0.05}]
    web, end = visit([(0.0, "stale")], ["/"], 0.0, Robots.ALLOW, 0.0, 0.0, **PACED)
    assert end["requests"] == 1


@pytest.mark.parametrize("what", ["301", "302"])  # on this host, to another
def test_a_robots_redirect_at_a_shared_address_asks_for_each_further_request(what: str) -> None:
    """In visits of their own, its steps would be forgotten by a worker with thousands of such hosts."""
    web, end = visit([(0.0, what)], ["/"], 0.3, Robots.UNKNOWN, 0.0, 0.0, **PACED)
    assert (end["reached"], end["requests"], web.redirected) == (0, 2, {})
    assert web.detours == [("granted", 0), ("ended", 1)] and end["robots"]["state"] == Robots.RULES
    assert [unit.paces for unit in web.units] == [{"address": 0.05}, None], "that of the detour is its own"


def test_a_request_to_a_shared_address_that_is_late_is_not_made() -> None:
    """Its time is over: the next ones are with other visits."""
    web, end = visit([], ["/"], 0.3, Robots.ALLOW, 0.0, 0.0, paces={"address": 0.05}, begin_by=START - 0.1)
    assert web.log == [] and (end["reached"], end["outcome"]) == (0, "unreached")


@pytest.mark.parametrize("delay", [1e308, 1e39, 1e11, 3601])
def test_a_crawl_delay_without_end_fits_where_times_are_kept(delay: float) -> None:
    """It became infinite in the host's record, and `irlcrawl why` could give no date."""
    web, ending = visit([], ["/"], 1.0, Robots.UNKNOWN, delay, 0.0)
    (fact,) = [unit.robots for unit in web.units if unit.robots]
    assert (fact["crawl_delay"], fact["crawl_delay_asked"]) == (3600.0, delay)
    assert ending["robots"]["crawl_delay"] == 3600.0 and web.told == [3600.0]


def test_secrets_of_a_host_are_not_sent_where_its_robots_txt_redirects_to() -> None:
    web, _ = visit([(0.0, "302"), (0.0, "200"), (0.0, "200")], ["/"], 0.0, Robots.UNKNOWN, 0.0, 0.0)
    sent = {asked.host: b"Cookie: id=1" in asked.terms.sent_block for _, _, asked, _ in web.log if asked.terms}
    assert sent == {"a.test": True, "other.test": False}


def test_pages_may_be_unwanted_and_robots_txt_never() -> None:
    web, _ = visit([(0.0, "200"), (0.0, "200")], ["/"], 0.0, Robots.UNKNOWN, 0.0, 0.0)
    assert [(asked.target, asked.wants is None) for _, _, asked, _ in web.log] == [("/robots.txt", True), ("/", False)]
