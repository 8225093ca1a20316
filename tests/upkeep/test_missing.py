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


def test_a_state_that_is_gone_is_said_and_nothing_is_begun_anew(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a state directory the same command began a new crawl over the old one: it cut the crawl log to nothing,
    and ended with exit code 0. `fsck` held parts of the log for damaged that were whole."""
    job = copy("stopped")
    shutil.rmtree(job.state)
    job.state.mkdir()
    logs = {path.name: path.read_bytes() for path in job.logs.iterdir()}
    assert "the state is gone" in opened(job).what and not list(job.state.iterdir())
    assert {path.name: path.read_bytes() for path in job.logs.iterdir()} == logs
    assert {found.file for found in damage(job)} == {str(job.state)}
    before = set(cli_lines(job, capsys))
    assert cli.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert "every URL is given a new key" in capsys.readouterr().out
    assert set(cli_lines(job, capsys)) == before
    goes_on(job)


def cli_lines(job: JobDir, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `urls` lists."""
    capsys.readouterr()
    assert cli.main(["urls", str(job.path)]) == ExitCode.DONE
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("which", ["first part", "last part", "newest", "end of the newest"])
def test_a_crawl_log_that_is_not_all_there_is_said_by_who_reads_it(
    copy: Copy, which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`urls`, `report` and `why` told less, `report --politeness` that no promise was broken, with exit code 0; a
    snapshot `could not be held still`."""
    job = copy("stopped")
    parts = sorted(job.logs.glob("crawl.log.*"), key=lambda path: int(path.name.split(".")[2]))
    assert len(parts) > 1
    path = {"first part": parts[0], "last part": parts[-1]}.get(which, job.crawl_log)
    if which == "end of the newest":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    asked = ["urls"], ["report"], ["report", "--politeness"], ["why", "a.one.test"], ["get", "http://a.one.test/none"]
    for verb, *more in (*asked, ["snapshot", "kept"]):
        assert cli.main([verb, str(job.path), *more]) == ExitCode.DAMAGED, verb
        assert str(path) in capsys.readouterr().err
    assert not list(job.snapshots.iterdir())
    assert cli.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert cli.main(["urls", str(job.path)]) == ExitCode.DONE
