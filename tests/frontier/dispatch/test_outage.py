"""Our own network goes and comes back, in whole crawls under virtual time: nobody is charged, nothing is lost."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Reason
from irlcrawl.frontier.dispatch.outage import Outage
from irlcrawl.worker.archive.log_parts import read
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web, star

HOSTS = [f"h{number}.site{number}.test" for number in range(40)]
DOWN = START + 10.0


def web_of(hosts: list[str], pages: int = 60) -> Web:
    return Web({url: links for host in hosts for url, links in star(host, pages).items()})


def crawl_of(path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[str], workers: int = 2) -> Crawl:
    web = web_of(hosts)
    return Crawl(path, web, [f"http://{host}/" for host in hosts], monkeypatch, workers=workers)


def down(crawl: Crawl, since: float, until: float, reason: Reason = Reason.CONNECT, names: bool = True) -> None:
    """No server answers meanwhile, and (names) no resolver."""

    def mood(url: str, now: float) -> Answer | None:
        return Answer(reason=reason) if since <= now < until else None

    crawl.web.moods.update(dict.fromkeys(HOSTS, mood))
    if names:
        crawl.names.down_between = (since, until)


def entries(crawl: Crawl) -> list[str]:
    return [entry.notes["outcome"] for entry in read(Files(), str(JobDir(crawl.path).crawl_log))]


def starts(crawl: Crawl, since: float, until: float) -> list[float]:
    return [at for at, _ in crawl.web.log if since <= at < until]


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("reason", [Reason.CONNECT, Reason.LOST, Reason.TIMEOUT])
def test_a_minute_without_a_network_charges_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reason: Reason, names: bool
) -> None:
    """0 failed, 0 backed off, 0 repeats, at most a probe every two seconds meanwhile, fetching again within 10 s."""
    caplog.set_level(logging.WARNING, "irlcrawl.outage")
    crawl = crawl_of(tmp_path / "job", monkeypatch, HOSTS)
    down(crawl, DOWN, DOWN + 60.0, reason, names)
    backed_off: list[int] = []
    crawl.on_request = lambda url: backed_off.append(
        crawl.loop.dispatcher.politeness.delayed().get("backoff", 0) if crawl.loop else 0
    )
    assert crawl.run() == ExitCode.DONE
    assert set(entries(crawl)) == {"fetched", "none"}
    assert {outcome for outcome, _ in crawl.outcomes().values()} == {"fetched"}
    assert len(crawl.outcomes()) == len(HOSTS) * 61
    assert not any(backed_off)
    assert len(starts(crawl, DOWN + 10.0, DOWN + 60.0)) <= 25
    assert len(starts(crawl, DOWN + 60.0, DOWN + 70.0)) >= len(HOSTS)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "no resolver answers" if names else "more than half of 20 or more addresses do not answer",
        caplog.records[-1].message.partition(":")[0],
    ]
    assert caplog.records[-1].message.startswith("the network answers again after")


def test_a_crawl_that_starts_without_a_network_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path / "job", monkeypatch, HOSTS[:3])
    down(crawl, START, START + 3600.0)
    assert crawl.run() == ExitCode.DONE
    assert {outcome for outcome, _ in crawl.outcomes().values()} == {"fetched"}
    assert not starts(crawl, START, START + 3600.0)


def test_one_dead_host_is_charged_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the resolver alive and few addresses about, it is the host: at once, and after some rests it is dead."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, HOSTS[:2])
    crawl.web.moods[HOSTS[0]] = lambda url, now: Answer(reason=Reason.CONNECT)
    assert crawl.run() == ExitCode.DONE
    outcomes = crawl.outcomes()
    assert outcomes.pop(f"http://{HOSTS[0]}/") == ("failed", "connect")
    assert set(outcomes.values()) == {("fetched", "ok")}


def test_a_web_of_which_most_is_dead_is_no_outage_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Three quarters of the hosts never answer. A suspicion is refuted by the others, and the dead are charged."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, HOSTS)
    for host in HOSTS[:30]:
        crawl.web.moods[host] = lambda url, now: Answer(reason=Reason.TIMEOUT)
    assert crawl.run(hours=1.0) == ExitCode.DONE
    outcomes = crawl.outcomes()
    assert sorted(outcome for outcome in outcomes.values()) == sorted(
        [("failed", "timeout")] * 30 + [("fetched", "ok")] * 61 * 10
    )


def test_a_stop_in_an_outage_charges_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawl_of(tmp_path / "job", monkeypatch, HOSTS)
    down(crawl, DOWN, DOWN + 60.0, names=False)

    async def stop(crawl: Crawl) -> None:
        await asyncio.sleep(12.0)  # two seconds into it: doubts are held
        assert crawl.loop is not None
        crawl.loop.stop(ExitCode.INTERRUPTED)

    assert crawl.run(stop) == ExitCode.INTERRUPTED
    assert set(entries(crawl)) == {"fetched", "none"}
    assert crawl.run() == ExitCode.DONE
    assert {outcome for outcome, _ in crawl.outcomes().values()} == {"fetched"}


@pytest.mark.parametrize(("dead_from", "pause_s"), [(START, 130.0), (START + 2.0, 3610.0)])
def test_a_crawl_of_which_only_dead_hosts_are_left_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead_from: float, pause_s: float
) -> None:
    """No response will ever refute the suspicion: the pause had no end. It ends sooner where none of them ever
    answered; in neither case does a second one follow."""
    web = web_of(HOSTS[:24], pages=4)
    crawl = Crawl(tmp_path / "job", web, [f"http://{host}/" for host in HOSTS[:24]], monkeypatch)
    down(crawl, dead_from, float("inf"), Reason.TIMEOUT, names=False)
    paused: list[float] = []
    crawl.on_request = lambda url: paused.append(crawl.loop.outage.seconds if crawl.loop else 0.0)
    assert crawl.run() == ExitCode.DONE
    assert {"failed"} <= {outcome for outcome, _ in crawl.outcomes().values()} <= {"failed", "fetched"}
    assert pause_s - 20.0 < paused[-1] < pause_s


@pytest.mark.parametrize("asleep_from", [DOWN - 5.0, DOWN + 0.01, DOWN + 1.0, DOWN + 30.0])
def test_a_machine_that_sleeps_in_an_outage_charges_nobody_when_it_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asleep_from: float
) -> None:
    """The lid of a laptop closes: the network goes, then the machine sleeps. In the morning a silence of eight hours
    seemed to be theirs, and every host was charged before the network was back."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, HOSTS)
    night_s = 8 * 3600.0
    down(crawl, DOWN, DOWN + night_s + 60.0, Reason.TIMEOUT, names=False)

    async def sleep(crawl: Crawl) -> None:
        await asyncio.sleep(asleep_from - crawl.clock.now())
        crawl.clock.advance(night_s)

    assert crawl.run(sleep) == ExitCode.DONE
    assert set(entries(crawl)) == {"fetched", "none"}


