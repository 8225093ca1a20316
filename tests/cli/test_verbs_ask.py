"""Asking a crawl that ended, and getting out what it has: `status`, `inspect`, `stop`, `urls` and `get`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from drum import Catalog, Edits

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import verbs_crawl
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status as status_record
from tests.cli.conftest import REPOSITORY, Run, tree

LOG = """\
2026-01-02T03:04:05.678Z 200 1234 http://a.example/ - - text/html #000 20260102030405678+12 sha1:AAAA - outcome=fetched,reason=ok
2026-01-02T03:04:05.678Z 200 99 http://a.example/robots.txt - - text/plain #000 20260102030405678+12 sha1:AAAB - outcome=none,reason=ok,crawl_delay_asked=9
2026-01-02T03:04:06.678Z 404 10 http://a.example/gone L - text/html #000 20260102030406678+12 sha1:AAAC - outcome=fetched,reason=http_error,beyond_max=7
2026-01-02T03:04:07.678Z -4 - http://b.example:81/slow L - - #001 20260102030407678+12 - - outcome=retry,reason=timeout
2026-01-02T03:04:08.678Z -4 - http://b.example:81/slow L - - #001 20260102030408678+12 - - outcome=failed,reason=timeout
2026-01-02T03:04:09.678Z -9998 - http://b.example:81/no L - - - - - - outcome=excluded,reason=robots
"""  # noqa: E501


@pytest.fixture
def a_job(tmp_path: Path) -> Path:
    with JobDir(tmp_path / "job") as at:
        at.write_config(to_toml(Config()))
        at.crawl_log.write_text(LOG)
        edits = Edits()
        edits.set("status", {"state": "done", "fetched": 2, "queued_urls": 0})
        catalog = Catalog.open(at.state)
        catalog.commit(edits)
        catalog.close()
    return at.path


def test_status_of_a_crawl_that_ended(a_job: Path, run: Run) -> None:
    code, out, _ = run("status", a_job)
    assert code == ExitCode.DONE and "done" in out and "2 URLs" in out
    code, out, _ = run("status", a_job, "--json")
    import json

    record = json.loads(out)
    assert code == ExitCode.DONE and set(status_record.FIELDS) <= set(record) and record["fetched"] == 2
    assert run("status", a_job, "--watch")[0] == ExitCode.DONE, "it ends: nothing runs"


def test_inspect_and_stop_of_a_crawl_that_ended(a_job: Path, run: Run) -> None:
    code, out, _ = run("inspect", a_job)
    assert code == ExitCode.DONE and str(a_job) in out
    code, out, _ = run("stop", a_job)
    assert code == ExitCode.DONE and "not running" in out


def test_the_commands_it_names_can_be_pasted_into_a_shell(a_job: Path, run: Run) -> None:
    spaced = a_job.rename(a_job.with_name("a job's"))
    _, out, _ = run("inspect", spaced)
    (line,) = [line for line in out.splitlines() if "irlcrawl get" in line]
    assert shlex.split(line)[:4] == ["irlcrawl", "get", str(spaced), "URL"]


def test_stop_waits_until_the_crawl_is_gone(a_job: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    at = JobDir(a_job)
    at.acquire()
    monkeypatch.setattr(verbs_crawl, "STOP_WAIT_SECONDS", 0.0)
    code, _, err = run("stop", a_job)
    assert code == ExitCode.FAILED and f"in use by process {os.getpid()}" in err and "does not answer" in err
    monkeypatch.setattr(verbs_crawl, "ask", lambda path, cmd: "stopping")
    code, _, err = run("stop", a_job)
    assert code == ExitCode.FAILED and "still after" in err
    monkeypatch.setattr(verbs_crawl, "ask", lambda path, cmd: at.release() or "stopping")
    code, out, _ = run("stop", a_job)
    assert code == ExitCode.DONE and "stopped" in out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["200 ok /", "404 http_error /gone", "-4 timeout /slow", "-9998 robots /no"]),
        (["--status", "fetched"], ["200 ok /", "404 http_error /gone"]),
        (["--status", "failed"], ["-4 timeout /slow"]),
        (["--status", "errors"], ["404 http_error /gone", "-4 timeout /slow"]),
        (["--status", "retry"], ["-4 timeout /slow"]),
        (["--status", "excluded"], ["-9998 robots /no"]),
        (["--status", "404"], ["404 http_error /gone"]),
        (["--status", "4xx"], ["404 http_error /gone"]),
        (["--status", "2xx"], ["200 ok /"]),
        (["--status", "-9998"], ["-9998 robots /no"]),
        (["--host", "a.example"], ["200 ok /", "404 http_error /gone"]),
        (["--host", "b.example:81", "--status", "excluded"], ["-9998 robots /no"]),
        (["--host", "c.example"], []),
        (["--host", "A.example:80", "--status", "404"], ["404 http_error /gone"]),
        (["--host", "a.example:443"], []),
        (["--host", "\u1e05.example", "--reason", "ok"], []),
        (["--reason", "timeout"], ["-4 timeout /slow"]),
        (["--reason", "ok"], ["200 ok /"]),
    ],
)
def test_urls_with_their_outcomes(a_job: Path, run: Run, options: list[str], expected: list[str]) -> None:
    code, out, err = run("urls", a_job, *options)
    assert code == ExitCode.DONE, err
    lines = [line.split("\t") for line in out.splitlines()]
    assert [f"{status} {reason} /{url.split('/', 3)[3]}" for status, reason, url in lines] == expected


def test_urls_whose_line_has_an_annotation(a_job: Path, run: Run) -> None:
    assert run("urls", a_job, "--with", "beyond_max")[1] == "404\thttp_error\thttp://a.example/gone\t7\n"
    assert run("urls", a_job, "--with", "beyond")[1] == ""
    robots = run("urls", a_job, "--with", "crawl_delay_asked")[1]
    assert robots == "200\tok\thttp://a.example/robots.txt\t9\n", "lines of robots.txt were never listed"
    code, out, err = run("urls", a_job, "--with", "beyond_max", "--status", "queued")
    assert code == ExitCode.CONFIG and not out and "--with" in err and "rest or throttled" in err


@pytest.mark.parametrize("options", [["--status", "fine"], ["--status", "600x"], ["--status", "2000"],
                                     ["--reason", "bad luck"], ["--hosts"], ["--host", "http://a.example/"],
                                     ["--host", "a.example/"], ["--host", ""], ["--host", "ftp://a"]])  # fmt: skip
def test_a_filter_that_filters_nothing_is_refused(a_job: Path, run: Run, options: list[str]) -> None:
    code, out, err = run("urls", a_job, *options)
    assert code == ExitCode.CONFIG and not out and options[0] in err


def test_urls_that_wait(a_job: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [
        (b"http://a.example/1", b"http://a.example", "ready"),
        (b"http://b.example:81/2", b"http://b.example:81", "scheduled"),
    ]
    monkeypatch.setattr("irlcrawl.frontier.state.view.queued", lambda at, files, places: iter(waiting))
    assert run("urls", a_job, "--status", "queued")[1].splitlines() == [
        "queued\tready\thttp://a.example/1", "queued\tscheduled\thttp://b.example:81/2",
    ]  # fmt: skip
    assert (
        run("urls", a_job, "--status", "queued", "--host", "a.example:80")[1] == "queued\tready\thttp://a.example/1\n"
    )
    for options in (["--host", "b.example"], ["--host", "B.example:81"], ["--reason", "scheduled"]):
        assert run("urls", a_job, "--status", "queued", *options)[1] == "queued\tscheduled\thttp://b.example:81/2\n"
    code, out, err = run("urls", a_job, "--status", "queued", "--reason", "robots")
    assert (
        code == ExitCode.CONFIG and not out and "ready, scheduled, resting, visited, queued, over_budget, moving" in err
    )


def test_get_of_what_is_not_there(a_job: Path, run: Run) -> None:
    code, out, err = run("get", a_job, "http://a.example/never")
    assert code == ExitCode.FAILED and not out and "http://a.example/never" in err
    code, out, err = run("get", a_job, "ftp://a.example/")
    assert code == ExitCode.CONFIG and not out and "ftp" in err


@pytest.mark.parametrize("verb", ["status", "stop", "inspect", "urls"])
def test_asking_where_no_crawl_is(tmp_path: Path, run: Run, verb: str) -> None:
    code, _, err = run(verb, tmp_path / "none")
    assert code == ExitCode.FAILED and "no crawl here" in err
    assert tree(tmp_path) == {}


def test_a_reader_that_goes_away_is_no_error(a_job: Path) -> None:
    (a_job / "logs" / "crawl.log").write_text(LOG * 3000)
    for words in (["urls", str(a_job)], ["report", str(a_job), "--json"]):
        with subprocess.Popen([sys.executable, "-m", "irlcrawl", *words], cwd=REPOSITORY, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:  # fmt: skip
            assert program.stdout is not None and program.stderr is not None
            assert words[0] == "report" or program.stdout.readline()
            program.stdout.close()
            assert program.stderr.read() == ""
    reader, writer = os.pipe()
    os.close(reader)
    dry = ["crawl", str(a_job / "new"), "a.example", "--dry-run", "-s", "crawl.user_agent=A/1 (+https://a.example/)"]
    for module, *words in (["irlcrawl", "--help"], ["irlcrawl", "--version"], ["irlcrawl.config"], ["irlcrawl", *dry],
                           ["irlcrawl", "stop", str(a_job)]):  # fmt: skip
        ended = subprocess.run([sys.executable, "-m", module, *words], cwd=REPOSITORY, stdout=writer,
                               stderr=subprocess.PIPE, text=True, timeout=60)  # fmt: skip
        assert ended.returncode == ExitCode.DONE and "rror" not in ended.stderr, (words, ended.stderr)
    os.close(writer)


def test_a_wrong_site_is_told_by_its_own_option(a_job: Path, run: Run) -> None:
    assert run("urls", a_job, "--site", "a b")[2].startswith("irlcrawl: --site a b: ")


def test_a_crawl_that_nobody_steered_says_so(a_job: Path, run: Run) -> None:
    assert run("report", a_job, "--steering") == (ExitCode.DONE, "nobody has steered this crawl\n", "")
    assert run("report", a_job, "--steering", "--json") == (ExitCode.DONE, "", "")
