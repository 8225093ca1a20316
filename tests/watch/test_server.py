"""The operator's page over HTTP: who may look, who may steer, and what a stranger's page can do (nothing)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from drum import Files

import pytest
from aiohttp.test_utils import TestClient, TestServer

from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import ConfigError, keys
from irlcrawl.config.toml import load_stored, to_toml
from irlcrawl.crawl import journal, status
from irlcrawl.crawl.control_server import serve as answer
from irlcrawl.crawl.history import History
from irlcrawl.watch import look, steering
from irlcrawl.watch.guard import Guard, host_of, listen_at, token_of
from irlcrawl.watch.look import Look
from irlcrawl.watch.server import PAGE, Server, open_to_look
from tests.crawl.virtual_crawl import Crawl, Web, star
from tests.watch.exposition import samples

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-a-test"
KEY = {"Authorization": f"Bearer {TOKEN}"}
HOSTILE = "http://a.test/%3Cscript%3Ealert(1)%3C/script%3E\"'><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> JobDir:
    """A crawl that ended, with a hostile URL and a history."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        web = Web({**star("a.test", 5), "http://a.test/": ["/0", "/1", "/gone", HOSTILE.removeprefix("http://a.test")]})
        crawl = Crawl(tmp_path_factory.mktemp("watch") / "job", web, ["http://a.test/"], monkeypatch)
        told: list[History] = []

        async def sampled(crawl: Crawl) -> None:
            assert crawl.loop is not None
            told.append(History(Files(), crawl.job().history))
            while True:
                told[0].tick(crawl.clock.now(), crawl.loop.status)
                await asyncio.sleep(1)

        crawl.run(sampled)
        told[0].close()
        with crawl.job() as opened:
            opened.write_config(to_toml(crawl.config))
    return crawl.job()


Ask = Callable[[TestClient[Any, Any]], Awaitable[Any]]


def asked(job: JobDir, ask: Ask, guard: Guard | None = None) -> Any:
    async def main() -> Any:
        server = Server(job, guard or Guard(TOKEN, open_to_look=True))
        async with TestClient(TestServer(server.app())) as client:
            return await ask(client)

    return asyncio.run(main())


def got(job: JobDir, path: str, guard: Guard | None = None, method: str = "GET", **more: Any) -> tuple[int, Any, Any]:
    """(status, headers, JSON or text)."""

    async def ask(client: TestClient[Any, Any]) -> tuple[int, Any, Any]:
        async with client.request(method, path, **more) as answer:
            text = await answer.text()
            return answer.status, answer.headers, json.loads(text) if "json" in answer.content_type else text

    found: tuple[int, Any, Any] = asked(job, ask, guard)
    return found


# -- looking -----------------------------------------------------------------------------------------------------------


def test_a_crawl_that_ended_is_shown_from_the_disk(job: JobDir) -> None:
    code, _, page = got(job, "/api/page")
    assert (code, page["state"], page["alive"], page["may_steer"]) == (200, "done", False, False)
    assert {tile["label"]: tile["text"] for tile in page["tiles"]}["fetched"] == "5"
    urls = [line["url"] for line in page["recent"]]
    assert len(urls) == 6 and "http://a.test/robots.txt" in urls
    statuses = {line["url"].rpartition("/")[2]: line["status"] for line in page["recent"]}
    assert (statuses["gone"], statuses["0"]) == (404, 200)
    code, _, charts = got(job, "/api/charts?seconds=3600")
    fetched = next(chart for chart in charts["charts"] if chart["field"] == "fetched")
    assert code == 200 and len(charts["times"]) == len(fetched["values"]) > 0
    assert charts["until"] - charts["since"] >= 60, "no wider than what is known, and a minute"


