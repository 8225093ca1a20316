"""fsck: a sound crawl is sound whatever state it was left in, and no damage escapes (I5)."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import re
import subprocess
import sys
import zlib
from pathlib import Path

from drum import Catalog, Damaged, Edits, Files
from drum.sectors import Sectors

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import harvest_name, rules_log_name
from irlcrawl.cli import main
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import OP_STATE
from irlcrawl.frontier.state.view import Reading
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import fsck
from irlcrawl.upkeep.findings import Finding
from irlcrawl.upkeep.fsck import Fsck
from irlcrawl.upkeep.repair import repair
from irlcrawl.worker.archive import log_parts, redo
from irlcrawl.worker.harvest.rules_log import RulesLog
from tests.crawl.virtual_crawl import START, Answer, Crawl, Killed, Web, star
from tests.upkeep import three_sites
from tests.upkeep.conftest import Copy, rolling, save_config


def findings(job: JobDir) -> list[Finding]:
    return list(Fsck(job, Bar(), now=lambda: START + 10).run())


def damage(job: JobDir) -> list[Finding]:
    return [found for found in findings(job) if found.damage]


def flip(path: Path, at: int, bits: int = 16) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


def unpacked(path: Path) -> bytes | None:
    """What a whole gzip file says; None when it is none."""
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        return None


@pytest.mark.parametrize("kind", ["killed", "stopped", "done"])
def test_a_sound_crawl_is_sound(copy: Copy, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy(kind)
    assert damage(job) == []
    assert main.main(["fsck", str(job.path)]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "all is as it was written" in out and "archives: " in err
    assert main.main(["verify", str(job.path), "--quiet"]) == ExitCode.DONE


def test_a_killed_crawl_has_notes_of_what_recovery_will_do(copy: Copy) -> None:
    told = " ".join(found.what for found in findings(copy("killed")))
    assert "read again at the next start" in told


@pytest.mark.parametrize("where", ["state", "logs"])
def test_i5_a_flipped_byte_of_any_file_is_found_and_named(copy: Copy, where: str) -> None:
    """I5: file and an offset at or before the byte, wherever it is."""
    job, chosen = copy("killed"), random.Random(where)
    files = [path for path in sorted((job.path / where).iterdir()) if path.stat().st_size]
    assert len(files) > 1
    for path in files:
        kept = path.read_bytes()
        for at in {0, len(kept) - 1, *(chosen.randrange(len(kept)) for _ in range(8))}:
            if path.suffix == ".gz" and at in range(4, 10):
                continue  # time and system in gzip's header: nothing is said with them
            bits = 16 if kept[at] != 16 else 32  # zeros in a last line are blocks that never reached the disk
            flip(path, at, bits)
            found = [one for one in damage(job) if one.file == str(path)]
            assert found and (found[0].offset or 0) <= at, f"{path.name} at {at}: {found}"
            path.write_bytes(kept)
    assert damage(job) == []


def test_i5_bytes_that_end_a_line_are_no_text_or_end_a_gzip_file_late_are_named_where_they_are(copy: Copy) -> None:
    """A flip to a carriage return was named one byte behind itself; one above 127 in an archive's name ended fsck with
    a UnicodeEncodeError; the last bytes of a compressed part were named at the end of the file."""
    job = copy("killed")
    part = next(job.logs.glob("crawl.log.*.gz"))
    kept, packed = job.crawl_log.read_bytes(), part.read_bytes()
    name = kept.index(b"irlcrawl-")
    places = [(job.crawl_log, kept.index(b"-"), 32), (job.crawl_log, name + 2, 128)]
    places += [(part, at, bits) for at in range(len(packed) - 16, len(packed)) for bits in (1, 128)]
    text = unpacked(part)
    for path, at, bits in places:
        before = path.read_bytes()
        flip(path, at, bits)
        if path != part or unpacked(part) != text:  # the bits that fill deflate's last byte say nothing
            found = [one for one in damage(job) if one.file == str(path)]
            assert found and (found[0].offset or 0) <= at, f"{path.name} at {at}: {found}"
        path.write_bytes(before)
    assert damage(job) == []


def test_a_flipped_byte_of_an_archive_is_found_once_and_what_follows_is_read_on(copy: Copy) -> None:
    job, chosen = copy("done"), random.Random(7)
    for path in sorted(job.warcs.iterdir())[:2]:
        kept = path.read_bytes()
        unpacked_before = unpacked(path)
        members = [at for at in range(len(kept)) if kept.startswith(b"\x1f\x8b\x08", at)]
        for _ in range(5):
            at = chosen.randrange(len(kept))
            start = max(member for member in members if member <= at)
            if at - start in range(3, 10):
                continue  # time and system in gzip's header: nothing is said with them
            flip(path, at)
            if unpacked(path) == unpacked_before:
                continue  # the bits that fill deflate's last byte say nothing
            found = [one for one in damage(job) if one.file == str(path)]
            assert found and any(one.offset == start for one in found), (path.name, at, found)
            assert len(found) <= 3, "one byte is not the rest of the file"
            assert main.main(["verify", str(path), "--quiet"]) == ExitCode.DAMAGED
            path.write_bytes(kept)


def test_gzip_flags_that_nobody_else_reads_are_found(copy: Copy) -> None:
    """isal passes over flags that are reserved: gzip and warcio refused an archive and a part of the log that were
    well to fsck."""
    job = copy("done")
    for path in (next(job.warcs.iterdir()), job.logs / "crawl.log.1.gz"):
        kept = path.read_bytes()
        for bits in (32, 64, 128):
            flip(path, 3, bits)
            assert [(one.file, one.offset) for one in damage(job)] == [(str(path), 0)]
            path.write_bytes(kept)


@pytest.mark.parametrize("what", ["segment", "robots", "log part", "live log", "catalogue"])
def test_a_file_that_is_missing_is_named(copy: Copy, what: str) -> None:
    job = copy("stopped")
    path = {
        "segment": max(job.state.glob("*.seg"), key=lambda path: path.stat().st_size),
        "robots": next(job.state.glob("robots-*.log")),
        "log part": job.logs / "crawl.log.1.gz",
        "live log": job.crawl_log,
        "catalogue": job.state / "catalog-000000.log",
    }[what]
    path.unlink()
    if what == "catalogue":
        assert any("no catalogue" in found.what for found in findings(job))
    else:
        assert any(found.file == str(path) for found in damage(job)), findings(job)


def test_an_open_archive_that_is_gone_is_damage(copy: Copy) -> None:
    job = copy("killed")
    log = job.crawl_log.read_text()
    gone = next(path for path in job.warcs.glob("*.open") if path.name.removesuffix(".open") in log)
    gone.unlink()
    assert any(found.file == str(gone) for found in damage(job))


def test_what_does_not_belong_together_is_damage(copy: Copy) -> None:
    """Every file is whole; the story they tell is not."""
    job = copy("stopped")
    lines = job.crawl_log.read_bytes().splitlines(keepends=True)

    def doctored(text: bytes, **more: object) -> list[str]:
        job.crawl_log.write_bytes(text)
        catalog = Catalog.open(job.state)
        edits = Edits()
        log = catalog.get("log")
        edits.set("log", {**log, "bytes": len(text), "crc": zlib.crc32(text)})
        for key, value in more.items():
            edits.set(key, value)
        catalog.commit(edits)
        catalog.close()
        return [found.what for found in damage(job)]

    gone = next(line for line in lines if b"outcome=fetched" in line)
    told = " ".join(doctored(b"".join(line for line in lines if line != gone)))
    assert "neither done nor waiting" in told and "no line of the crawl log points to" in told
    assert "lines say fetched, the ledger counts" in told
    told = " ".join(doctored(b"".join([*lines, gone])))
    assert "done more than once" in told
    moved = gone.replace(b".warc.gz@", b".warc.gz@1")
    told = " ".join(doctored(b"".join(moved if line == gone else line for line in lines)))
    assert "says that a unit lies here" in told
    assert doctored(b"".join(lines)) == []
    ledger = Catalog.open(job.state, readonly=True).get("ledger")
    told = " ".join(doctored(b"".join(lines), ledger={**ledger, "fetched": ledger["fetched"] + 1}))
    assert "the ledger does not add up (1 too many)" in told


def test_a_running_crawl_is_not_checked_but_a_copy_may_be(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("stopped")
    with job, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("irlcrawl.base.job.LOCK_WAIT_SECONDS", 0.0)
        assert main.main(["fsck", str(job.path)]) == ExitCode.LOCKED
    assert "irlcrawl snapshot" in capsys.readouterr().err


def test_findings_for_programs(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("done")
    path = next(job.state.glob("turn-*.seg"))
    flip(path, 100)
    assert main.main(["fsck", str(job.path), "--json", "--quiet"]) == ExitCode.DAMAGED
    out, err = capsys.readouterr()
    told = [json.loads(line) for line in out.splitlines()]
    assert any(one["damage"] and one["file"] == str(path) and one["offset"] <= 100 for one in told) and not err


def test_the_log_is_read_in_parts(copy: Copy) -> None:
    job = copy("done")
    assert len(log_parts.log_files(Files(), str(job.crawl_log))) > 2


@pytest.mark.parametrize("tail", [bytes(30), bytes(5000), b"\x05\0\0\0" + bytes(40), b"\xff\xff"])
def test_robots_texts_that_power_went_before_are_no_damage_and_do_not_keep_a_crawl_closed(
    copy: Copy, tail: bytes
) -> None:
    """Recovery refused to open a crawl whose worker was writing a robots.txt text when power went."""
    job = copy("killed")
    catalog = Catalog.open(job.state, readonly=True)
    streams = [int(key.split("/")[1]) for key, _ in catalog.items("streams/")]
    logs = [path for stream in streams if (path := job.state / rules_log_name(stream)).exists()]
    assert logs
    sizes = {path: path.stat().st_size for path in logs}
    for path in logs:
        with path.open("ab") as stream:
            stream.write(tail)
    assert damage(job) == []
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert rolling(three_sites.crawl_of(job.path, monkeypatch), monkeypatch).run() == ExitCode.DONE
    assert damage(job) == []
    for path in logs:
        texts = [end for _, end in RulesLog.texts(Files(), str(path))]
        assert texts[-1] == path.stat().st_size >= sizes[path]


def test_a_robots_log_in_anothers_place_is_damage(copy: Copy) -> None:
    """Whole, and long enough, it was well to fsck, though the texts of the hosts did not begin where they should."""
    job = copy("done")
    path = next(job.state.glob("robots-*.log"))
    size = path.stat().st_size
    texts = [text for text, _ in RulesLog.texts(Files(), str(path))]
    path.unlink()
    other = RulesLog(Files(), str(job.state), int(path.stem.partition("-")[2]))
    for text in (texts[0] + b"#", *texts[1:-1], texts[-1][:-1]):
        other.append(text)
    other.close()
    assert path.stat().st_size == size and len(texts) > 1
    found = damage(job)
    assert found and {one.file for one in found} == {str(path)} and "should be here" in found[0].what


def test_fsck_writes_nothing_so_a_copy_that_cannot_be_written_is_checked(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wanted to write LOCK, and refused crawls on disks that are mounted for reading."""
    job = copy("stopped")
    before = everything_of(job)
    monkeypatch.setattr("os.access", lambda path, mode: not mode & 2)
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE
    job.lock_file.unlink()
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE
    assert everything_of(job) == {name: told for name, told in before.items() if name != "LOCK"}


