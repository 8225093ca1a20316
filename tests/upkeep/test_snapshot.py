"""Snapshots: taken at any moment of a crawl, whole for ever, and a crawl of its own as often as one likes."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from drum import Catalog, Damaged, Files

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError
from irlcrawl.base.job_files import SEEDS_STREAM, rules_log_name
from irlcrawl.cli import main
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import snapshot as shots
from irlcrawl.upkeep.fsck import Fsck
from tests.crawl.virtual_crawl import START, Crawl, Killed
from tests.upkeep import three_sites
from tests.upkeep.conftest import Copy, rolling, save_config

TAKEN_AT = (5, 40, 90, 200)


def tree(path: Path) -> dict[str, str]:
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def taking(path: Path, monkeypatch: pytest.MonkeyPatch, shared: dict[int, list[str]], killed_at: int) -> Crawl:
    """A crawl that rolls logs and archives; snapshots are taken at some of its requests, from outside. shared: what of
    each `written_to_and_shared` says."""
    crawl = rolling(three_sites.crawl_of(path, monkeypatch), monkeypatch)
    count = 0

    def on_request(_: str) -> None:
        nonlocal count
        count += 1
        if count == 1:
            save_config(crawl)
        if count in TAKEN_AT:
            shared[count] = written_to_and_shared(JobDir(path), shots.take(JobDir(path), f"at-{count}"))
        if count == killed_at:
            crawl.kill()

    crawl.on_request = on_request
    return crawl


def written_to_and_shared(job: JobDir, taken: shots.Snapshot) -> list[str]:
    """What recovery would cut, append to or sync, here or there, and both have."""
    streams = [int(key.split("/")[1]) for key, _ in Catalog.open(job.state, readonly=True).items("streams/")]
    open_archives = [path for path in job.warcs.iterdir() if path.suffix == ".open"]
    written = [job.state / rules_log_name(stream) for stream in streams] + open_archives
    there = ((path, taken.path / path.parent.name / path.name.removesuffix(".open")) for path in written)
    both = [path.name for path, copied in there if copied.exists() and copied.samefile(path)]
    return both + [key for key, _ in Catalog.open(taken.path / "state", readonly=True).items("streams/")]


def everything(crawl: Crawl) -> set[str]:
    pages = {url for url in crawl.web.answers if not url.endswith("robots.txt")}
    return pages | {"http://a.two.test/gone", "http://a.two.test/secret/1"}


def test_snapshots_of_a_running_crawl_are_whole_and_crawls_of_their_own(tmp_path: Path) -> None:
    job, shared = JobDir(tmp_path / "job"), dict[int, list[str]]()
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = taking(job.path, monkeypatch, shared, killed_at=150)
        with pytest.raises(Killed):
            crawl.run()
        kept = {one.name: tree(one.path) for one in shots.snapshots(job)}
        assert crawl.run() == ExitCode.DONE  # recovery cuts and finishes what the kill left
        assert set(crawl.outcomes()) == everything(crawl)
    assert shared == {count: [f"streams/{SEEDS_STREAM}"] for count in TAKEN_AT}
    taken = list(shots.snapshots(job))
    assert [one.name for one in taken] == [f"at-{n}" for n in TAKEN_AT]
    assert all(tree(one.path) == kept[one.name] for one in taken if one.name in kept) and len(kept) == 3
    assert [one.fetched for one in taken] == sorted(one.fetched for one in taken) and taken[-1].fetched > 100
    for one in taken:
        found = [finding for finding in Fsck(JobDir(one.path), Bar(), now=lambda: START).run() if finding.damage]
        assert found == [], one.name
    before = {one.name: tree(one.path) for one in taken}
    for name, number in (("at-40", 0), ("at-40", 1), ("at-200", 2)):
        shots.open_as(job, name, tmp_path / f"again{number}")
        with pytest.MonkeyPatch.context() as monkeypatch:
            again = rolling(three_sites.crawl_of(tmp_path / f"again{number}", monkeypatch), monkeypatch)
            again.clock.advance(1000.0)
            assert again.run() == ExitCode.DONE
            assert set(again.outcomes()) == everything(again)
            fetched = next(one.fetched for one in taken if one.name == name)
            assert len(again.web.pages_asked) <= len(everything(again)) - fetched, "what it knew is not asked again"
    assert {one.name: tree(one.path) for one in taken} == before, "nothing that is shared was touched"
    assert not [found for found in Fsck(job, Bar(), now=lambda: START).run() if found.damage]


def test_a_snapshot_is_asked_like_a_crawl_listed_deleted_and_not_crawled(
    copy: Copy, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = copy("stopped")
    assert main.main(["snapshot", str(job.path), "first"]) == ExitCode.DONE
    assert main.main(["snapshot", str(job.path), "first"]) == ExitCode.FAILED
    assert "--delete first" in capsys.readouterr().err
    for name in ("../up", ".hidden", "", "a/b"):  # what the command line says is no name, as README's table has it
        assert main.main(["snapshot", str(job.path), name]) == ExitCode.CONFIG
        assert main.main(["snapshots", str(job.path), "--delete", name]) == ExitCode.FAILED
    at = job.snapshots / "first"
    capsys.readouterr()
    assert main.main(["status", str(at)]) == ExitCode.DONE
    assert "state     snapshot" in capsys.readouterr().out  # it said that the same command goes on
    for words in (["status"], ["inspect"], ["urls"], ["report"], ["verify"], ["fsck", "--quiet"]):
        assert main.main([words[0], str(at), *words[1:]]) == ExitCode.DONE, words
    assert main.main(["why", str(at), "a.one.test"]) == ExitCode.DONE
    capsys.readouterr()
    assert main.main(["crawl", str(at)]) == ExitCode.FAILED
    assert "--open first DIR" in capsys.readouterr().err
    assert main.main(["snapshots", str(job.path), "--json"]) == ExitCode.DONE
    (listed,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert listed["name"] == "first" and listed["path"] == str(at) and listed["fetched"] >= 90
    assert main.main(["snapshots", str(job.path)]) == ExitCode.DONE
    assert "first" in capsys.readouterr().out
    assert main.main(["snapshots", str(job.path), "--open", "first", str(tmp_path / "new")]) == ExitCode.DONE
    assert main.main(["snapshots", str(job.path), "--open", "first", str(tmp_path / "new")]) == ExitCode.FAILED
    assert main.main(["snapshots", str(job.path), "--open", "second", str(tmp_path / "other")]) == ExitCode.FAILED
    assert "there are: first" in capsys.readouterr().err
    shared = list((tmp_path / "new" / "warcs").iterdir())
    assert shared and all(path.stat().st_nlink == 3 for path in shared)
    assert main.main(["snapshots", str(job.path), "--delete", "first"]) == ExitCode.DONE
    assert list(shots.snapshots(job)) == [] and not at.exists()
    assert all(path.stat().st_nlink == 2 for path in shared)
    assert not [found for found in Fsck(job, Bar(), now=lambda: START).run() if found.damage]


def test_a_snapshot_is_on_the_disk_before_it_has_its_name(copy: Copy) -> None:
    """What its name shows after a power loss is all there."""
    job, calls = copy("stopped"), list[tuple[str, str]]()

    class Watched(Files):
        def fsync_dir(self, path: Any) -> None:
            calls.append(("sync", str(path)))
            super().fsync_dir(path)

        def rename(self, old: Any, new: Any) -> None:
            calls.append(("rename", str(new)))
            super().rename(old, new)

    shots.take(job, "first", Watched())
    named = calls.index(("rename", str(job.snapshots / "first")))
    building = job.snapshots / ".first"
    for directory in (building / "state", building / "warcs", building / "logs", building):
        assert ("sync", str(directory)) in calls[:named], directory.name
    assert calls[named + 1 :] == [("sync", str(job.snapshots))]


def test_a_log_that_was_rolled_after_the_commit_is_found_under_its_new_name(copy: Copy) -> None:
    """By a turn that has not committed yet, or never did."""
    job = copy("stopped")
    committed = Catalog.open(job.state, readonly=True).get("log")
    before = job.crawl_log.read_bytes()
    job.crawl_log.rename(job.logs / f"crawl.log.{committed['part'] + 1}")
    job.crawl_log.write_bytes(b"of the turn that rolled it\n" * 1000)
    at = JobDir(shots.take(job, "first").path)
    assert at.crawl_log.read_bytes() == before
    assert not [found for found in Fsck(at, Bar(), now=lambda: START).run() if found.damage]


def test_two_snapshots_at_once_do_not_clear_what_the_other_builds(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = copy("stopped")
    shots.take(job, "old")
    codes, build = [], shots._build

    def meanwhile(*known: Any) -> dict[str, Any]:
        monkeypatch.setattr(shots, "_build", build)
        facts = build(*known)
        codes.append(main.main(["snapshot", str(job.path), "second"]))
        codes.append(main.main(["snapshots", str(job.path), "--delete", "old"]))
        return facts

    monkeypatch.setattr(shots, "_build", meanwhile)
    shots.take(job, "first")
    assert codes == [ExitCode.LOCKED] * 2 and "another snapshot" in capsys.readouterr().err
    assert {one.name for one in shots.snapshots(job)} == {"old", "first"}
    first = JobDir(job.snapshots / "first")
    assert not [found for found in Fsck(first, Bar(), now=lambda: START).run() if found.damage]
    assert main.main(["snapshot", str(job.path), "second"]) == ExitCode.DONE


def test_a_snapshot_before_the_first_commit_says_why_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with JobDir(tmp_path / "job") as job:
        job.write_config(to_toml(Config()))
    assert main.main(["snapshot", str(job.path), "first"]) == ExitCode.FAILED
    assert "committed nothing yet" in capsys.readouterr().err


def test_a_killed_crawl_can_be_kept_before_it_recovers(copy: Copy, tmp_path: Path) -> None:
    job = copy("killed")
    for path in sorted(job.warcs.glob("*00000*"))[:1]:
        path.unlink()  # away
    shots.take(job, "killed")
    at = JobDir(job.snapshots / "killed")
    assert not [found for found in Fsck(at, Bar(), now=lambda: START).run() if found.damage]
    assert not list(at.warcs.glob("*.open"))


def test_a_snapshot_is_not_changed_by_being_kept_again_nor_opened_inside_its_crawl(
    copy: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    """`snapshot JOB/snapshots/first again` wrote into what stays as it is; a crawl opened in JOB/snapshots stood there
    as a snapshot that could not be deleted."""
    job = copy("stopped")
    kept = shots.take(job, "first").path
    before = tree(kept)
    assert main.main(["snapshot", str(kept), "again"]) == ExitCode.FAILED
    assert "stays as it is" in capsys.readouterr().err and tree(kept) == before
    for inside in (job.snapshots / "second", job.path / "below" / "it"):
        assert main.main(["snapshots", str(job.path), "--open", "first", str(inside)]) == ExitCode.FAILED
        assert "name a directory elsewhere" in capsys.readouterr().err and not inside.exists()


@pytest.mark.parametrize("garbled", [b"", b"x", b"[]"])
def test_a_snapshot_whose_marker_is_damaged_is_named_and_keeps_no_other_from_being_taken(
    copy: Copy, garbled: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a JSONDecodeError, also of the next snapshot, which had been taken."""
    job = copy("stopped")
    marker = shots.take(job, "first").path / "SNAPSHOT"
    told = marker.read_bytes()
    for at in range(len(told)):
        marker.write_bytes(told[:at] + bytes([told[at] ^ 1]) + told[at + 1 :])
        with pytest.raises(Damaged, match="SNAPSHOT"):
            list(shots.snapshots(job))
    marker.write_bytes(garbled)
    assert main.main(["snapshots", str(job.path)]) == ExitCode.DAMAGED
    assert main.main(["fsck", str(marker.parent), "--quiet"]) == ExitCode.DAMAGED
    assert str(marker) in capsys.readouterr().err
    assert main.main(["snapshot", str(job.path), "second"]) == ExitCode.DONE
    assert main.main(["snapshots", str(job.path), "--delete", "first"]) == ExitCode.DONE
    assert [one.name for one in shots.snapshots(job)] == ["second"]
    marker = job.snapshots / "second" / "SNAPSHOT"
    facts = json.loads(marker.read_bytes())
    marker.write_text(json.dumps({name: value for name, value in facts.items() if name in shots.FACTS}))
    assert [one.commit for one in shots.snapshots(job)] == [facts["commit"]], "as they were written before"


