"""A crawl with machines: recall 1 and nothing twice, whatever the network does."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
from pathlib import Path
from typing import Any

from drum import Damaged, Files

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main
from irlcrawl.cluster import node
from irlcrawl.cluster.nodes import DEATHS_MAX
from irlcrawl.config.toml import to_toml
from tests.cluster.virtual_cluster import Cluster, Machine, Weather
from tests.crawl.virtual_crawl import Web, star

HOSTS, PAGES = 3, 4
LIMIT = 150
HOUR = 3600.0


class Anything(set[bytes]):
    """Repeats are counted by the test."""

    def __contains__(self, one: object) -> bool:
        return False


def test_urls_and_verify_say_on_which_machine_pages_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    assert crawl.run() is ExitCode.DONE
    job = crawl.job()
    job.write_config(to_toml(crawl.config))
    assert main.main(["urls", str(job.path), "--machine"]) == ExitCode.DONE
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert sorted(row[2] for row in rows) == urls and {row[3] for row in rows} == {"m0", "m1"}
    assert main.main(["verify", str(job.path), "--quiet"]) == ExitCode.DONE
    told = capsys.readouterr().out
    assert "more archives lie on machine m0" in told and "more archives lie on machine m1" in told


def web() -> tuple[Web, list[str]]:
    links: dict[str, list[str]] = {}
    for number in range(HOSTS):
        links |= star(f"h{number}.test", PAGES)
    home = links["http://h0.test/"]
    home += [f"http://h{number}.test/" for number in range(1, HOSTS)]
    return Web(links), sorted(links)


def cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weather: Weather, machines: int = 2
) -> tuple[Cluster, list[str]]:
    made, urls = web()
    crawl = Cluster(tmp_path / "job", made, ["http://h0.test/"], monkeypatch, workers=0, weather=weather)
    crawl.config.politeness.gap_host_seconds = 1.0
    crawl.machines = [Machine(crawl, f"m{number}") for number in range(machines)]
    return crawl, urls


def test_machines_fetch_all_and_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    assert crawl.run() is ExitCode.DONE
    assert sorted(crawl.outcomes()) == urls
    assert set(crawl.web.pages_asked.values()) == {1}
    assert not list((tmp_path / "job").glob("warcs/*")), "archives stay where they were written"
    assert all(list(machine.path.glob("warcs/*")) for machine in crawl.machines)
    assert not any(list(machine.path.glob("state/harvest-*")) for machine in crawl.machines), (
        "what is committed is not kept"
    )


WEATHERS = [Weather(0.2, 0.2, 0.5, seed) for seed in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_whatever_the_network_does_a_thousand_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    rng = random.Random(first)
    for seed in range(first, first + 50):
        weather = Weather(rng.uniform(0, 0.5), rng.uniform(0, 0.5), rng.uniform(0, 3), seed)
        with monkeypatch.context() as patched:
            crawl, urls = cluster(tmp_path / str(seed), patched, weather)
            assert crawl.run() is ExitCode.DONE, weather
            assert sorted(crawl.outcomes()) == urls and set(crawl.web.pages_asked.values()) == {1}, weather
        shutil.rmtree(tmp_path / str(seed), ignore_errors=True)


@pytest.mark.parametrize("first", range(5))
def test_whatever_the_network_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """A fifth of the packets is lost, a fifth comes twice, each is late by up to half a second: no order is left."""
    for number, weather in enumerate(WEATHERS[first::5]):
        with monkeypatch.context() as patched:
            crawl, urls = cluster(tmp_path / str(number), patched, weather)
            assert crawl.run() is ExitCode.DONE
            assert sorted(crawl.outcomes()) == urls and set(crawl.web.pages_asked.values()) == {1}


def gaps(crawl: Cluster) -> float:
    """The least time between two requests to one host."""
    last: dict[str, float] = {}
    least = HOUR
    for at, url in sorted(crawl.web.log):
        host = url.split("/")[2]
        least = min(least, at - last.get(host, -HOUR))
        last[host] = at + crawl.web.fetch_s
    return least


KILLED = ("worker", "machine", "frontier", "frontier and machine", "cut for a minute")


async def killed(crawl: Cluster, what: str, rng: random.Random, after_s: float) -> None:
    await asyncio.sleep(after_s)
    machine = rng.choice(crawl.machines)
    if what == "worker" and machine.workers:
        machine.workers[0].kill()
    if "cut" in what:
        machine.cut = True
        asyncio.get_running_loop().call_later(60.0, setattr, machine, "cut", False)
    if "machine" in what:
        machine.kill()
        asyncio.get_running_loop().call_later(5.0, machine.start)
    if "frontier" in what:
        crawl.kill_frontier()


@pytest.mark.parametrize("what", KILLED)
@pytest.mark.parametrize("seed", range(3))
def test_kills_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, seed: int) -> None:
    """At most what was in flight is asked twice, and no host before its gap is over."""
    crawl, urls = cluster(tmp_path, monkeypatch, Weather(0.05, 0.05, 0.1, seed))
    crawl.archived = Anything()
    rng = random.Random(seed)

    assert crawl.run(lambda _: killed(crawl, what, rng, rng.uniform(1.0, 12.0))) is ExitCode.DONE
    assert sorted(crawl.outcomes()) == urls
    repeats = sum(crawl.web.pages_asked.values()) - len(urls)
    assert repeats <= HOSTS, "one request of a host at a time"
    assert gaps(crawl) >= 1.0


@pytest.mark.parametrize("what", KILLED)
@pytest.mark.parametrize("seed", range(2))
def test_kills_pass_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, seed: int) -> None:
    """What a machine hands over after the death of a frontier, or of its own, is counted once: `limits.pages` pages are
    fetched, no more and no fewer."""
    links: dict[str, list[str]] = {}
    for number in range(12):
        links |= star(f"h{number}.test", 30)
    crawl = Cluster(tmp_path / "job", Web(links, fetch_s=0.2), [f"http://h{number}.test/" for number in range(12)],
                    monkeypatch, workers=0, weather=Weather(0.05, 0.05, 0.1, seed))  # fmt: skip
    crawl.config.limits.pages = LIMIT
    crawl.config.politeness.gap_host_seconds = 0.5
    crawl.machines = [Machine(crawl, f"m{number}", places=2) for number in range(2)]
    crawl.archived = Anything()
    rng = random.Random(seed)
    assert crawl.run(lambda _: killed(crawl, what, rng, rng.uniform(2.0, 8.0))) is ExitCode.SIZE_LIMIT
    assert len(crawl.outcomes()) == LIMIT
    assert 0 <= sum(crawl.web.pages_asked.values()) - LIMIT <= 12, "one request of a host at a time"


def test_a_machine_that_leaves_for_an_hour_comes_back_with_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    crawl.wait_s = 2 * HOUR
    crawl.archived = Anything()

    standing: dict[str, Any] = {}

    async def leave(_: Any) -> None:
        await asyncio.sleep(5.0)
        crawl.machines[0].cut = True
        await asyncio.sleep(HOUR)
        assert crawl.nodes is not None
        standing.update({one["name"]: one for one in crawl.nodes.record()})
        crawl.machines[0].cut = False

    assert crawl.run(leave) is ExitCode.DONE
    away = standing["m0"]
    assert (away["state"], away["workers"], away["owed"]) == ("away", 0, 1) and standing["m1"]["state"] == "here"
    assert away["visits"] and away["heard_s"] >= HOUR and 0 < away["given_up_in_s"] <= HOUR + 60
    assert sorted(crawl.outcomes()) == urls
    assert sum(crawl.web.pages_asked.values()) - len(urls) <= HOSTS
    assert crawl.clock.now() - crawl.web.log[0][0] > HOUR, "nobody else was given what it had in hand"


@pytest.mark.parametrize("back", [False, True])
def test_a_machine_that_leaves_for_good_or_comes_back_with_an_old_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    """What it had is fetched again; its old disk brings nothing in a second time, and it works on."""
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    crawl.archived = Anything()
    crawl.wait_s = 60.0
    home = crawl.web.answers["http://h1.test/"]
    home.body += b'<a href="http://late.test/">'
    crawl.web.page("http://late.test/", [f"http://late.test/{number}" for number in range(200)])
    for number in range(200):
        crawl.web.page(f"http://late.test/{number}")
    late = [url for url in crawl.web.answers if "late" in url]

    async def leave(_: Any) -> None:
        await asyncio.sleep(5.0)
        machine = crawl.machines[0]
        machine.kill()
        if back:
            await asyncio.sleep(120.0)
            machine.start()

    assert crawl.run(leave) is ExitCode.DONE
    assert sorted(crawl.outcomes()) == sorted(urls + late)
    assert not back or not list(crawl.machines[0].path.glob("state/harvest-*"))


def test_a_damaged_archive_of_a_machine_was_counted_as_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had harvests that nobody had taken in yet, and handed them over without a look at what they cover."""
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    crawl.archived = Anything()
    crawl.wait_s = 120.0
    failed: list[BaseException] = []

    async def damage(_: Any) -> None:
        await asyncio.sleep(5.0)
        machine = crawl.machines[0]
        machine.cut = True
        await asyncio.sleep(60.0)
        machine.kill()
        await asyncio.sleep(1.0)
        assert list(machine.path.glob("state/harvest-*")), "it wrote down what it had when its session was over"
        (archive,) = (machine.path / "warcs").iterdir()
        content = bytearray(archive.read_bytes())
        content[-100] ^= 1
        archive.write_bytes(content)
        machine.cut = False
        machine.start()
        assert machine.task is not None
        with pytest.raises(Damaged) as caught:
            await machine.task
        failed.append(caught.value)

    assert crawl.run(damage) is ExitCode.DONE
    assert "m0" in str(failed[0]) and ".warc" in str(failed[0]), "it names the archive"
    assert sorted(crawl.outcomes()) == urls