def everything_of(job: JobDir) -> dict[str, tuple[int, bytes]]:
    """Path in JOB -> when it was changed, and its bytes."""
    files = (path for path in job.path.rglob("*") if path.is_file())
    return {str(path.relative_to(job.path)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_fsck_reads_on_when_nobody_reads_what_it_says(copy: Copy) -> None:
    """`fsck JOB --repair | head -1` repaired what was damaged by the time head had left; without --repair, what it had
    not looked at yet was well (exit code 0)."""
    job = copy("stopped")
    flip(max(job.state.glob("turn-*.seg")), 100)
    for more in ([], ["--repair"]):
        read, write = os.pipe()
        os.close(read)
        command = [sys.executable, "-m", "irlcrawl", "fsck", str(job.path), *more]
        done = subprocess.run(command, stdout=write, stderr=write)
        os.close(write)
        assert done.returncode == (ExitCode.DONE if more else ExitCode.DAMAGED)
    assert damage(job) == [] and (job.path / "state.damaged-1").is_dir()


def bad_sector(monkeypatch: pytest.MonkeyPatch, path: Path, sector: int) -> None:
    """From now on the disk cannot read one sector of a file, whatever it is called."""
    begin, inode, pread, preadv = 4096 * sector, path.stat().st_ino, os.pread, os.preadv

    def before(handle: int, length: int, offset: int) -> int:
        """How many bytes can be read; EIO where the first cannot."""
        if os.fstat(handle).st_ino != inode or offset >= begin + 4096 or offset + length <= begin:
            return length
        if offset >= begin:
            raise OSError(errno.EIO, "Input/output error")
        return begin - offset

    def read_into(handle: int, buffers: list[memoryview], offset: int) -> int:
        return preadv(handle, [buffers[0][: before(handle, len(buffers[0]), offset)]], offset)

    monkeypatch.setattr(os, "pread", lambda handle, length, at: pread(handle, before(handle, length, at), at))
    monkeypatch.setattr(os, "preadv", read_into)


@pytest.mark.parametrize(
    "what", ["state/turn-", "state/catalog-", "state/robots-", "state/leases", "logs/crawl.log", "warcs/"]
)
def test_what_the_disk_cannot_read_is_damage_with_a_place(
    copy: Copy, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad sector ended fsck, and --repair, with `[Errno 5] Input/output error`, of no file."""
    job = copy("killed")
    path = max(job.path.glob(f"{what}*"), key=lambda path: path.stat().st_size)
    sector = min(1, (path.stat().st_size - 1) // 4096)
    bad_sector(monkeypatch, path, sector)
    if what == "logs/crawl.log":
        assert main.main(["urls", str(job.path)]) == ExitCode.DAMAGED
        assert f"{path}: damaged at offset" in capsys.readouterr().err
    elif what == "state/catalog-":
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Damaged, match=re.escape(str(path))):
            CrawlState.open(job, three_sites.crawl_of(job.path, patch).config, VirtualClock())
    assert main.main(["fsck", str(job.path), "--quiet", "--json"]) == ExitCode.DAMAGED
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (found,) = [one for one in told if one["damage"] and "the disk cannot read" in one["what"]]
    assert found["file"] == str(path) and found["offset"] // 4096 == sector
    archive = what == "warcs/"
    if archive:
        assert main.main(["verify", str(path), "--quiet"]) == ExitCode.DAMAGED
    code = main.main(["fsck", str(job.path), "--repair", "--quiet"])
    assert code == (ExitCode.DAMAGED if archive else ExitCode.DONE), capsys.readouterr().out


def test_an_end_of_an_archive_that_the_disk_cannot_read_is_not_cut(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be readable the next time, and whole."""
    job = copy("killed")
    path = max(job.warcs.glob("*.open"), key=lambda path: path.stat().st_size)
    size = path.stat().st_size
    bad_sector(monkeypatch, path, size // 4096)
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DAMAGED
    assert "the disk cannot read" in capsys.readouterr().out
    with pytest.raises(Damaged, match="the disk cannot read"):
        redo.cut_tail(Sectors(), str(path))
    assert path.stat().st_size == size


def test_a_damaged_configuration_is_named_and_not_the_catalogue(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """`the catalogue says what its files do not hold`, it said of a half-written irlcrawl.toml."""
    job = copy("stopped")
    flip(job.config_file, job.config_file.read_bytes().index(b"="), 1)
    (found,) = damage(job)
    assert found.file == str(job.config_file) and "by hand" in found.what
    assert main.main(["resume", str(job.path)]) == ExitCode.DAMAGED, "it was 6 for fsck, and 4 for a start"
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DAMAGED
    said = capsys.readouterr().err
    assert str(job.config_file) in said and "the catalogue does not tell" in said
    assert not list(job.path.glob("*.repaired"))
    job.config_file.unlink()
    assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DAMAGED
    (found,) = damage(job)
    assert found.file == str(job.config_file) and "put the configuration back" in found.what


def test_one_harvest_that_waits_is_told_as_one(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fsck, "harvests_from", lambda there, stream, number: [] if stream else [harvest_name(0, number)]
    )
    assert "harvests that the next start takes in: 1" in [one.what for one in Fsck(copy("done"), Bar()).run()]


def test_rules_that_only_waiting_rows_point_to_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crawl learnt of hosts waits for a merge for long: its robots.txt was gone and fsck found nothing, until a
    merge came."""
    web = Web(star("a.test", 60) | star("b.test", 5))
    web.answers["http://b.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /1\n")
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://b.test/"], monkeypatch)
    crawl.names.seconds["b.test"] = 8.0
    crawl.on_request = lambda url: url == "http://b.test/" and crawl.kill()
    with pytest.raises(Killed):
        crawl.run()
    crawl.on_request = lambda url: None

    async def ends(crawl: Crawl) -> None:
        assert crawl.loop is not None
        crawl.loop.stop(ExitCode.INTERRUPTED)

    assert crawl.run(ends) == ExitCode.INTERRUPTED, "what was recovered is committed, and waits"
    job = save_config(crawl)
    reading = Reading.open(job)
    assert reading is not None and list(reading.hosts.waiting(OP_STATE))
    for log in job.state.glob("robots-*.log"):
        log.unlink()
    found = [finding.what for finding in Fsck(job, Bar(), now=crawl.clock.now).run() if finding.damage]
    assert found == ["a host's robots.txt should be here, and is not"]
    repaired = list(repair(job, {str(job.state)}, crawl.clock, Bar()))
    assert repaired and not [found for found in Fsck(job, Bar(), now=crawl.clock.now).run() if found.damage]
