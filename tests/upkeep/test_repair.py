"""fsck --repair: whatever is damaged, what comes out is a whole crawl, which ends with every URL done once."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from drum import Catalog, Damaged, Edits, Files
from drum.segment import Segment

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import REPAIRED, SEEDS_STREAM, harvest_name
from irlcrawl.cli import main
from irlcrawl.crawl.returns import Selection
from irlcrawl.crawl.status import read_status
from irlcrawl.frontier.state import formats
from irlcrawl.upkeep import snapshot as shots
from irlcrawl.worker.archive.reader import records
from tests.crawl.test_returns import failing, put_back
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web, star
from tests.upkeep import three_sites
from tests.upkeep.conftest import Copy, rolling, save_config
from tests.upkeep.test_fsck import flip
from tests.upkeep.test_snapshot import everything

PUT_OFF = {"http://c.three.test/5"}


def archived(job: JobDir) -> set[str]:
    return {
        record.fields["warc-target-uri"]
        for warc in job.warcs.iterdir()
        for record in records(Files(), str(warc), keep=False)
        if record.unit is not None and not record.fields["warc-target-uri"].endswith("robots.txt")
    }


def goes_on(job: JobDir) -> None:
    """The repaired crawl ends as it would have, and asks for nothing that is in the archives."""
    known = archived(job)
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = rolling(three_sites.crawl_of(job.path, monkeypatch), monkeypatch)
        crawl.clock.advance(86_400.0)
        assert crawl.run() == ExitCode.DONE
        assert set(crawl.outcomes()) == everything(crawl)
        assert not known & set(crawl.web.pages_asked) - PUT_OFF
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE


@pytest.mark.parametrize("damage", ["log_line", "all_gone", "largest_gone", "first_line", "log_gone"])
def test_what_was_put_back_waits_or_is_done_after_a_repair_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """One URL was put back and failed again, another waits for its turn when the crawl is killed."""
    crawl = Crawl(tmp_path / "job", failing(Web(star("b.test", 5))), ["http://a.test/", "http://b.test/"], monkeypatch)
    crawl.config.politeness.host_dead_hours, crawl.config.politeness.retries_max = 0.0, 0
    assert crawl.run() == ExitCode.DONE
    job = save_config(crawl)
    put_back(crawl, Selection(hosts=(b"other.test",)))
    crawl.archived.clear()
    assert crawl.run() == ExitCode.DONE
    put_back(crawl, Selection(hosts=(b"down.test",)))
    crawl.on_request = lambda url: crawl.kill()
    with pytest.raises(Killed):
        crawl.run()
    globals()[damage](job)
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE
    crawl.on_request = lambda url: None
    crawl.archived.clear()
    before = crawl.web.pages_asked
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes().keys() == {url for url in crawl.web.answers if not url.endswith("robots.txt")} | {
        "http://a.test/gone"
    }
    asked = crawl.web.pages_asked - before
    waited = {"http://down.test/1", "http://down.test/2"}
    assert asked == dict.fromkeys(waited if damage != "log_gone" else (), 1)  # nothing else tells of it
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE


@pytest.mark.parametrize("damage", ["first_line", "log_gone"])
def test_a_repair_said_that_it_read_no_line_and_status_that_lost_outcomes_were_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """The same words stood for a log of which all was kept and for one that was gone."""
    web = Web(star("b.test", 5))
    web.answers["http://b.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /3")
    crawl = Crawl(tmp_path / "job", web, ["http://b.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    job = save_config(crawl)
    assert read_status(job)["excluded"] == 1
    globals()[damage](job)
    main.main(["fsck", str(job.path), "--repair", "--quiet"])
    (kept,) = re.findall(r"the crawl log: (\d+) lines? kept", capsys.readouterr().out)
    main.main(["urls", str(job.path), "--status", "excluded"])
    excluded = len(capsys.readouterr().out.splitlines())
    assert excluded == int(kept) == read_status(job)["excluded"] == (damage == "first_line")


def flip_section(job: JobDir, named: str) -> None:
    """A byte of the first block of a live section whose name or schema has `named`."""
    catalog = Catalog.open(job.state, readonly=True)
    for file in catalog.live_files():
        for section in Segment.open(Files(), job.state / file).sections.values():
            if (named in section.name or named in section.schema) and section.rows:
                flip(job.state / file, int(section.chunks["offset"].flat[0]))
                return
    raise AssertionError(f"no section {named}")


def largest_gone(job: JobDir) -> None:
    max(job.state.glob("turn-*.seg"), key=lambda path: path.stat().st_size).unlink()


def all_gone(job: JobDir) -> None:
    for path in job.state.iterdir():
        path.unlink()


def first_line(job: JobDir) -> None:
    flip(max(job.state.glob("catalog-*.log")), 30)


def middle_line(job: JobDir) -> None:
    path = max(job.state.glob("catalog-*.log"))
    flip(path, path.stat().st_size // 2)


def log_gone(job: JobDir) -> None:
    for path in job.logs.glob("crawl.log*"):
        path.unlink()


def log_part(job: JobDir) -> None:
    flip(job.logs / "crawl.log.1.gz", 500)


def log_line(job: JobDir) -> None:
    flip(job.crawl_log, 40)


def line_gone(job: JobDir) -> None:
    job.crawl_log.write_bytes(job.crawl_log.read_bytes()[:-300])


DAMAGES: dict[str, Callable[[JobDir], None]] = {
    **{f"section {name}": lambda job, name=name: flip_section(job, name)  # type: ignore[misc]
       for name in ("crawl_delay", "in_degree", "bits", "attempt", "backoff", "entry")},
    "largest segment": largest_gone, "catalogue, first line": first_line, "catalogue, middle": middle_line,
    "no log": log_gone, "log part": log_part, "log line": log_line, "log end": line_gone,
    "robots texts": lambda job: flip(next(job.state.glob("robots-*.log")), 40),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        pytest.param(kind, what, marks=[] if (number + at) % 2 else [pytest.mark.slow])
        for number, kind in enumerate(("stopped", "killed"))
        for at, what in enumerate(DAMAGES)
    ],
)
def test_a_damaged_crawl_is_mended_and_goes_on(
    copy: Copy, kind: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each damage of one of the two; of the other by name, for each takes seconds."""
    job = copy(kind)
    DAMAGES[what](job)
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DAMAGED
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "URLs are done" in out and "the old files are in state.damaged-1" in out
    assert (job.path / "state.damaged-1").is_dir() and (job.path / "logs.damaged-1").is_dir()
    goes_on(job)


