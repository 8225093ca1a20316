"""State that released versions left behind opens, goes on and ends like any other."""

from __future__ import annotations

import contextlib
import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest
import xxhash

from drum import Catalog, Edits, Files, UnknownVersion
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import ExitCode, JobDir
from irlcrawl.cli import main
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import load
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.harvest.rules_log import RulesLog
from tests.upkeep import versions
from tests.upkeep.conftest import Copy


def unpack(version: str, to: Path) -> Path:
    """JOB as that version left it."""
    with tarfile.open(versions.HERE / f"{version}.tar.gz") as archive:
        for member in archive:  # not extractall: its `filter` came with Python 3.11.4
            archive.extract(member, to)
    return to / "job"


@pytest.mark.parametrize("version", versions.RELEASED)
def test_a_crawl_of_every_released_version_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Every URL ends once, and of what the old version archived nothing is asked for again (I2)."""
    job = unpack(version, tmp_path)
    archived = {
        record.fields["warc-target-uri"]
        for warc in JobDir(job).warcs.iterdir()
        for record in records(Files(), str(warc), keep=False)
        if record.kind == "response" and not record.fields["warc-target-uri"].endswith("robots.txt")
    }
    assert len(archived) > 50
    crawl = versions.crawl_of(job, monkeypatch)
    crawl.clock.advance(86_400.0)
    assert crawl.run() == ExitCode.DONE
    outcomes = crawl.outcomes()
    pages = {url for url in crawl.web.answers if not url.endswith("robots.txt")}
    assert set(outcomes) == pages | {"http://a.two.test/gone", "http://a.two.test/secret/1"}
    assert Counter(what for what, _ in outcomes.values()) == {"fetched": len(pages) + 1, "excluded": 1}
    put_off = {"http://c.three.test/5"}  # 503 with a Retry-After: archived, and to be asked for again
    assert not archived & set(crawl.web.pages_asked) - put_off


@pytest.mark.parametrize("what", ["crawl", "keys", "catalogue", "catalogue keys", "segment"])
def test_what_a_later_version_wrote_is_refused_with_a_sentence(
    copy: Copy, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = copy("stopped")
    catalog = Catalog.open(job.state)
    crawl = catalog.get("crawl")
    edits = Edits()
    if what in ("crawl", "keys"):
        edits.set("crawl", {**crawl, "format": formats.FORMAT + 1} if what == "crawl" else {**crawl, "keys": "md5"})
        catalog.commit(edits)
    catalog.close()
    if what.startswith("catalogue"):
        path = job.state / "catalog-000000.log"
        line = json.loads(path.read_bytes().split(b"\n")[0][17:])
        line |= {"catalog": 2} if what == "catalogue" else {"keys": "md5"}
        text = json.dumps(line).encode()
        rest = path.read_bytes().split(b"\n", 1)[1]
        path.write_bytes(b"%016x " % xxhash.xxh3_64_intdigest(text) + text + b"\n" + rest)
    if what == "segment":
        path = max(job.state.glob("turn-*.seg"))
        data = bytearray(path.read_bytes())
        data[8:12] = data[-20:-16] = (9).to_bytes(4, "little")
        path.write_bytes(data)
    before = {path: path.read_bytes() for path in job.path.rglob("*") if path.is_file() and path.name != "LOCK"}
    for words in (["urls", str(job.path), "--status", "queued"], ["why", str(job.path), "a.one.test"]):
        assert main.main(words) == ExitCode.FAILED
        err = capsys.readouterr().err
        assert "this program reads" in err and "a later one" in err and str(job.state) in err
    with pytest.raises(UnknownVersion, match="this program reads"):
        CrawlState.open(job, Config(), VirtualClock(), write_config=lambda: pytest.fail("a configuration was written"))
    if what != "segment":  # these read none
        at = str(job.path)
        for words in (["snapshot", at, "x"], ["report", at, "--politeness"], ["report", at], ["status", at],
                      ["urls", at], ["fsck", at, "--quiet"], ["fsck", at, "--repair", "--quiet"]):  # fmt: skip
            assert main.main(words) == ExitCode.FAILED, words
            assert "this program reads" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in before}, "and is left as it was"


def test_a_key_that_only_a_later_version_knows_is_no_mistake(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("stopped")
    job.config_file.write_text(job.config_file.read_text() + "\n[later]\nkey = 1\n")
    assert main.main(["resume", str(job.path)]) == ExitCode.CONFIG
    assert "later" in capsys.readouterr().err
    with contextlib.closing(Catalog.open(job.state)) as catalog:
        edits = Edits()
        edits.set("crawl", {**catalog.get("crawl"), "format": formats.FORMAT + 1})
        catalog.commit(edits)
    for words in (["resume"], ["fsck", "--quiet"], ["why", "a.one.test"], ["report", "--politeness"]):
        assert main.main([words[0], str(job.path), *words[1:]]) == ExitCode.FAILED, words
        assert "this program reads" in capsys.readouterr().err


@pytest.mark.parametrize("version", versions.RELEASED)
def test_an_old_crawl_becomes_the_present_version(tmp_path: Path, version: str) -> None:
    job = JobDir(unpack(version, tmp_path))
    assert Catalog.open(job.state, readonly=True).get("crawl")["format"] == int(version)
    CrawlState.open(job, load(job.config_file), VirtualClock()).close()
    crawl = Catalog.open(job.state, readonly=True).get("crawl")
    assert (crawl["format"], crawl["keys"]) == (formats.FORMAT, formats.KEYS)
    assert not any(found.damage for found in Fsck(job, Bar(), now=lambda: 0.0).run())


def test_a_robots_log_goes_on_behind_its_last_whole_text(tmp_path: Path) -> None:
    """A dead worker's log, torn in the middle of a text, is written on by recovery."""
    for first_version in (False, True):
        directory = tmp_path / str(first_version)
        directory.mkdir()
        log = RulesLog(Files(), str(directory), 7)
        pointers = [log.append(text) for text in (b"one", b"two")]
        log.close()
        path = directory / "robots-0007.log"
        data = path.read_bytes()
        if first_version:
            data = data[16:]
            pointers = [(stream, offset - 16, length) for stream, offset, length in pointers]
        path.write_bytes(data)
        ends = [end for _, end in RulesLog.texts(Files(), str(path))]
        for torn in range(len(data) + 1):
            path.write_bytes(data[:torn])
            again = RulesLog(Files(), str(directory), 7)
            pointer = again.append(b"three")
            again.close()
            assert RulesLog.read(Files(), str(directory), pointer) == b"three"
            texts = [text for text, _ in RulesLog.texts(Files(), str(path))]
            whole = [text for text, end in zip((b"one", b"two"), ends, strict=True) if end <= torn]
            assert texts == [*whole, b"three"]
            for text, found in zip(whole, pointers):
                assert RulesLog.read(Files(), str(directory), found) == text
