"""State files that are gone, or that are another's: said before anything is touched, with exit code 6."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from drum import Damaged

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import load
from irlcrawl.frontier.state.crawl_state import CrawlState
from tests.upkeep import three_sites
from tests.upkeep.conftest import Copy
from tests.upkeep.test_fsck import damage, findings, flip
from tests.upkeep.test_repair import goes_on


def state_of(job: JobDir) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in job.state.iterdir()}


def opened(job: JobDir) -> Damaged:
    """What a start says."""
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(Damaged) as told:
        three_sites.crawl_of(job.path, monkeypatch).run()
    return told.value


def mended(job: JobDir) -> None:
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
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


def test_a_start_that_is_refused_leaves_the_configuration_as_it_was(copy: Copy) -> None:
    """Options of a command that could not begin were in irlcrawl.toml, and what had been there was nowhere."""
    for harmed in ("turn-*.seg", "catalog-*.log"):
        job = copy("killed")
        path = min(job.state.glob(harmed))
        path.unlink() if harmed.startswith("turn") else flip(path, 30)
        with pytest.raises(Damaged):
            CrawlState.open(job, load(job.config_file), VirtualClock(), write_config=lambda: pytest.fail("was written"))
    written = list[bool]()
    CrawlState.open(copy("killed"), Config(), VirtualClock(), write_config=lambda: written.append(True)).close()
    assert written == [True]


def test_a_snapshot_with_a_missing_segment_says_which(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """It `could not be held still long enough`."""
    job = copy("stopped")
    gone = max(job.state.glob("turn-*.seg"))
    gone.unlink()
    assert main.main(["snapshot", str(job.path), "x"]) == ExitCode.DAMAGED
    assert str(gone) in capsys.readouterr().err and not list(job.snapshots.iterdir())


def test_an_open_archive_that_is_missing_is_said_and_nothing_is_fetched_again(copy: Copy) -> None:
    """Gone on with while the disk of JOB/warcs was not mounted, a killed crawl fetched again what nobody had harvested,
    and of the archive that came back, open for ever, no unit had a line in the log. `--repair` left it closed."""
    job = copy("killed")
    whole = job.warcs.rename(job.path / "unmounted")
    job.warcs.mkdir()
    before = state_of(job)
    error = opened(job)
    assert error.file == str(job.warcs) and "not closed yet" in error.what
    assert state_of(job) == before and not list(job.warcs.iterdir())
    job.warcs.rmdir()
    whole.rename(job.warcs)
    goes_on(job)
    job = copy("killed")
    for path in job.warcs.glob("*.open"):
        path.unlink()
    assert "not closed yet" in opened(job).what
    mended(job)


@pytest.mark.parametrize("name", ["{time}-{serial:05d}-s0001.warc.gz.open", "{time}-{serial:05d}-s0001.warc.gz",
                                  "{time}-00000-s0099.warc.gz"])  # fmt: skip
def test_archives_of_another_crawl_are_said_and_none_is_cut(copy: Copy, name: str) -> None:
    """They were read on from where this crawl's archive of that number ended: an IndexError, or ends of URLs that
    nobody had asked for; and those that were open were cut there."""
    stranger = min(copy("stopped").warcs.iterdir())
    job = copy("killed")
    serial = max(path.name for path in job.warcs.glob("*-s0001.warc.gz.open")).split("-")[2]
    path = job.warcs / f"irlcrawl-{name.format(time='20010101000000000', serial=int(serial))}"
    shutil.copy(stranger, path)
    archives = {file.name: file.read_bytes() for file in job.warcs.iterdir()}
    before = state_of(job)
    error = opened(job)
    assert error.file == str(path) and "another crawl" in error.what
    assert state_of(job) == before and {file.name: file.read_bytes() for file in job.warcs.iterdir()} == archives
    assert any(found.file == str(path) and "another crawl" in found.what for found in damage(job))
    path.unlink()
    goes_on(job)


def test_archives_that_a_copy_of_this_crawl_wrote_are_said(copy: Copy, tmp_path: Path) -> None:
    """Both copies were led to the same archives: each took those of the other's streams for its own, and renamed them
    under whoever wrote there."""
    other = JobDir(copy("killed").path.rename(tmp_path / "other"))
    job = copy("killed")
    known = {path.name.removesuffix(".open") for path in job.warcs.iterdir()}
    goes_on(other)
    strange = [path for path in other.warcs.iterdir() if path.name not in known]
    for path in strange:
        shutil.copy(path, job.warcs)
    before, archives = state_of(job), {file.name: file.read_bytes() for file in job.warcs.iterdir()}
    error = opened(job)
    assert os.path.basename(error.file) in {path.name for path in strange} and "a copy of it" in error.what
    assert state_of(job) == before and {file.name: file.read_bytes() for file in job.warcs.iterdir()} == archives
    assert any("a copy of it" in found.what for found in damage(job))
    for path in strange:
        (job.warcs / path.name).unlink()
    goes_on(job)
    job = copy("killed")
    for path in strange:
        shutil.copy(path, job.warcs)
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


def test_a_catalogue_without_its_last_lines_deletes_nothing(copy: Copy) -> None:
    """Whole lines that are gone leave nothing torn: of the first commit alone was made a new crawl, over the files of
    all the others. Where no file of theirs is left, what is lost is read again."""
    job = copy("stopped")
    whole = max(job.state.glob("catalog-*.log")).read_bytes()
    ends = [at for at, byte in enumerate(whole, 1) if byte == ord("\n")]
    for end in ends[:-1]:
        os.truncate(max(job.state.glob("catalog-*.log")), end)
        if damage(job):
            before = state_of(job)
            assert opened(job).file.startswith(str(job.state)) and state_of(job) == before
        else:
            goes_on(job)
        job = copy("stopped")
    os.truncate(max(job.state.glob("catalog-*.log")), ends[0])
    mended(job)


def test_a_crawl_log_that_is_gone_is_not_begun_anew(copy: Copy) -> None:
    """The start that missed it left an empty one, which `fsck` then called cut short."""
    job = copy("stopped")
    job.crawl_log.unlink()
    assert opened(job).file == str(job.crawl_log) and not job.crawl_log.exists()
    mended(job)


def test_a_configuration_that_is_not_as_it_was_is_noted(copy: Copy) -> None:
    """Cut in the middle of a number, or with another digit, it is a configuration still."""
    job = copy("stopped")
    goes_on(job)
    assert not [found for found in findings(job) if found.file == str(job.config_file)]
    flip(job.config_file, job.config_file.read_bytes().index(b"_seconds = ") + 11, 1)
    (found,) = [found for found in findings(job) if found.file == str(job.config_file)]
    assert not found.damage and "edited since, or damaged" in found.what


def test_a_configuration_that_is_gone_is_not_made_anew(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """`crawl JOB URL` went on with its defaults: other robots keys, another scope, and what waited was left out for
    good; without a URL it said that there was no crawl."""
    job = copy("stopped")
    job.lock_file.touch()
    job.config_file.unlink()
    before = state_of(job)
    for more in ([], ["http://x.test/", "--user-agent", "A/1 (+http://a.test/)"]):
        assert main.main(["crawl", str(job.path), *more]) == ExitCode.DAMAGED
        assert "put the configuration back" in capsys.readouterr().err
    assert state_of(job) == before and not job.config_file.exists()


def test_a_segment_in_anothers_place_is_damage(copy: Copy) -> None:
    """Whole in itself, it was a KeyError."""
    job = copy("killed")
    first, *_, last = sorted(job.state.glob("turn-*.seg"))
    shutil.copy(first, last)
    error = opened(job)
    assert error.file == str(last) and "which the catalogue names" in error.what
    assert str(last) in {found.file for found in damage(job)}
    mended(job)


def test_a_directory_in_a_segments_place_was_an_error_without_a_name(
    copy: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    """`Is a directory`, it said, with exit code 1."""
    job = copy("killed")
    place = min(job.state.glob("turn-*.seg"))
    away = place.rename(job.path / place.name)
    place.mkdir()
    error = opened(job)
    assert error.file == str(place) and error.what == "a directory is in this file's place: move it away"
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DAMAGED
    assert f"{place}" in (said := capsys.readouterr().out) and error.what in said
    place.rmdir()
    away.rename(place)
    (job.state / "mine.seg").mkdir()
    goes_on(job)


def test_damage_is_said_with_what_to_do_about_it(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("stopped")
    max(job.state.glob("turn-*.seg"), key=lambda path: path.stat().st_size).unlink()
    assert main.main(["why", str(job.path), "a.one.test"]) == ExitCode.DAMAGED
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
    asked = ["status"], ["inspect"], ["report"]
    asked += ["why", "a.one.test"], ["urls", "--status", "queued"], ["snapshot", "k"]
    for verb, *more in asked:  # there was nothing to tell, they said
        assert main.main([verb, str(job.path), *more]) == ExitCode.DAMAGED, verb
        assert "the state is gone" in capsys.readouterr().err
    before = set(cli_lines(job, capsys))
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert "every URL is given a new key" in capsys.readouterr().out
    assert set(cli_lines(job, capsys)) == before
    goes_on(job)


def cli_lines(job: JobDir, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `urls` lists."""
    capsys.readouterr()
    assert main.main(["urls", str(job.path)]) == ExitCode.DONE
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
        assert main.main([verb, str(job.path), *more]) == ExitCode.DAMAGED, verb
        assert str(path) in capsys.readouterr().err
    assert not list(job.snapshots.iterdir())
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert main.main(["urls", str(job.path)]) == ExitCode.DONE
