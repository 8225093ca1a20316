"""Pages in slices: while one is read the loop goes on, and what the loop was held for is no fetch's fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.steps import Steps
from irlcrawl.worker.fetch import slices
from irlcrawl.worker.fetch.connection import GIVE_WAY_BYTES, LOOK_SECONDS, SLOW_BYTES, Permits
from irlcrawl.worker.fetch.http import BODY_FREE_BYTES, BODY_LARGE_MAX, Fetched, Fetcher
from irlcrawl.worker.fetch.slices import Slices
from tests.worker.fetch.both_clients import configured, current, request, run
from tests.worker.fetch.loopback import Loopback, response

STEP_SECONDS = 0.004


class Work:
    """Pages whose steps take 4 ms each, on a clock that only they move."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.at_work: set[str] = set()
        self.most = 0
        self.longest = 0.0
        self._passed = self.clock.now()

    def page(self, name: str, steps: int) -> Steps[str]:
        for at in range(steps):
            self.clock.advance(STEP_SECONDS)
            if at == slices.AT_ONCE_STEPS:
                self.at_work.add(name)
                self.most = max(self.most, len(self.at_work))
            yield
        self.at_work.discard(name)
        return name

    async def watch(self) -> None:
        """How long the loop went without a pass."""
        while True:
            self.longest = max(self.longest, self.clock.now() - self._passed)
            self._passed = self.clock.now()
            await asyncio.sleep(0)


def test_thirty_large_pages_at_once_hold_no_pass_of_the_loop_for_long_and_few_are_open() -> None:
    async def body() -> tuple[Work, list[str]]:
        work = Work()
        reader = Slices(work.clock)
        watch = asyncio.ensure_future(work.watch())
        names = await asyncio.gather(*(reader.run(work.page(str(n), 100)) for n in range(30)))
        watch.cancel()
        return work, names

    work, names = asyncio.run(body())
    assert names == [str(n) for n in range(30)]
    assert work.longest < 5 * slices.SLICE_SECONDS
    assert work.most <= slices.PAGES_MAX


def test_an_ordinary_page_waits_for_no_large_one() -> None:
    async def body() -> list[str]:
        work, done = Work(), []
        reader = Slices(work.clock)

        async def read(name: str, steps: int) -> None:
            done.append(await reader.run(work.page(name, steps)))

        large = [asyncio.ensure_future(read(f"large{n}", 1000)) for n in range(5)]
        for _ in range(20):
            await asyncio.sleep(0)
        await read("ordinary", 1)
        await asyncio.gather(*large)
        return done

    assert asyncio.run(body())[0] == "ordinary"


def test_a_page_that_breaks_breaks_alone() -> None:
    def broken() -> Steps[str]:
        for _ in range(50):
            yield
        raise ValueError("broken")

    async def body() -> None:
        work = Work()
        reader = Slices(work.clock)
        with pytest.raises(ValueError, match="broken"):
            await reader.run(broken())
        assert await reader.run(work.page("next", 50)) == "next"

    asyncio.run(body())


def test_a_held_loop_was_taken_for_a_slow_server() -> None:
    """Its gaps grew, beside hosts whose pages held the loop."""
    if current["client"] == "aiohttp":
        return

    async def use(fetcher: Fetcher) -> tuple[Fetched, Fetched]:
        quick = await fetcher.fetch(request(server, host="b.test"))

        class Held:
            held = 1000.0

        fetcher.slices = Held()
        return quick, await fetcher.fetch(request(server))

    with Loopback({"/": response(b"x")}) as server:
        quick, late = run(configured(), use)
    assert quick.took == quick.ended - quick.started > 0
    assert late.took == 0 < late.ended - late.started


class Body:
    """A connection with a body, as Permits sees it."""

    def __init__(self, permits: Permits, size: int = 0) -> None:
        self.reader, self.body, self.ended = self, bytearray(size), False
        self.granted = permits.ask(self)  # type: ignore[arg-type]

    def permitted(self) -> None:
        self.granted = True

    def unpermitted(self) -> None:
        self.granted = False

    def overdue(self) -> None:
        self.ended = True


class Timed:
    """A loop's clock, and the one call that is due at a time."""

    def __init__(self) -> None:
        self.now, self.due = 0.0, list[Callable[[], None]]()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append(call)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        for call in self.due[:]:
            self.due.remove(call)
            call()


def permits_of(count: int, loop: Timed) -> Permits:
    return Permits(count, loop)  # type: ignore[arg-type]


def test_a_large_body_that_is_being_read_counts_among_those_that_may_come() -> None:
    permits = permits_of(2, Timed())
    first, second, third = (Body(permits) for _ in range(3))
    assert (first.granted, second.granted, third.granted) == (True, True, False)
    permits.more(-1)  # the first one is whole, and is read
    permits.give_back(first)  # type: ignore[arg-type]
    assert not third.granted
    permits.more(1)
    assert third.granted
    permits.give_back(second)  # type: ignore[arg-type]
    assert Body(permits).granted and not Body(permits).granted


def test_a_wait_for_a_permit_of_ours_counted_as_the_servers() -> None:
    """A page was cut at the deadline, and the gap of its host grew tenfold."""
    body, seconds = bytes(2 * BODY_FREE_BYTES), 0.3

    async def use(fetcher: Fetcher) -> Fetched:
        fetcher.hold_large(BODY_LARGE_MAX)
        asyncio.get_running_loop().call_later(2 * seconds, fetcher.hold_large, -BODY_LARGE_MAX)
        return await fetcher.fetch(request(server, bound=len(body)))

    with Loopback({"/": response(body)}) as server:
        fetched = run(configured(total_seconds=seconds, read_seconds=seconds), use)
    assert fetched.exchange is not None and fetched.exchange.body == body and fetched.exchange.truncated is None
    assert fetched.ended - fetched.started > 1.9 * seconds > seconds > fetched.took


def test_large_bodies_that_hardly_grow_gave_way_one_after_another_and_stayed_in_memory() -> None:
    """10 MB at once, and then a byte a second, from more servers than there are permits."""
    loop = Timed()
    permits = permits_of(2, loop)
    large, stalls = Body(permits, GIVE_WAY_BYTES + 1), Body(permits, GIVE_WAY_BYTES + 1)
    waits = Body(permits)
    loop.passes(LOOK_SECONDS)
    assert large.granted and not large.ended, "it may have stalled for a moment"
    stalls.body += bytes(SLOW_BYTES)
    loop.passes(LOOK_SECONDS)
    assert large.ended and not stalls.ended and not waits.granted
    permits.give_back(large)  # type: ignore[arg-type]
    assert waits.granted


def test_bodies_that_hardly_grow_kept_all_others_waiting() -> None:
    """Eight servers of two bytes a second had the permits of a worker for a minute each."""
    loop = Timed()
    permits = permits_of(2, loop)
    slow, fast = Body(permits), Body(permits)
    loop.passes(LOOK_SECONDS)
    assert slow.granted, "nobody waits"
    waits = [Body(permits) for _ in range(2)]
    fast.body += bytes(SLOW_BYTES)
    loop.passes(LOOK_SECONDS)
    assert (slow.granted, fast.granted, [one.granted for one in waits]) == (False, True, [True, False])
    permits.give_back(slow)  # type: ignore[arg-type]
    assert not waits[1].granted, "it had given its permit back already"
    loop.passes(LOOK_SECONDS / 2)
    assert waits[0].granted and not waits[1].granted, "it has had its permit for too short a time to be judged"
    loop.passes(LOOK_SECONDS / 2)
    assert not fast.granted and waits[0].granted and waits[1].granted