def test_metrics_are_served_as_prometheus_asks_for_them(job: JobDir) -> None:
    code, headers, text = got(job, "/metrics")
    assert code == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert samples(text)["irlcrawl_responses_total", frozenset()] == 5
    assert samples(text)["irlcrawl_up", frozenset()] == 0
    _, headers, text = got(job, "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert headers["Content-Type"].startswith("application/openmetrics-text") and text.endswith("# EOF\n")


def test_a_crawl_that_runs_is_asked_once_a_second_however_many_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, calls = [0.0], 0
    job = JobDir(tmp_path)

    def read(job: JobDir) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        return status.complete({"state": "running", "source": "live", "fetched": calls})

    monkeypatch.setattr(look.status, "read_status", read)
    looking = Look(job, lambda: now[0])
    for tenth in range(35):
        now[0] = tenth / 10
        looking.record()
    assert calls == 4
    monkeypatch.setattr(look.status, "read_status", _silent)
    now[0] = 9.0
    assert (looking.record()["state"], looking.record()["fetched"]) == ("busy", 4), "what was known stays"


def _silent(job: JobDir) -> dict[str, Any]:
    raise look.ControlError("the crawl did not answer within 5 s")


def test_what_is_answered_may_be_kept_framed_and_changed_by_nobody(job: JobDir) -> None:
    for path in (*PAGE, "/api/page", "/metrics", "/nothing"):
        code, headers, _ = got(job, path)
        assert code == (404 if path == "/nothing" else 200)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"


def test_the_page_takes_nothing_from_elsewhere_and_makes_no_html_of_a_string() -> None:
    for name, kind in PAGE.values():
        text = (ROOT / "irlcrawl" / "watch" / "page" / name).read_text()
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not addresses and "//" not in "".join(re.findall(r'(?:src|href)="([^"]*)"', text))
        if kind == "text/html":
            assert not re.search(r"\son\w+=|style=|<script(?![^>]*src=)", text)
        if kind == "text/javascript":
            assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", text)
        if kind == "text/css":
            assert "url(" not in text and "@import" not in text


def test_a_wheel_has_the_page() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert declared["irlcrawl.watch"] == ["page/*"]
    assert {name for name, _ in PAGE.values()} == set(os.listdir(ROOT / "irlcrawl" / "watch" / "page"))


# -- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/page", "/api/charts", "/metrics"])
def test_looking_takes_the_token_where_other_machines_or_users_could_look(job: JobDir, path: str) -> None:
    private = Guard(TOKEN, open_to_look=False)
    assert got(job, path, private)[0] == 401
    assert got(job, path, private, headers={"Authorization": "Bearer wrong"})[0] == 401
    assert got(job, path, private, headers={"Authorization": TOKEN})[0] == 401
    assert got(job, path, private, headers=KEY)[0] == 200
    assert got(job, "/", private)[0] == 200, "in which there is nothing of the crawl"
    assert [
        open_to_look(*asked)
        for asked in (
            ("127.0.0.1", False),
            ("127.0.0.1", True),
            ("::1", False),
            ("0.0.0.0", False),
            ("192.0.2.1", False),
        )
    ] == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:1", 200), ("localhost:1", 200), ("LOCALHOST", 200), ("[::1]:1", 200), ("crawl.example:1", 200),
        ("evil.example:1", 403), ("127.0.0.1.evil.example", 403), ("crawl.example.evil", 403), ("", 403),
        ("localhost@evil.example", 403), ("local host", 403),
    ],
)  # fmt: skip
def test_another_name_that_leads_here_is_refused(job: JobDir, host: str, code: int) -> None:
    """DNS rebinding: a stranger's page, whose name was made to lead to this server."""
    named = Guard(TOKEN, open_to_look=True, names=("Crawl.example",))
    assert got(job, "/api/page", named, headers={"Host": host})[0] == code
    assert got(job, "/", named, headers={"Host": host})[0] == code


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[steering.Asked]:
    """Verbs that would have been run."""
    found: list[steering.Asked] = []

    async def run(what: steering.Asked) -> tuple[int, str]:
        found.append(what)
        return 0, "done"

    monkeypatch.setattr(steering, "run", run)
    return found


HERE = {"Host": "127.0.0.1:8730"}


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({**KEY}, 200),
        ({**KEY, "Origin": "http://127.0.0.1:8730", "Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Cookie": f"token={TOKEN}"}, 401),
        ({**KEY, "Origin": "http://evil.example"}, 403),
        ({**KEY, "Origin": "http://127.0.0.1:9999"}, 403),
        ({**KEY, "Origin": "null"}, 403),
        ({**KEY, "Origin": "http://["}, 403),
        ({**KEY, "Content-Encoding": "gzip"}, 400),
        ({**KEY, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**KEY, "Host": "evil.example"}, 403),
    ],
)
def test_steering_takes_the_token_and_this_page(
    job: JobDir, ran: list[steering.Asked], headers: dict[str, str], code: int
) -> None:
    done = got(job, "/api/do", method="POST", json={"verb": "pause"}, headers={**HERE, **headers})
    assert done[0] == code and len(ran) == (code == 200)