def test_what_a_machine_told_but_never_handed_over_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies when it has told the end of a visit, and not yet shipped what the visit brought. The crawl had those URLs
    for done, and waited for them without an end."""
    crawl, urls = cluster(tmp_path, monkeypatch, Weather(), machines=1)
    crawl.archived = Anything()
    crawl.wait_s = 60.0
    crawl.config.limits.pages = len(urls) + 1
    other = Machine(crawl, "m1")

    async def die(_: Any) -> None:
        crawl.loop.on_visit = lambda *_: crawl.machines[0].kill()
        await asyncio.sleep(20.0)
        crawl.loop.on_visit = lambda *_: None
        other.start()

    assert crawl.run(die) is ExitCode.DONE
    assert sorted(crawl.outcomes()) == urls


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_that_is_told_to_end_hands_over_and_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    crawl, urls = cluster(tmp_path, monkeypatch, Weather(0.05, 0.05, 0.1, seed))
    crawl.wait_s = HOUR
    crawl.archived = Anything()
    machine = crawl.machines[0]
    ended: list[str] = []

    async def leave(_: Any) -> None:
        await asyncio.sleep(5.0)
        assert machine.task is not None
        machine.leaving.set()
        ended.append(await machine.task)

    assert crawl.run(leave) is ExitCode.DONE
    assert ended == [node.LEFT]
    assert sorted(crawl.outcomes()) == urls
    assert sum(crawl.web.pages_asked.values()) - len(urls) <= HOSTS
    assert crawl.clock.now() - crawl.web.log[0][0] < HOUR, "others were given what it had in hand"


class NoRoom(Files):
    """Of a machine: `full`, its archives cannot be written; `scarce`, little room is left."""

    full = scarce = False

    def write(self, handle: Any, data: Any) -> None:
        if self.full and ".warc" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(handle, data)

    def free(self, path: Path) -> int:
        return 1000 if self.scarce else super().free(path)


@pytest.mark.parametrize(("what", "why"), [("full", "there is no room on its disk"), ("scarce", node.NO_ROOM)])
def test_the_full_disk_of_a_machine_does_not_stop_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, why: str
) -> None:
    """The machine goes home, and says why; others fetch what it had in hand."""
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    crawl.wait_s = HOUR
    crawl.archived = Anything()
    machine = crawl.machines[0]
    machine.files = disk = NoRoom()

    async def fill(_: Any) -> None:
        await asyncio.sleep(5.0)
        setattr(disk, what, True)

    assert crawl.run(fill) is ExitCode.DONE
    assert machine.task is not None and machine.task.result() == why
    assert sorted(crawl.outcomes()) == urls
    assert crawl.clock.now() - crawl.web.log[0][0] < HOUR


def test_workers_that_die_at_once_on_one_machine_are_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    crawl.wait_s = HOUR
    machine, begun = crawl.machines[0], []
    start = machine._worker

    def stillborn(stream: int) -> Any:
        begun.append(stream)
        process, sock = start(stream)
        asyncio.get_running_loop().call_later(0.1, process.kill)
        return process, sock

    machine._worker = stillborn  # type: ignore[method-assign]
    crawl.archived = Anything()
    assert crawl.run() is ExitCode.DONE
    assert sorted(crawl.outcomes()) == urls
    assert machine.task is not None and "died one after another" in machine.task.result()
    assert len(begun) == DEATHS_MAX


def test_a_start_that_waits_for_machines_says_for_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    crawl.archived = Anything()
    standing: list[dict[str, Any]] = []

    async def fall(_: Any) -> None:
        await asyncio.sleep(5.0)
        crawl.machines[0].kill()
        asyncio.get_running_loop().call_later(100.0, look)
        crawl.kill_frontier()

    def look() -> None:
        assert crawl.nodes is not None
        standing.extend(crawl.nodes.record())
        crawl.machines[0].start()

    assert crawl.run(fall) is ExitCode.DONE
    assert sorted(crawl.outcomes()) == urls
    assert "before these machines have handed over what they have" in caplog.text
    assert [(one["name"], one["state"], one["heard_s"] is None, one["owed"]) for one in standing] == [
        ("m0", "away", True, 1), ("m1", "here", False, 0)
    ]  # fmt: skip
    assert 480 <= standing[0]["given_up_in_s"] <= 520, "of the 600 s it is waited for"


def test_a_stop_waits_ten_seconds_for_a_machine_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crawl, urls = cluster(tmp_path, monkeypatch, Weather())
    crawl.archived = Anything()
    stopped: list[float] = []

    async def stop(_: Any) -> None:
        await asyncio.sleep(5.0)
        crawl.machines[0].kill()
        stopped.append(crawl.clock.now())
        crawl.loop.stop(ExitCode.INTERRUPTED)

    assert crawl.run(stop) is ExitCode.INTERRUPTED
    assert crawl.clock.now() - stopped[0] <= 10.0
    assert caplog.text.count("says nothing: killing it") <= 1
    for machine in crawl.machines:
        machine.task = None  # started again
    assert crawl.run() is ExitCode.DONE
    assert sorted(crawl.outcomes()) == urls