def test_who_is_asked_when_the_machine_goes_to_sleep_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is well, and the connection that was open is dead when it wakes."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, HOSTS[:10])
    asleep = 0.0

    def fall_asleep(url: str) -> None:
        nonlocal asleep
        if not asleep and crawl.clock.now() > START + 10.0:
            asleep = crawl.clock.now()
            crawl.clock.advance(8 * 3600.0)

    crawl.on_request = fall_asleep
    lost = Answer(reason=Reason.LOST)
    crawl.web.moods.update(dict.fromkeys(HOSTS, lambda url, now: lost if asleep and now <= asleep else None))
    assert crawl.run() == ExitCode.DONE
    assert set(entries(crawl)) == {"fetched", "none"}


def test_a_name_that_fails_in_an_outage_is_not_asked_for_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver knows the root but not this name, and says so at once: the loop went round and round."""
    crawl = crawl_of(tmp_path / "job", monkeypatch, [*HOSTS, "late.test"])
    down(crawl, DOWN, DOWN + 200.0, names=False)
    crawl.names.answers["late.test"] = 1 << 30
    assert crawl.run() == ExitCode.DONE
    assert crawl.names.asked["late.test"] <= 110
    assert crawl.outcomes().pop("http://late.test/") == ("failed", "dns")


def test_a_doubt_in_the_moment_in_which_the_watch_ends_is_decided() -> None:
    """The watch had seen that nobody doubts, and was not yet known to be over: nobody looked at the new one."""
    answers: list[bool] = []

    async def main() -> None:
        async def alive() -> bool:
            return True

        outage = Outage(VirtualClock(), alive, lambda: 1, lambda: None)
        outage.doubt("10.0.0.1", 1, answers.append)
        while not answers:
            await asyncio.sleep(0)
        outage.doubt("10.0.0.2", 2, answers.append)  # before the callbacks of the task that just ended
        async with asyncio.timeout(5.0):
            while len(answers) < 2:
                await asyncio.sleep(0)

    asyncio.run(main())
    assert answers == [True, True]


def test_an_outage_that_many_names_notice_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each of a hundred names that were being asked for began it anew, with a line each."""
    caplog.set_level(logging.WARNING, "irlcrawl.outage")

    async def main() -> None:
        clock = VirtualClock(START)

        async def alive() -> bool:
            await asyncio.sleep(0)
            return False

        outage = Outage(clock, alive, lambda: 1, lambda: None)
        asked = [asyncio.create_task(outage.is_ours()) for _ in range(100)]
        assert all(await asyncio.gather(*asked)) and outage.since == START
        clock.advance(1.0)
        assert await outage.is_ours() and outage.since == START
        outage.close()

    asyncio.run(main())
    assert [record.message.partition(":")[0] for record in caplog.records] == ["no resolver answers"]
