"""How a worker ends: told to stop or to abort, its pipe gone, garbage on it, killed; signals are not for it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import socket
import time
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.worker.fetch import service
from irlcrawl.worker.fetch.service import Worker
from irlcrawl.worker.fetch.wire import Message, open_wire
from irlcrawl.worker.harvest import builder
from tests.worker.archive.support import exchange_of, failed_unit, unit_of
from tests.worker.fetch.driver import UNKNOWN, Driver, Harvested, crawl_config
from tests.worker.fetch.loopback import Asked, Loopback, response, say
from tests.worker.fetch.test_service import PAGE, archived, origin


async def _never(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _soon(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.3)
    await say(asked, writer, PAGE)


def _wait_until_asked(server: Loopback, count: int) -> None:
    deadline = time.monotonic() + 10
    while len(server.asked) < count:
        assert time.monotonic() < deadline
        os.sched_yield()


def _last_words(worker: Driver, how: str, job: Path) -> tuple[Message, Harvested]:
    assert worker.stop(how) == 0
    return worker.end(), Harvested(job, worker.receive("harvest"))


def test_stop_finishes_the_exchange_in_flight_and_nothing_more(tmp_path: Path) -> None:
    with Loopback({"/": PAGE, "/soon": _soon}) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/", "/soon", "/", "/"])
        _wait_until_asked(server, 2)
        end, harvest = _last_words(worker, "stop", tmp_path)
        assert (end["reached"], end["outcome"], len(harvest.outcomes)) == (2, "ok", 2)
        assert len(server.asked) == 2
    assert [name.endswith(".warc.gz") for name in os.listdir(tmp_path / "warcs")] == [True]


def test_abort_drops_what_is_in_flight_and_hands_over_the_rest(tmp_path: Path) -> None:
    with Loopback({"/": PAGE, "/never": _never}) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/", "/never", "/"])
        worker.visit(origin(server, "b.test"), ["/never"], gap=1.0)
        _wait_until_asked(server, 3)
        end, harvest = _last_words(worker, "abort", tmp_path)
        ends = sorted((e["reached"], e["requests"]) for e in (end, worker.end()))
        assert ends == [(0, 1), (1, 2)] and len(harvest.outcomes) == 1


def test_abort_after_stop_still_ends_well(tmp_path: Path) -> None:
    with Loopback({"/never": _never}) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/never"])
        _wait_until_asked(server, 1)
        worker.send({"t": "stop"})
        assert worker.stop("abort") == 0
        assert worker.end()["reached"] == 0


def test_a_stop_ends_visits_that_wait(tmp_path: Path) -> None:
    pages = {"/": PAGE, "/robots.txt": response(b"", "Location: http://b.test/robots.txt", status="301 Moved")}
    with Loopback(pages) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/", "/"], gap=4.9)
        worker.visit(origin(server, "c.test"), ["/"], robots=UNKNOWN)
        worker.receive("detour")
        _wait_until_asked(server, 2)
        assert worker.stop() == 0
        assert sorted(worker.end()["reached"] for _ in range(2)) == [0, 1]


def test_a_worker_whose_pipe_closes_ends_and_archives_nothing_more(tmp_path: Path) -> None:
    with Loopback({"/": PAGE, "/never": _never}) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/", "/never", "/"])
        worker.visit(origin(server, "b.test"), ["/", "/"], gap=4.0)
        _wait_until_asked(server, 3)
        worker.sock.close()
        assert worker.process.wait(10) == 0
    assert [unit.row for unit, _, _ in archived(tmp_path)] in ([0, 3], [3, 0])


def test_a_worker_leaves_signals_to_the_frontier(tmp_path: Path) -> None:
    with Loopback({"/": PAGE}) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.receive("ready")
        # SIGUSR1 to all that is called irlcrawl, which asks the frontier how far it is, ended those that came later.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            worker.process.send_signal(number)
        assert worker.crawl(origin(server), ["/"])[0]["reached"] == 1


def test_garbage_on_the_wire_ends_the_worker_with_an_error(tmp_path: Path) -> None:
    with Driver(tmp_path, crawl_config()) as worker:
        worker.sock.sendall(b"\x05\x00\x00\x00hello")
        assert worker.process.wait(10) == 1


def test_a_killed_worker_loses_no_archived_page(tmp_path: Path) -> None:
    with Loopback({"/": PAGE, "/never": _never}) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/", "/", "/never"])
        _wait_until_asked(server, 3)
        worker.process.kill()
        worker.process.wait(10)
    assert [unit.row for unit, _, _ in archived(tmp_path)] == [0, 1]


@pytest.mark.parametrize("where", ["reading a page", "harvesting a page", "handing over"])
def test_no_harvest_covers_a_page_that_was_archived_as_memory_ran_out(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another hand-over that waited for its turn named the archive's end: the page was archived and in no harvest, so
    that it was fetched again."""
    config = crawl_config()
    config.page.near_duplicates = True

    def starve(words: object, *_: object) -> list[object]:
        if words:
            raise MemoryError
        return []

    async def scenario() -> None:
        sock, theirs = socket.socketpair()
        wire = await open_wire(sock, lambda _: None, lambda _: None)
        hello = {"config": dataclasses.asdict(config), "seed": 1, "stream": 0, "crawl": "test"}
        worker = Worker(hello, tmp_path, wire, Files())
        await worker.keep(failed_unit(), None)
        unit = unit_of()
        if where == "reading a page":
            monkeypatch.setattr(service, "discovering", starve)
        else:
            monkeypatch.setattr(builder, "sketches", starve)
            monkeypatch.setattr(builder, "WAITING_UNITS_MAX", 1 if where == "harvesting a page" else 9)
        body = b"<p>" + b" ".join(b"word%d" % n for n in range(100))
        if where == "handing over":
            await worker.keep(unit, exchange_of(unit, body))
            handing_over = await asyncio.gather(
                worker._hand_over(asked=True), worker._hand_over(asked=True), return_exceptions=True
            )
            assert isinstance(handing_over[0], MemoryError)
        else:
            with pytest.raises(MemoryError):
                await worker.keep(unit, exchange_of(unit, body))
            await worker._hand_over(asked=True)
        assert not list((tmp_path / "state").glob("harvest-*"))
        with pytest.raises(MemoryError):
            await worker.run()
        wire.close()
        theirs.close()

    for name in ("state", "warcs"):
        (tmp_path / name).mkdir()
    asyncio.run(scenario())
    assert [unit.url for unit, _, _ in archived(tmp_path)] == [failed_unit().url, unit_of().url]