def test_what_waits_after_a_repair_is_in_a_snapshot(copy: Copy, tmp_path: Path) -> None:
    """It is in a harvest that the first turn takes in, which no commit names before: the snapshot's crawl was done with
    what it had archived."""
    job = copy("stopped")
    largest_gone(job)
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    shots.take(job, "mended")
    shots.open_as(job, "mended", tmp_path / "again")
    goes_on(JobDir(tmp_path / "again"))


def test_a_turn_that_takes_in_what_waits_while_a_snapshot_is_made_is_in_it(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listed after the catalogue was read, it was in neither the commit nor the files."""
    job = copy("stopped")
    largest_gone(job)
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    look = formats.look

    def turned(state: Path, files: Files) -> Catalog:
        read = look(state, files)
        waiting = job.state / harvest_name(SEEDS_STREAM, read.get(f"streams/{SEEDS_STREAM}", {"next": 0})["next"])
        if waiting.exists():  # the turn's commit, and what it deletes then
            with contextlib.closing(Catalog.open(job.state)) as catalog:
                edits = Edits()
                edits.set("taken-in", 1)
                catalog.commit(edits)
            waiting.unlink()
        return read

    monkeypatch.setattr(formats, "look", turned)
    kept = shots.take(job, "mended").path / "state"
    assert Catalog.open(kept, readonly=True).get("taken-in") == 1


@pytest.mark.parametrize("what", ["format", "keys"])
@pytest.mark.parametrize("damage", ["segment", "catalogue"])
def test_a_damaged_crawl_of_a_later_version_is_not_made_one_of_this(
    copy: Copy, what: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = copy("stopped")
    with contextlib.closing(Catalog.open(job.state)) as catalog:
        edits = Edits()
        edits.set("crawl", {**catalog.get("crawl"), what: {"format": formats.FORMAT + 1, "keys": "md5"}[what]})
        catalog.commit(edits)
    flip_section(job, "backoff") if damage == "segment" else middle_line(job)
    before = {path: path.read_bytes() for path in job.path.rglob("*") if path.is_file() and path.name != "LOCK"}
    for words in (["fsck"], ["fsck", "--repair"]):
        code = main.main([words[0], str(job.path), "--quiet", *words[1:]])
        assert code == (ExitCode.DAMAGED if damage == "catalogue" and len(words) == 1 else ExitCode.FAILED)
    assert "this program reads" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in before}


def test_when_all_state_is_gone_the_archives_and_the_log_are_enough(
    copy: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    job = copy("stopped")
    flip(job.crawl_log, 40)
    all_gone(job)
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert "every URL is given a new key" in capsys.readouterr().out
    goes_on(job)


def test_what_cannot_be_had_again_is_counted(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """Queues gone, and the archives away: nothing tells the URLs that waited."""
    job = copy("stopped")
    catalog = Catalog.open(job.state, readonly=True)
    waiting = catalog.get("ledger")["discovered"] - 91
    for file in {ref["file"] for key, ref in catalog.items() if key.startswith(("ready/", "fifo/", "budgets/def"))}:
        for section in Segment.open(Files(), job.state / file).sections.values():
            if "url" in section.schema:
                for chunk in section.chunks[:, list(section.schema).index("url")]:
                    flip(job.state / file, int(chunk["offset"]))
    for path in job.warcs.iterdir():
        path.unlink()
    code = main.main(["fsck", str(job.path), "--repair", "--quiet"])
    out = capsys.readouterr().out
    assert code == ExitCode.DONE and f"NOT recoverable: {waiting} URLs" in out, out
    assert "archives that are away link to them" in out


def test_a_repair_deletes_the_index_of_the_old_log(copy: Copy) -> None:
    job = copy("done")
    log_line(job)
    job.indexes.mkdir()
    for name in ("log-0-1.seg", "archive.cdxj"):
        (job.indexes / name).touch()
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert [path.name for path in job.indexes.iterdir()] == ["archive.cdxj"]


def test_a_broken_archive_is_not_repaired(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("done")
    path = min(job.warcs.iterdir())
    flip(path, path.stat().st_size // 2)
    before = path.read_bytes()
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DAMAGED
    assert "archives are not repaired" in capsys.readouterr().out
    assert path.read_bytes() == before and not list(job.path.glob("*.damaged-*"))


@pytest.mark.parametrize("how", ["cut short", "closed, and a byte behind what was harvested is wrong"])
def test_an_archive_that_no_start_can_go_on_from_keeps_no_crawl_closed(
    copy: Copy, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start refused it, and `--repair` said that archives are not repaired: there was no way on."""
    job = copy("killed")
    position = Catalog.open(job.state, readonly=True).get("streams/1")["warc"]
    path = next(job.warcs.glob(f"*-{position[0]:05d}-s0001.warc.gz.open"))
    if how == "cut short":
        os.truncate(path, position[1] - 100)
    else:
        path = path.rename(path.with_suffix(""))
        flip(path, position[1] + 150)
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(Damaged):
        three_sites.crawl_of(job.path, monkeypatch).run()
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DAMAGED  # what is gone stays gone
    assert "URLs are done" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = rolling(three_sites.crawl_of(job.path, monkeypatch), monkeypatch)
        crawl.clock.advance(86_400.0)
        assert crawl.run() == ExitCode.DONE
        assert set(crawl.outcomes()) == everything(crawl)
    capsys.readouterr()
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DAMAGED
    assert "archives are not repaired" in capsys.readouterr().out, "once more it is not made anew"


def test_a_damaged_clock_alone_does_not_make_everything_anew(copy: Copy) -> None:
    job = copy("killed")
    flip(job.state / "leases.log", 20)
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DAMAGED
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert not list(job.path.glob("*.damaged-*"))
    goes_on(job)


@pytest.mark.parametrize(
    ("what", "becomes"), [(b'","seed":', b'" "seed":'), (b"4711,", b"4710,"), (b'"seed"', b'"sefd"')]
)
def test_a_garbled_identity_is_not_believed(
    copy: Copy, what: bytes, becomes: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read out of a line that was not whole it was a JSONDecodeError or a KeyError, or a seed that no key was made
    with: every URL that waited was then told to be lost."""
    job = copy("stopped")
    path = max(job.state.glob("catalog-*.log"))
    data = path.read_bytes()
    assert data.count(what) == 1
    path.write_bytes(data.replace(what, becomes))
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "every URL is given a new key" in out and "NOT recoverable" not in out
    goes_on(job)


def test_a_configuration_no_crawl_starts_with_ends_no_repair_half_way(
    copy: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a User-Agent it was a ValueError, after half of the work."""
    job = copy("stopped")
    text = job.config_file.read_text()
    job.config_file.write_text(re.sub('user_agent = ".*"', 'user_agent = ""', text))
    flip(max(job.state.glob("turn-*.seg")), 100)
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.CONFIG
    assert "crawl.user_agent" in capsys.readouterr().err and not list(job.path.glob("*.repaired"))
    job.config_file.write_text(text)
    mended(job)


def mended(job: JobDir) -> None:
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    goes_on(job)


def test_an_older_catalogue_beside_a_broken_one_is_read(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("stopped")
    (job.state / "catalog-000009.log").touch()
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert "lost" not in capsys.readouterr().out
    goes_on(job)


@pytest.mark.parametrize("renames", range(5))
def test_a_repair_that_is_killed_is_run_again(copy: Copy, monkeypatch: pytest.MonkeyPatch, renames: int) -> None:
    """Between any two of the renames that put it in place."""
    job = copy("stopped")
    largest_gone(job)
    done, rename = 0, Files.rename

    class Killed(BaseException):
        pass

    def watched(files: Files, old: os.PathLike[str], new: os.PathLike[str]) -> None:
        nonlocal done
        if Path(old).parent == job.path:
            if done == renames:
                raise Killed
            done += 1
        rename(files, old, new)

    monkeypatch.setattr(Files, "rename", watched)
    try:
        main.main(["fsck", str(job.path), "--repair", "--quiet"])
    except Killed:
        monkeypatch.setattr(Files, "rename", rename)
        if renames:
            assert main.main(["crawl", str(job.path), "--quiet", "-s", "limits.pages=90"]) == ExitCode.FAILED
    else:
        assert renames == 4, "there are four renames"
    monkeypatch.setattr(Files, "rename", rename)
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert not list(job.path.glob(f"*{REPAIRED}"))
    goes_on(job)


def test_a_mended_crawl_counts_what_it_did_once(copy: Copy) -> None:
    job = copy("stopped")
    before = Catalog.open(job.state, readonly=True)
    middle_line(job)
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    after = Catalog.open(job.state, readonly=True)
    for name in ("fetched", "failed", "excluded"):
        assert after.get("ledger")[name] == before.get("ledger")[name]
        assert after.get("counters").get(f"{name}_by_reason") == before.get("counters").get(f"{name}_by_reason")
    assert after.get("crawl")["seed"] == before.get("crawl")["seed"]


def test_a_garbled_line_does_not_stand_for_an_archived_page(copy: Copy) -> None:
    """Damage to a compressed part gave a line that could be read and had lost its place in the archive: it was believed
    before the archive was asked, whose unit then had no line."""
    job = copy("stopped")
    text = job.crawl_log.read_bytes()
    at = text.index(b",warc=", text.index(b"outcome=fetched"))
    job.crawl_log.write_bytes(text[:at] + text[text.index(b"\n", at) :])
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    goes_on(job)


def test_a_garbled_reason_ended_the_repair_by_a_key_error(copy: Copy) -> None:
    job = copy("stopped")
    text = job.crawl_log.read_bytes()
    at = text.index(b",warc=", text.index(b"outcome=fetched,reason="))
    text = text[:at] + text[text.index(b"\n", at) :]
    job.crawl_log.write_bytes(text.replace(b"outcome=fetched,reason=", b"outcome=failed,Reason=", 1))
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    goes_on(job)


def test_what_seeds_opened_is_known_from_what_they_brought(tmp_path: Path) -> None:
    """With the section of the scope gone, and the seeds done, every link of the archived pages was out of scope: the
    repaired crawl was done at once."""
    job = JobDir(tmp_path / "job")
    for killed_at in (20, 0):
        with pytest.MonkeyPatch.context() as monkeypatch:
            crawl = three_sites.crawl_of(job.path, monkeypatch)
            crawl.config.scope.kind = "host"
            crawl.on_request = lambda _, crawl=crawl, at=killed_at: (  # type: ignore[misc]
                crawl.kill() if len(crawl.web.log) == at else None
            )
            if not killed_at:
                crawl.clock.advance(86_400.0)
                assert crawl.run() == ExitCode.DONE
                assert set(crawl.outcomes()) == {url for url in crawl.web.answers if url.startswith(three_sites.SEED)}
                return
            with pytest.raises(Killed):
                crawl.run()
            save_config(crawl)
        for path in job.state.glob("*.seg"):
            path.unlink()
        assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