def test_what_is_no_text_and_no_number_is_refused(job: JobDir) -> None:
    """It was answered with 500, and a traceback."""
    assert not Guard(TOKEN, open_to_look=True).knows({"Authorization": "Bearer \udcff"})
    assert got(job, "/api/charts?seconds=nan")[0] == 400


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_can_send_steers_nothing(job: JobDir, ran: list[steering.Asked], kind: str) -> None:
    answer = got(job, "/api/do", method="POST", data=b'{"verb": "stop"}', headers={**KEY, "Content-Type": kind})
    assert answer[0] == 415 and not ran
    assert got(job, "/api/do", method="GET", headers=KEY)[0] == 405
    assert (
        got(job, "/api/do", method="POST", data=b"[" * 100_000, headers={**KEY, "Content-Type": "application/json"})[0]
        == 400
    )


# -- verbs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "arguments", "expected"),
    [
        ("pause", [], ["pause", "JOB"]),
        ("pause", ["a.test"], ["pause", "JOB", "a.test"]),
        ("block", ["a.test", "pattern:^http://b/"], ["block", "JOB", "--pattern=^http://b/", "a.test"]),
        ("prefer", ["a.test", "-3"], ["prefer", "JOB", "a.test", "--weight=-3"]),
        ("prefer", ["-3", "-3"], None),
        ("prefer", ["a.test", "5"], ["prefer", "JOB", "a.test", "--weight=5"]),
        ("prefer", ["a.test", "off"], ["prefer", "JOB", "a.test", "--off"]),
        ("retry", ["reason=dns", "status=5xx"], ["retry", "JOB", "--reason=dns", "--status=5xx"]),
        ("set", ["limits.pages=5"], ["set", "JOB", "limits.pages=5"]),
        ("set", ['site."a.test".hours=9-17'], ["set", "JOB", 'site."a.test".hours=9-17']),
        ("why", ["http://a.test/ x"], ["why", "JOB", "http://a.test/ x"]),
        ("stop", [], ["stop", "JOB"]),
        ("report", [], ["report", "JOB"]),
        ("slow", [], ["why", "JOB", "--slow"]),
        # what a token must not buy
        ("set", ["hooks.command=touch /tmp/x"], None),
        ("set", ["archive.on_warc_closed=touch /tmp/x"], None),
        ("set", ["network.allow=127.0.0.0/8"], None),
        ("set", ["scope.block_file=/etc/passwd"], None),
        ("set", ["politeness.machine_clocks=/tmp"], None),
        ("set", ['site."a.test".secrets_file=/etc/passwd'], None),
        ("set", ['site."x.block=".secrets_file=/etc/passwd'], None),
        ("set", ["-s"], None),
        ("pause", ["--help"], None),
        ("block", ["a\nb"], None),
        ("retry", ["config=/etc/passwd"], None),
        ("retry", [], None),
        ("stop", ["now"], None),
        ("fsck", [], None),
        ("crawl", ["http://a.test/"], None),
        ("pause", "a.test", None),
        ("pause", [5], None),
        ("pause", ["x"] * 101, None),
        ("pause", ["x" * 4097], None),
        ("seeds", [], None),
    ],
)  # fmt: skip
def test_a_request_becomes_the_arguments_of_a_verb(verb: str, arguments: Any, expected: list[str] | None) -> None:
    request = {"verb": verb, "arguments": arguments}
    if expected is None:
        with pytest.raises(ConfigError):
            steering.asked(Path("JOB"), request)
    else:
        assert steering.asked(Path("JOB"), request) == (expected, None)


