"""A crawl that runs is steered by verbs, and killed right after each of them: what the verb said holds from its answer
on, and in the next run, too."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Serve
from webcrawl import NO_GAPS, Crawl, Running, outcomes, page

from irlcrawl.base.job import JobDir
from irlcrawl.crawl.control import ControlError
from irlcrawl.crawl.journal import read, user_name
from irlcrawl.crawl.status import read_status
from tools.sampleweb.server import Ask, Reply

SETTINGS = NO_GAPS | {"politeness.gap_host_seconds": 0.02, "scope.depth_max": 65_535}
HOSTS = {"a.test": "127.67.0.1", "b.test": "127.67.0.2", "last.test": "127.67.0.3"}


ROUNDS = 600  # of a twentieth of a second: a deadline, on a busy machine


class Endless:
    """Each page of a site links to the next two; until the test lets it, no page is the last one."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.news = asyncio.Event()
        self.over = False

    async def __call__(self, ask: Ask) -> Reply:
        if ask.path == "/robots.txt":
            return Reply(404)
        self.asked.append(ask.host.partition(":")[0] + ask.path)
        number = int(ask.path.strip("/p") or 0)
        return page([] if self.over else [f"/p{number + 1}"])


def irlcrawl(*words: object) -> str:
    told = subprocess.run(
        [sys.executable, "-m", "irlcrawl", *map(str, words)], capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def until(running: Running, job: Path, **wanted: object) -> dict[str, Any]:
    """The first status in which these fields are so; the crawl still runs."""
    for _ in range(ROUNDS):
        still_runs(running)
        with suppress(ControlError):
            record = read_status(JobDir(job))
            if all(record[name] == value for name, value in wanted.items()):
                return record
    raise AssertionError(f"never: {wanted}")


def still_runs(running: Running) -> None:
    """After a moment."""
    with pytest.raises(subprocess.TimeoutExpired):
        running.process.wait(0.05)


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_each_verb_holds_at_once_and_after_a_kill(serve: Serve, job: Path, killed: bool) -> None:
    web = Endless()
    served = serve(web, HOSTS)
    settings = SETTINGS | {"frontier.harvest_seconds": 0.2}
    crawl = Crawl(job, served.resolver, [served.url("a.test"), served.url("b.test")], settings)
    running = crawl.start()
    until(running, job, state="running")

    def steer(*words: object) -> str:
        nonlocal running
        said = irlcrawl(words[0], job, *words[1:])
        if killed:
            running.kill()
            running = Crawl(job, served.resolver, [], {}).start_again()
        return said

    def asked_while(wanted: str) -> set[str]:
        """The hosts that are asked from now on until a page of `wanted` came three times."""
        web.asked.clear()
        for _ in range(ROUNDS):
            if sum(url.startswith(wanted) for url in web.asked) >= 3:
                return {url.partition("/")[0] for url in web.asked}
            still_runs(running)
        raise AssertionError(f"{wanted} is not asked; {running.output.read_text()}")

    assert asked_while("a.test") and asked_while("b.test")
    assert steer("block", "a.test").startswith('site."a.test".block was not set, now true\n')
    assert asked_while("b.test") == {"b.test"}
    steer("set", "politeness.gap_host_seconds=0.03", "limits.pages_per_host=100000")
    steer("pause")
    assert until(running, job, state="paused")["paused"]["*"]["by"]
    web.asked.clear()
    steer("unpause")
    steer("seeds", served.url("last.test"))
    assert asked_while("last.test") >= {"last.test"}
    steer("pause", "b.test")
    assert asked_while("last.test") == {"last.test"}
    steer("unblock", "a.test")
    assert "put back" in steer("retry", "--reason", "blocked")
    assert asked_while("a.test") == {"a.test", "last.test"}
    web.over = True
    steer("unpause", "b.test")
    ended = running.wait()
    assert ended.code == 0, ended.output
    assert set(outcomes(job).values()) == {"fetched"}
    stored = JobDir(job).config_file.read_text()
    assert "gap_host_seconds = 0.03" in stored and "pages_per_host = 100000" in stored
    steered = [line.verb for line in read(JobDir(job))]
    assert steered == ["block", "set", "pause", "unpause", "seeds", "pause", "unblock", "retry", "unpause"]
    assert subprocess.run([sys.executable, "-m", "irlcrawl", "fsck", str(job), "--quiet"], timeout=60).returncode == 0


def test_an_edited_file_is_taken_over_by_a_signal_and_a_wrong_one_is_not(serve: Serve, job: Path) -> None:
    web = Endless()
    served = serve(web, HOSTS)
    running = Crawl(job, served.resolver, [served.url("a.test"), served.url("b.test")], SETTINGS).start()
    until(running, job, state="running")
    file = JobDir(job).config_file
    good = file.read_text().replace("gap_host_seconds = 0.02", "gap_host_seconds = 0.04  # slower")

    def hangup(text: str) -> None:
        before = len(read(JobDir(job)))
        file.write_text(text)
        running.signal(signal.SIGHUP)
        for _ in range(ROUNDS):
            if len(read(JobDir(job))) > before:
                return
            still_runs(running)
        raise AssertionError(running.output.read_text())

    hangup(good.replace("0.04", "-1"))
    assert "refused" in read(JobDir(job))[-1].result and "gap_host_seconds = -1" in read(JobDir(job))[-1].result
    hangup(good)
    assert read(JobDir(job))[-1].result == "politeness.gap_host_seconds was 0.02, now 0.04"
    told = subprocess.run(
        [sys.executable, "-m", "irlcrawl", "set", str(job), "scope.private_suffixes=true"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert told.returncode == 4 and "cannot change when a crawl is resumed" in told.stderr
    listed = job.with_suffix(".blocked")
    listed.write_text("# nobody yet\n")
    irlcrawl("set", job, f"scope.block_file={listed}")
    until(running, job, state="running")
    listed.write_text("a.test\n")
    until(running, job, excluded_by_reason={"blocked": 1})
    web.over = True
    assert running.wait().code == 0
    assert "gap_host_seconds = 0.04  # slower" in file.read_text()


def test_what_a_start_changed_was_in_no_log(serve: Serve, job: Path) -> None:
    web = Endless()
    web.over = True
    served = serve(web, HOSTS)
    assert Crawl(job, served.resolver, [served.url("a.test")], SETTINGS).run().code == 0
    irlcrawl("resume", job, "--quiet")
    assert read(JobDir(job)) == [], "nothing was changed"
    irlcrawl("pause", job)
    file = JobDir(job).config_file
    file.write_text(file.read_text().replace("gap_host_seconds = 0.02", "gap_host_seconds = 0.04  # slower"))
    irlcrawl("resume", job, "--quiet", "-s", "limits.pages=7")
    steered = [(line.by, line.verb, line.arguments, line.result) for line in read(JobDir(job))[1:]]
    assert steered == [
        (user_name(), "start", '["irlcrawl.toml was edited"]', "politeness.gap_host_seconds was 0.02, now 0.04"),
        (user_name(), "start", "[]", "crawl.pause was true, now false; limits.pages was 0, now 7"),
    ]


def test_a_real_crawl_tells_of_its_end_and_systemd_of_its_life(
    serve: Serve, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Endless()
    web.over = True
    served = serve(web, HOSTS)
    told, hook = job.with_suffix(".told"), job.with_suffix(".sh")
    hook.write_text(f'#!/bin/sh\n{{ printf "%s " "$1"; cat; }} >> {told}\n')
    hook.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(job.with_suffix(".s")))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(job.with_suffix(".s")))
        ended = Crawl(job, served.resolver, [served.url("a.test")], SETTINGS | {"hooks.command": str(hook)}).run()
        assert ended.code == 0, ended.output
        assert systemd.recv(100) == b"READY=1"
    events = [line.split(" ", 1) for line in told.read_text().splitlines()]
    assert sorted(name for name, _ in events) == ["done", "warc_closed"]
    by_name = {name: json.loads(event) for name, event in events}
    assert by_name["done"]["fetched"] == 1 and by_name["warc_closed"]["path"].endswith(".warc.gz")
