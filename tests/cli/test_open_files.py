"""How many files a crawl may open."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli.open_files import FILES_MIN, allow_all
from tests.cli.conftest import Run

AGENT = ("-s", "crawl.user_agent=test (+https://example.org/)")


def test_all_files_that_the_system_allows_are_allowed() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        assert allow_all() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_crawl_that_may_open_too_few_files_says_so_before_it_begins(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in tracebacks of its event loop."""
    monkeypatch.setattr("irlcrawl.cli.verbs_crawl.allow_all", lambda: FILES_MIN - 1)
    code, _, said = run("crawl", tmp_path / "job", "http://127.0.0.1:1/", *AGENT)
    assert code == ExitCode.FAILED and str(FILES_MIN) in said and "`ulimit -Hn`" in said
    assert not (tmp_path / "job").exists()
