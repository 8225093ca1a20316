"""Archives told to the operator's command: each one that is closed and committed, and then it is his."""

from __future__ import annotations

import errno
import os
import shlex
import threading
from pathlib import Path

from drum import Catalog, Edits

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from tests.crawl.virtual_crawl import START, Crawl, Killed
from tests.upkeep import three_sites
from tests.upkeep.conftest import rolling, save_config


def started(path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> Crawl:
    crawl = rolling(three_sites.crawl_of(path, monkeypatch), monkeypatch)
    crawl.config.archive.on_warc_closed = command
    return crawl


def test_every_archive_is_told_and_may_be_moved_while_the_crawl_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed twice: none is forgotten, and none that was moved is missed."""
    away = tmp_path / "a way"
    away.mkdir()
    crawl = started(tmp_path / "job", monkeypatch, f"mv -n -t {shlex.quote(str(away))}")
    count = 0

    def on_request(_: str) -> None:
        nonlocal count
        count += 1
        if count in (120, 240):
            crawl.kill()

    crawl.on_request = on_request
    for compression in ("gzip", "zstd"):
        crawl.config.archive.compression = compression
        with pytest.raises(Killed):
            crawl.run()
    assert crawl.run() == ExitCode.DONE
    job = save_config(crawl)
    assert list(job.warcs.iterdir()) == []
    moved = {path.name for path in away.iterdir()}
    assert len(moved) > 6 and {name.split(".warc")[1] for name in moved} == {".gz", ".zst"}
    assert not Catalog.open(job.state, readonly=True).items("closed/")
    findings = list(Fsck(job, Bar(), now=lambda: START).run())
    assert not [found for found in findings if found.damage]
    assert any(f"{len(moved)} archives" in found.what for found in findings)


def test_no_archive_is_told_before_the_commit_that_closed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved away before, it would be missed by a recovery that has to read it again."""
    crawl = started(tmp_path / "job", monkeypatch, "false")
    commit = Catalog.commit

    def fails(catalog: Catalog, edits: Edits) -> int:
        if any(key.startswith("closed/") for key in edits.put):
            raise OSError(errno.EIO, "Input/output error")
        return commit(catalog, edits)

    monkeypatch.setattr(Catalog, "commit", fails)
    before = threading.enumerate()
    with pytest.raises(OSError, match="Input/output error"):
        crawl.run()
    assert "on_warc_closed" not in [thread.name for thread in threading.enumerate() if thread not in before]


def test_a_command_that_fails_is_run_again_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crawl = started(tmp_path / "job", monkeypatch, "false")
    crawl.config.limits.pages = 90
    assert crawl.run() == ExitCode.SIZE_LIMIT
    job, told = JobDir(crawl.path), tmp_path / "told"
    closed = {str(path) for path in job.warcs.iterdir()}
    assert len(closed) > 2 and "ended with 1 for" in caplog.text
    script = tmp_path / "tell"
    script.write_text(f'#!/bin/sh\necho "$1" >> {told}\n')
    script.chmod(0o755)
    crawl.config.archive.on_warc_closed = str(script)
    crawl.config.limits.pages = 0
    assert crawl.run() == ExitCode.DONE
    lines = told.read_text().splitlines()
    assert sorted(lines) == sorted(str(path) for path in job.warcs.iterdir()) and closed < set(lines)


def test_a_command_that_says_much_or_leaves_something_running_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All that it said was held in the frontier's memory (`cat` of an archive: all of it), and what it had put into the
    background kept its pipes: it was waited for, and then taken for a command that had failed."""
    script, fed = tmp_path / "tell", tmp_path / "fed"
    os.mkfifo(fed)
    script.write_text(
        '#!/bin/sh\n[ -e "$0.done" ] || { touch "$0.done"; cat "$(dirname "$0")/fed" & }\n'
        'head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo "the end of $1" >&2; exit 1\n'
    )
    script.chmod(0o755)
    crawl = started(tmp_path / "job", monkeypatch, str(script))
    crawl.config.limits.pages = 90
    try:
        assert crawl.run() == ExitCode.SIZE_LIMIT
    finally:
        os.close(os.open(fed, os.O_RDWR))  # the one left running may end
    said = [record.getMessage() for record in caplog.records if "ended with 1 for" in record.getMessage()]
    assert said and all("the end of" in line and len(line) < 1500 for line in said)
