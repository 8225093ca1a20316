"""What the operator is told: events of a crawl, by a command or a web address; what fails is written down."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import EVENTS
from irlcrawl.config.keys import Hooks as Keys
from irlcrawl.crawl.alarms import Alarms
from irlcrawl.crawl.heartbeat import Heartbeat
from irlcrawl.crawl.hooks import Hooks
from tests.crawl.virtual_crawl import Answer, Crawl, Web, star

NOW = 1_000_000_000.0


def hooks_of(path: Path, **keys: Any) -> Hooks:
    job = JobDir(path)
    job.logs.mkdir(parents=True, exist_ok=True)
    return Hooks(job, Keys(retry_seconds=0.0, **keys), VirtualClock(NOW))


def undelivered(path: Path) -> list[dict[str, Any]]:
    file = JobDir(path).undelivered
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_command_is_told_again_until_it_takes_note(tmp_path: Path) -> None:
    script, told = tmp_path / "hook", tmp_path / "told"
    script.write_text(f"""#!{sys.executable}
import sys
event = sys.stdin.read()
with open({str(told)!r}, "a") as file:
    file.write(sys.argv[1] + " " + event)
sys.exit(len(open({str(told)!r}).readlines()) < 3)
""")
    script.chmod(0o755)
    hooks = hooks_of(tmp_path / "job", command=shlex.quote(str(script)), retries=5)
    hooks.emit("done", code=0)
    hooks.finish(60)
    lines = told.read_text().splitlines()
    assert len(lines) == 3 and set(lines) == {lines[0]} and not undelivered(tmp_path / "job")
    name, _, event = lines[0].partition(" ")
    assert name == "done"
    assert json.loads(event) == {"event": "done", "job": str(tmp_path / "job"), "time": NOW, "code": 0}


@contextmanager
def listening(answers: list[int]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(answers.pop(0))
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_web_address_is_told_and_what_nobody_takes_is_written_down(tmp_path: Path) -> None:
    with listening([200, 500, 200, 500, 500, 500]) as (address, got):
        hooks = hooks_of(tmp_path / "job", webhook=address, retries=2, events=["outage", "trap", "done"])
        for event in ("outage", "trap", "stopped", "done"):
            hooks.emit(event, site="a.test")
        hooks.finish(60)
    assert [one["event"] for one in got] == ["outage", "trap", "trap", "done", "done", "done"]
    (left,) = undelivered(tmp_path / "job")
    assert left["event"] == "done" and "HTTP Error 500" in left["undelivered"]


def test_a_crawl_that_ends_waits_for_nobody_for_long(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path / "job", command="false", retries=100)
    hooks.keys.retry_seconds = 3600.0
    for _ in range(3):
        hooks.emit("trap")
    hooks.finish(0.01)
    assert [one["event"] for one in undelivered(tmp_path / "job")] == ["trap"] * 3


# -- what is an event --------------------------------------------------------------------------------------------------


class Told(Hooks):
    def __init__(self, job: JobDir) -> None:
        super().__init__(job, Keys(command="x", events=list(EVENTS)), VirtualClock(NOW))
        self.events: list[dict[str, Any]] = []

    def emit(self, event: str, **facts: Any) -> None:
        self.events.append({"event": event, **facts})


def alarmed(crawl: Crawl) -> list[dict[str, Any]]:
    """The events of a crawl, which is watched as the supervisor watches it."""
    told = Told(crawl.job())

    async def beside(crawl: Crawl) -> None:
        assert crawl.loop is not None
        loop, alarms = crawl.loop, Alarms(crawl.loop, crawl.config, told)
        loop.on_tick = lambda: alarms.tick(loop.clock.now())
        await asyncio.sleep(1e6)

    crawl.run(beside)
    return told.events


def test_a_site_that_fails_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(star("a.test", 60) | star("b.test", 60))
    web.moods["a.test"] = lambda url, now: Answer(503) if url[-1] in "02468" else None
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://b.test/"], monkeypatch)
    crawl.config.hooks.error_rate = 0.25
    told = [one for one in alarmed(crawl) if one["event"] == "error_rate"]
    assert [one["site"] for one in told] == ["a.test"]
    assert told[0]["rate"] >= 0.25 and told[0]["visits"] >= 20


def test_a_calendar_is_told_to_be_a_trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(star("cal.test", 250))
    for day in range(250):
        body = b"<p>day %d of the year</p>" % day
        web.answers[f"http://cal.test/{day}"] = Answer(200, {"content-type": "text/html"}, body)
    crawl = Crawl(tmp_path / "job", web, ["http://cal.test/"], monkeypatch)
    crawl.config.politeness.gap_host_seconds = 0.1
    (told,) = [one for one in alarmed(crawl) if one["event"] == "trap"]
    assert (told["site"], told["new_content"]) == ("cal.test", 2) and told["tried"] >= 200


def test_a_disk_that_fills_up_is_told_before_the_crawl_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 300)), ["http://a.test/"], monkeypatch)
    free = [10 << 20]
    monkeypatch.setattr(Files, "free", lambda files, path: free[0])
    crawl.on_request = lambda url: free.__setitem__(0, (3 << 19) if url.endswith("/50") else free[0])
    (told,) = [one for one in alarmed(crawl) if one["event"] == "disk_low"]
    assert told["free_bytes"] == 3 << 19 and told["needed_bytes"] == 1 << 20


def test_an_outage_and_its_end_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(star("a.test", 100) | star("b.test", 100) | star("c.test", 100))
    crawl = Crawl(tmp_path / "job", web, [f"http://{host}.test/" for host in "abc"], monkeypatch)
    since, until = NOW + 30, NOW + 900
    crawl.names.down_between = (since, until)

    def down(url: str, now: float) -> Answer | None:
        return Answer(reason=Reason.CONNECT) if since <= now < until else None

    web.moods |= {f"{host}.test": down for host in "abc"}
    assert [one["event"] for one in alarmed(crawl)] == ["outage", "outage_over"]


def test_every_end_of_a_crawl_is_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 3)), ["http://a.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE and crawl.loop is not None
    told = Told(crawl.job())
    alarms = Alarms(crawl.loop, crawl.config, told)
    for code in (ExitCode.DONE, ExitCode.NOTHING_HAD, ExitCode.SIZE_LIMIT, ExitCode.DISK_FULL):
        alarms.ended(code, crawl.loop.status())
    assert [(one["event"], one["code"]) for one in told.events] == [
        ("done", 0), ("done", 16), ("stopped", 14), ("stopped", 3),
    ]  # fmt: skip
    assert told.events[0]["state"] == "done" and told.events[0]["fetched"] == 4


# -- systemd -----------------------------------------------------------------------------------------------------------


def test_systemd_hears_that_it_is_ready_and_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(NOW)
    Heartbeat(clock).say("READY=1")  # nobody is there
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "30000000")
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
        heart = Heartbeat(clock)
        heart.say("READY=1")
        for _ in range(21):
            heart.beat()
            clock.advance(1.0)
        assert [systemd.recv(100) for _ in range(4)] == [b"READY=1", *[b"WATCHDOG=1"] * 3]
        with pytest.raises(BlockingIOError):
            systemd.recv(100)