def test_archives_elsewhere_are_no_traceback_of_a_snapshot(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moved away with their directory they were a crawl that could not be held still; on another disk behind a link, an
    `Invalid cross-device link`."""
    job = copy("stopped")
    shutil.rmtree(job.warcs)
    assert main.main(["snapshot", str(job.path), "without"]) == ExitCode.DONE
    job = copy("stopped")

    def link(files: Files, old: Path, new: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link", str(old))

    monkeypatch.setattr(Files, "link", link)
    assert main.main(["snapshot", str(job.path), "with"]) == ExitCode.FAILED
    assert "is on another file system than the snapshots" in capsys.readouterr().err
    assert not list(job.snapshots.iterdir())


@pytest.mark.parametrize("killed", [True, False])
def test_a_crawl_that_is_not_all_made_of_a_snapshot_is_none(
    copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Killed as the configuration was copied, `--open` left a crawl with an empty one, which `resume` took for a wish
    to have the defaults; Ctrl-C left half a crawl in the way of the next try."""
    job = copy("stopped")
    shots.take(job, "first")
    target = JobDir(tmp_path / "opened")
    kept = shots._copy

    def copied(source: Path, to: Path, length: int | None = None) -> None:
        kept(source, to, 0 if source.suffix == ".toml" else length)
        if source.suffix == ".toml":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shots, "_copy", copied)
        if killed:
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            shots.open_as(job, "first", target.path)
    assert target.path.exists() == killed and not target.exists()
    if not killed:
        shots.open_as(job, "first", target.path)
        assert target.config_file.read_bytes() == job.config_file.read_bytes()


def test_a_snapshot_opened_twice_at_once_in_one_place_is_opened_once(
    copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that came second took away files of the first, which said that the crawl could go on."""
    job, target = copy("stopped"), tmp_path / "opened"
    shots.take(job, "kept")

    def between() -> Files:
        monkeypatch.setattr(shots, "Files", Files)
        shots.open_as(job, "kept", target)
        return Files()

    monkeypatch.setattr(shots, "Files", between)
    with pytest.raises(JobError, match="is there already"):
        shots.open_as(job, "kept", target)
    assert not [found for found in Fsck(JobDir(target), Bar()).run() if found.damage]
