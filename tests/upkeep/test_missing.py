"""State files that are gone, or that are another's: said before anything is touched, with exit code 6."""

from __future__ import annotations

import shutil

import pytest

from drum import Damaged
from irlcrawl import cli
from irlcrawl.job import ExitCode, JobDir
from tests.upkeep import versions
from tests.upkeep.conftest import Copy
from tests.upkeep.test_fsck import damage
from tests.upkeep.test_repair import goes_on


def state_of(job: JobDir) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in job.state.iterdir()}


def opened(job: JobDir) -> Damaged:
    """What a start says."""
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(Damaged) as told:
        versions.crawl_of(job.path, monkeypatch).run()
    return told.value


def mended(job: JobDir) -> None:
    assert cli.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    goes_on(job)


@pytest.mark.parametrize("which", [0, -1])
def test_a_missing_segment_is_said_and_nothing_is_touched(copy: Copy, which: int) -> None:
    """It was a `No such file or directory` with exit code 1."""
    job = copy("killed")
    gone = sorted(job.state.glob("turn-*.seg"))[which]
    gone.unlink()
    before = state_of(job)
    error = opened(job)
    assert error.file == str(gone) and "missing" in error.what
    assert state_of(job) == before
    mended(job)


def test_a_catalogue_that_lost_its_end_deletes_nothing(copy: Copy) -> None:
    """Cut in the middle of an older line it reads like one whose last commit never reached the disk: the start cut the
    rest off and swept the files of the later commits away before it missed one of the earlier."""
    job = copy("killed")
    catalogue = max(job.state.glob("catalog-*.log"))
    catalogue.write_bytes(catalogue.read_bytes()[: catalogue.stat().st_size // 2])
    before = state_of(job)
    assert "missing" in opened(job).what
    assert state_of(job) == before
    mended(job)


def test_a_segment_in_anothers_place_is_damage(copy: Copy) -> None:
    """Whole in itself, it was a KeyError."""
    job = copy("killed")
    first, *_, last = sorted(job.state.glob("turn-*.seg"))
    shutil.copy(first, last)
    error = opened(job)
    assert error.file == str(last) and "which the catalogue names" in error.what
    assert str(last) in {found.file for found in damage(job)}
    mended(job)


def test_damage_is_said_with_what_to_do_about_it(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("stopped")
    max(job.state.glob("turn-*.seg"), key=lambda path: path.stat().st_size).unlink()
    assert cli.main(["why", str(job.path), "a.one.test"]) == ExitCode.DAMAGED
    assert f"irlcrawl fsck {job.path}" in capsys.readouterr().err
