"""fsck, repair and start agree about what is whole: each way in which they did not, and a sample of all damages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from drum import Catalog, Files

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.frontier.state.harvested import Reach, reach_of
from irlcrawl.worker.archive.warc import warc_files
from tests.upkeep import damages
from tests.upkeep.damages import JUNK, SECTOR

Make = Callable[[str], JobDir]
EVERY = 150
"""Of all damages so many are one that is tried here; `python -m tests.upkeep.damages` tries all."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("crawls")
    return {kind: damages.make(base / kind, kind) for kind in ("killed", "rolled", "stopped")}


@pytest.fixture
def make(bases: dict[str, Path], tmp_path: Path) -> Make:
    """make(kind) -> a JOB of that kind to do with as one likes."""

    def make(kind: str) -> JobDir:
        shutil.rmtree(tmp_path / kind, ignore_errors=True)
        return JobDir(shutil.copytree(bases[kind], tmp_path / kind))

    return make


def newest_covered(job: JobDir) -> tuple[Path, Reach]:
    """An open archive of which harvests that no commit names cover more than the commits do."""
    files = Files()
    reach = reach_of(files, str(job.state), Catalog.open(job.state, readonly=True))
    for file in warc_files(files, str(job.warcs)):
        found = reach.get(file.stream)
        if found is not None and file.open and found.committed[0] < found.harvested[0] == file.serial:
            return job.warcs / file.on_disk, found
    raise AssertionError("no such archive")


def refused_and_mended(job: JobDir, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """fsck names the file, a start refuses and touches nothing, and after --repair the crawl goes on to its end."""
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DAMAGED
    assert f"damaged: {path}" in capsys.readouterr().out
    before = {file: file.read_bytes() for file in job.path.rglob("*") if file.is_file() and file.name != "LOCK"}
    said = damages.refusal(job.path)
    assert said is not None and str(path) in said
    assert before == {file: file.read_bytes() for file in before}
    main.main(["fsck", str(job.path), "--quiet", "--repair"])
    assert damages.refusal(job.path) is None


@pytest.mark.parametrize("eighths", [0, 5])
def test_an_open_archive_that_was_cut_below_what_a_harvest_covers_is_damage(
    make: Make, eighths: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every start ended with 6, while fsck said that all was well and --repair changed nothing."""
    job = make("killed")
    path, reach = newest_covered(job)
    path.write_bytes(path.read_bytes()[: reach.harvested[1] * eighths // 8])
    refused_and_mended(job, path, capsys)
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE


def test_an_archive_that_no_commit_names_and_that_is_gone_is_damage(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """What harvests had of it was committed: its pages counted as fetched, and were in no archive."""
    job = make("killed")
    path, _ = newest_covered(job)
    path.unlink()
    refused_and_mended(job, job.warcs, capsys)
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE


@pytest.mark.parametrize("place", ["within", "at its end"])
def test_zeros_where_a_harvest_covers_an_archive_are_found_before_a_start_takes_it(
    make: Make, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were a torn end to fsck, a start took the harvest, and the pages could not be read in the end."""
    job = make("killed")
    path, reach = newest_covered(job)
    covered = reach.harvested[1]
    at = covered // 2 // SECTOR * SECTOR if place == "within" else covered - 20
    data = path.read_bytes() if place == "within" else path.read_bytes()[:covered]
    path.write_bytes((data[:at] + bytes(SECTOR) + data[at + SECTOR :])[: len(data)])
    refused_and_mended(job, path, capsys)


def test_junk_behind_a_rolled_part_of_the_crawl_log_is_left_behind(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first commit that compressed the part ended the crawl with 6, and fsck said that all was well."""
    job = make("rolled")
    part = next(path for path in job.logs.glob("crawl.log.*") if path.suffix != ".gz")
    whole = part.read_bytes()
    for junk in (JUNK, JUNK + b"\n"):
        job = make("rolled")
        part.write_bytes(whole + junk)
        assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE
        assert f"{part}: its last {len(junk)} bytes were not committed" in capsys.readouterr().out
        assert damages.refusal(job.path) is None
        assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE
    job = make("rolled")
    part.write_bytes(whole[:-1])
    refused_and_mended(job, part, capsys)


def test_a_configuration_that_was_cut_short_is_not_taken_for_new_settings(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut between two keys it was TOML still, and the crawl went on with defaults for those that were gone: URLs failed
    for it."""
    job = make("stopped")
    lines = job.config_file.read_text().splitlines(keepends=True)
    for kept in range(0, len(lines), 7):
        job.config_file.write_text("".join(lines[:kept]))
        for verb in ("resume", "fsck", "inspect"):
            assert main.main([verb, str(job.path)]) == ExitCode.DAMAGED, (verb, kept)
            said = "".join(capsys.readouterr())
            assert str(job.config_file) in said and "cut short" in said and "--repair" in said
    at = next(number for number, line in enumerate(lines) if line.startswith("depth_max"))
    job.config_file.write_text("".join(lines[:at] + lines[at + 2 :]))
    assert main.main(["resume", str(job.path)]) == ExitCode.DAMAGED
    gone = [line.split(" = ")[0] for line in lines[at : at + 2]]
    said = capsys.readouterr().err
    assert all(key in said for key in gone if key), said
    assert main.main(["fsck", str(job.path), "--quiet", "--repair"]) == ExitCode.DONE
    assert job.config_file.read_text() == "".join(lines)


def test_a_configuration_that_was_edited_by_hand_is_taken_and_said(
    make: Make, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    job = make("stopped")
    text = job.config_file.read_text()
    job.config_file.write_text(text.replace("links_max = ", "links_max = 1") + '\n[site."a.test"]\nblock = true\n')
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE
    assert "page.links_max was" in capsys.readouterr().out
    assert damages.refusal(job.path) is None
    assert "page.links_max was" in caplog.text


def test_a_key_that_shaped_the_disk_and_was_edited_by_hand_is_refused(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was taken without a word, by an option it was refused."""
    job = make("stopped")
    job.config_file.write_text(job.config_file.read_text().replace("\nbase = 2\n", "\nbase = 3\n"))
    refused_and_mended(job, job.config_file, capsys)
    assert "\nbase = 2\n" in job.config_file.read_text()


@pytest.mark.parametrize("kind", ["killed", "rolled", "stopped"])
def test_fsck_start_and_repair_agree_about_a_sample_of_damages(
    bases: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    told = [damages.check(bases[kind], damage, tmp_path) for damage in list(damages.damages(bases[kind]))[7::EVERY]]
    assert {"refused"} <= set(told) <= {"clean", "told", "refused"}
