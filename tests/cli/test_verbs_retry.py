"""`irlcrawl retry` as a person meets it: what it says, its exit codes, and how it talks to a crawl that runs. What
comes of it: crawl/test_returns.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drum import Files
from drum.segment import Segment

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import hand_in
from irlcrawl.cli.verbs_crawl import what_to_retry
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.returns import BUSY, STALE, TAKEN
from irlcrawl.crawl.status import complete
from tests.cli.conftest import Run, tree
from tests.crawl.test_control import serving
from tests.crawl.test_returns import FAILED, failing
from tests.crawl.virtual_crawl import Crawl, Web


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """A crawl that ended, with three failures and a 404."""
    crawl = Crawl(tmp_path / "job", failing(Web()), ["http://a.test/"], monkeypatch)
    crawl.job().path.mkdir()
    crawl.job().write_config(to_toml(crawl.config))
    assert crawl.run() == ExitCode.DONE
    return crawl


def test_retry_where_no_crawl_runs(ended: Crawl, run: Run) -> None:
    job = ended.path
    before = tree(job)
    lines = ["-2\ttls\thttp://down.test/1", "-5\tprotocol\thttp://down.test/2", "-5\tprotocol\thttp://other.test/3"]
    code, out, err = run("retry", job, "--dry-run")
    assert (code, sorted(out.splitlines()), err) == (ExitCode.DONE, lines, "")
    code, out, _ = run("retry", job, "--dry-run", "--status", "404", "--host", "A.test")
    assert (code, out) == (ExitCode.DONE, "404\thttp_error\thttp://a.test/gone\n")
    assert tree(job) == before
    nothing = "nothing to put back: no URL that is done is one of these\n"
    assert run("retry", job, "--reason", "blocked") == (ExitCode.DONE, nothing, "")
    assert run("retry", job, "--host", "down.test", "--host", "nowhere.test", "--reason", "protocol") == (
        ExitCode.DONE, f"put back 1 URL: 1 failed (protocol)\ngo on:     irlcrawl resume {job}\n", "",
    )  # fmt: skip
    assert run("retry", job)[1].startswith("put back 2 URLs: 1 failed (protocol), 1 failed (tls)\n")
    assert run("retry", job)[1] == nothing
    for url in FAILED:
        ended.web.page(url)
    assert run("fsck", job, "--quiet")[0] == ExitCode.DONE
    ended.archived.clear()
    assert ended.run() == ExitCode.DONE
    assert run("retry", job)[1] == nothing
    assert run("urls", job, "--status", "failed")[1] == ""
    assert sorted(run("urls", job)[1].splitlines()) == [
        "200\tok\thttp://a.test/", *(f"200\tok\t{url}" for url in FAILED), "404\thttp_error\thttp://a.test/gone",
    ]  # fmt: skip
    assert sorted(run("urls", job, "--status", "returned")[1].splitlines()) == lines
    code, out, _ = run("why", job, "http://down.test/1")
    assert "done: fetched, ok" in out and "returned (tls) http://down.test/1  was failed" in out
    assert "failed" not in run("why", job, "down.test")[1].partition("history")[0]
    assert run("fsck", job, "--quiet") == (ExitCode.DONE, "all is as it was written\n", "")
    assert "3 put back" in run("status", job)[1]


def test_retry_of_errors_puts_back_what_urls_lists_as_errors(ended: Crawl, run: Run) -> None:
    """`go on: irlcrawl retry` of a crawl without a page left those out that a server had answered with 503."""
    job, errors = ended.path, run("urls", ended.path, "--status", "errors")[1]
    assert "404\thttp_error" in errors and "-2\ttls" in errors
    assert run("retry", job, "--status", "errors", "--dry-run")[1] == errors
    assert run("retry", job, "--status", "errors")[1].startswith(f"put back {len(errors.splitlines())} URLs: ")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"failed": 2, "failed_by_reason": {"tls": 2}}, ()),
        ({"failed": 1, "failed_by_reason": {"tls": 1}, "fetched_by_reason": {"http_error": 3}}, ("--status", "errors")),
        ({"excluded_by_reason": {"robots": 3, "blocked": 1}}, ("--reason", "robots")),
    ],
)
def test_a_crawl_without_a_page_names_what_to_put_back(counts: dict[str, Any], words: tuple[str, ...]) -> None:
    """Where all was excluded it named `retry`, which puts back what failed: nothing."""
    assert what_to_retry(complete({"state": "done", "source": "commit", **counts})) == words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reason", "bad"], "--reason bad: takes one of http_error, truncated, unwanted_type"),
        (["--status", "200"], "--status 200: takes an error such as 404"),
        (["--host", "http://a.test/"], "--host http://a.test/: takes a host's name, and no URL"),
        (["--host", "http://a.test:81/"], "--host http://a.test:81/: takes a host's name, and no URL"),
    ],
)
def test_a_filter_that_is_refused(ended: Crawl, run: Run, words: list[str], message: str) -> None:
    before = tree(ended.path)
    code, out, err = run("retry", ended.path, *words)
    assert code == ExitCode.CONFIG and message in err and not out and tree(ended.path) == before


def test_codes_of_a_job_that_is_not_there_in_use_or_damaged(
    ended: Crawl, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("retry", tmp_path / "none")[0] == ExitCode.FAILED
    monkeypatch.setattr("irlcrawl.base.job.LOCK_WAIT_SECONDS", 0.0)
    with JobDir(ended.path):
        assert run("retry", ended.path)[0] == ExitCode.LOCKED
    log = ended.path / "logs" / "crawl.log"
    log.write_bytes(log.read_bytes()[:-100])
    code, _, err = run("retry", ended.path)
    assert code == ExitCode.DAMAGED and "crawl.log" in err


def test_retry_beside_a_running_crawl_is_repeated_until_the_crawl_takes_it(
    ended: Crawl, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_in, "WAIT_SECONDS", 0.0)
    answers, files = [STALE, BUSY, TAKEN], list[tuple[int, int]]()

    def retry(request: dict[str, str]) -> str:
        sections = Segment.open(Files(), ended.path / "state" / request["file"]).sections
        files.append((sections["outcomes"].meta["number"], sections["returns"].rows))
        return answers.pop(0)

    with serving(JobDir(ended.path).socket, {"status": lambda _: {}, "hand_in": retry}):
        before = tree(ended.path / "state")
        code, out, err = run("retry", ended.path)
        assert (code, err) == (ExitCode.DONE, "")
        assert out.splitlines() == [
            "put back 3 URLs: 2 failed (protocol), 1 failed (tls)", "the crawl asks for them within seconds",
        ]  # fmt: skip
        assert files == [(1, 3)] * 3 and tree(ended.path / "state") == before
        answers += [STALE] * hand_in.ROUNDS
        code, out, err = run("retry", ended.path)
        assert code == ExitCode.FAILED and not out and "run the command again" in err
        code, out, err = run("retry", ended.path)  # no answer is left
        assert code == ExitCode.FAILED and "IndexError" in err and tree(ended.path / "state") == before
