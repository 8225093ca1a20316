"""Closed archives are the operator's: moved, linked to, emptied or deleted, they keep no crawl from being checked."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import snapshot as shots
from irlcrawl.upkeep.fsck import Fsck
from tests.upkeep.conftest import Copy
from tests.upkeep.test_fsck import damage, findings


def test_a_link_to_an_archive_on_a_disk_that_is_away_ended_fsck(copy: Copy, tmp_path: Path) -> None:
    job, disk = copy("stopped"), tmp_path / "disk"
    disk.mkdir()
    path = min(job.warcs.iterdir())
    path.rename(disk / path.name)
    path.symlink_to(os.path.relpath(disk / path.name, job.warcs))
    assert not damage(job) and not any("away" in found.what for found in findings(job))
    kept = JobDir(shots.take(job, "kept").path)
    assert (kept.warcs / path.name).read_bytes() == path.read_bytes(), "a relative link led elsewhere from there"
    disk.rename(tmp_path / "unmounted")
    for at in (job, kept):
        assert not damage(at) and any(
            "1 archive with" in found.what and " away: " in found.what for found in findings(at)
        )
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE


def test_an_empty_archive_that_was_closed_keeps_no_crawl_from_going_on(copy: Copy) -> None:
    """`--repair` made its state and its log anew for it, and repairs no archives."""
    job = copy("stopped")
    path = min(job.warcs.iterdir())
    path.write_bytes(b"")
    check = Fsck(job, Bar())
    assert [found.file for found in check.run() if found.damage] and str(path) not in check.closed_to_starts
    main.main(["fsck", str(job.path), "--repair", "--quiet"])
    assert not (job.path / "state.damaged-1").exists()


def test_archives_that_are_away_are_no_damage(copy: Copy) -> None:
    """Closed and committed: the operator may have moved them."""
    job = copy("stopped")
    gone = sorted(job.warcs.iterdir())[:3]
    for path in gone:
        path.unlink()
    assert damage(job) == []
    assert any("3 archives with" in found.what and " away: " in found.what for found in findings(job))


def test_exports_and_verify_said_nothing_of_archives_that_are_away(
    copy: Copy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, rows = copy("stopped"), str(tmp_path / "rows")
    assert main.main(["export", "pages", str(job.path), "-o", rows, "--jobs", "1"]) == ExitCode.DONE
    assert main.main(["verify", str(job.path)]) == ExitCode.DONE
    assert not re.search("moved away|away, and not checked", "".join(capsys.readouterr())), "all are there"
    for path in sorted(job.warcs.iterdir())[:3]:
        path.unlink()
    said = f"3 archives are not in {job.warcs} (moved away, or on another machine of the crawl), and left out"
    for what in ("pages", "cdxj", "wacz"):
        assert main.main(["export", what, str(job.path), "-o", str(tmp_path / what), "--jobs", "1"]) == ExitCode.DONE
        assert said in capsys.readouterr().err
    assert main.main(["export", "pages", str(job.path), "-o", rows, "--jobs", "1"]) == ExitCode.DONE
    assert "moved away" not in capsys.readouterr().err, "an export that has them keeps their rows"
    assert main.main(["verify", str(job.path)]) == ExitCode.DONE
    assert "3 archives are away, and not checked" in capsys.readouterr().out