def test_texts_that_may_be_set_are_known_one_by_one() -> None:
    """A key that takes a text may lead to a file or a command: a new one is looked at before it may be set here."""
    texts = {
        key.path: f'site."a.test".{key.name}=x' if key.section == "site" else f"{key.path}=x"
        for key in keys() if key.type not in ("int", "float", "bool")
    }  # fmt: skip
    assert {path for path, text in texts.items() if steering.may_set(text)} == {
        "scope.kind", "scope.include", "scope.exclude", "scope.block", "politeness.unit", "politeness.hours",
        "politeness.time_zone", "politeness.shared_addresses", "fetch.client", "fetch.types", "fetch.http2",
        "fetch.accept_language", "page.wishes_obeyed", "budgets.curve", "frontier.when_full", "site.hours",
        "site.time_zone", "site.types",
    }  # fmt: skip


def test_seeds_come_as_text() -> None:
    text = "http://a.test/\n" * 100_000
    what = steering.asked(Path("/JOB"), {"verb": "seeds", "arguments": [], "text": text})
    assert what == (["seeds", "/JOB", "--seeds=-"], text) and len(text) < steering.SEEDS_BYTES_MAX
    for request in (None, [], {}, {"verb": ["pause"]}, {"verb": "seeds", "text": 5}):
        with pytest.raises(ConfigError):
            steering.asked(Path("/JOB"), request)


def test_a_verb_is_carried_out_durably_and_noted(job: JobDir) -> None:
    """Of a crawl at rest: its configuration says so from then on, and its log who did it."""
    more = {"method": "POST", "headers": KEY}
    code, _, said = got(job, "/api/do", json={"verb": "block", "arguments": ["b.test"]}, **more)
    assert (code, said["code"]) == (200, 0) and "b.test" in said["said"]
    assert load_stored(job.config_file).site["b.test"].block
    last = journal.read(job)[-1]
    assert (last.verb, last.by) == ("block", journal.user_name())
    assert got(job, "/api/page")[2]["steered"][0]["verb"] == "block"
    code, _, said = got(job, "/api/do", json={"verb": "block", "arguments": ["no host"]}, **more)
    assert (code, said["code"]) == (200, 4) and "no host" in said["said"]


def test_a_crawl_that_runs_is_shown_live(job: JobDir) -> None:
    async def ask(client: TestClient[Any, Any]) -> Any:
        control = await answer(
            job.socket, {"status": lambda request: {"state": "running", "fetched": 7, "updated": 1e9}}
        )
        try:
            async with client.get("/api/page", headers=KEY) as page, client.get("/metrics") as figures:
                return await page.json(), await figures.text()
        finally:
            await control.close()

    page, figures = asked(job, ask)
    assert (page["state"], page["alive"], page["may_steer"]) == ("running", True, True)
    assert samples(figures)["irlcrawl_up", frozenset()] == 1


# -- where it listens, and with which token ----------------------------------------------------------------------------


def test_addresses_and_tokens_a_person_may_give(tmp_path: Path) -> None:
    assert listen_at("8730") == listen_at("localhost:8730") == ("127.0.0.1", 8730)
    assert (listen_at("[::1]:80"), listen_at("0.0.0.0:80")) == (("::1", 80), ("0.0.0.0", 80))
    for wrong in ("", "example.org:80", "127.0.0.1", "127.0.0.1:99999", ":80", "1.2.3.4.5:80", "http://127.0.0.1:80"):
        with pytest.raises(ConfigError, match="--http"):
            listen_at(wrong)
    assert host_of("[::1]:8730") == "[::1]" and host_of("a b") is None
    file = tmp_path / "token"
    token = token_of(str(file))
    assert token == token_of(str(file)) == file.read_text().strip() and len(token) >= 32
    assert file.stat().st_mode & 0o777 == 0o600 and token_of(None) != token_of(None)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read it"):
        token_of(str(file))
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(ConfigError, match="at least 16"):
        token_of(str(file))
    with pytest.raises(ConfigError, match="No such file"):
        token_of(str(tmp_path / "none" / "token"))


def test_watch_says_where_it_is_and_ends_when_told(job: JobDir) -> None:
    command = [sys.executable, "-m", "irlcrawl", "watch", os.fspath(job.path), "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        place = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=\S{32}\n", said)
        assert place is not None
        for request in (b"\x16\x03\x01\r\n\r\n", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", int(place[1]))) as connection:
                connection.sendall(request)
                assert b" 400 " in connection.recv(4096)
        process.terminate()
        assert process.wait() == 0
        assert process.stderr.read() == "", "what is no HTTP was a traceback here"
