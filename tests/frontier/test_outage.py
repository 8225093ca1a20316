"""Our own network goes and comes back, in whole crawls under virtual time: nobody is charged, nothing is lost."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from drum import Files
from irlcrawl.archive.crawllog import read
from irlcrawl.job import ExitCode, JobDir
from irlcrawl.rows import Reason
from tests.frontier.virtual_crawl import START, Answer, Crawl, Web, star

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
        crawl.frontier.politeness.delayed().get("backoff", 0) if crawl.frontier else 0
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
    """With the resolver alive and few addresses about, it is the host: at once, four tries, then failed."""
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
        assert crawl.frontier is not None
        crawl.frontier.stop(ExitCode.INTERRUPTED)

    assert crawl.run(stop) == ExitCode.INTERRUPTED
    assert set(entries(crawl)) == {"fetched", "none"}
    assert crawl.run() == ExitCode.DONE
    assert {outcome for outcome, _ in crawl.outcomes().values()} == {"fetched"}
