"""What another version of the program wrote is refused with a sentence, and left as it is."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from drum import Catalog, Edits, Files, UnknownVersion

import pytest
import xxhash

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main
from irlcrawl.config.keys import Config
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.worker.harvest.rules_log import RulesLog
from tests.upkeep.conftest import Copy


@pytest.mark.parametrize("what", ["crawl", "crawl of format 4", "keys", "catalogue", "catalogue keys", "segment"])
def test_what_another_version_wrote_is_refused_with_a_sentence(
    copy: Copy, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """4 is the highest number that JOB had before formats were counted anew."""
    job = copy("stopped")
    catalog = Catalog.open(job.state)
    crawl = catalog.get("crawl")
    edits = Edits()
    told = {"crawl": {"format": formats.FORMAT + 1}, "crawl of format 4": {"format": 4}, "keys": {"keys": "md5"}}
    if what in told:
        edits.set("crawl", {**crawl, **told[what]})
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
        assert "this program reads" in err and "the program that wrote it" in err and str(job.state) in err
    with pytest.raises(UnknownVersion, match="this program reads"):
        CrawlState.open(job, Config(), VirtualClock(), write_config=lambda: pytest.fail("a configuration was written"))
    if what != "segment":  # these read none
        at = str(job.path)
        for words in (["snapshot", at, "x"], ["report", at, "--politeness"], ["report", at], ["status", at],
                      ["inspect", at], ["urls", at], ["fsck", at, "--quiet"],
                      ["fsck", at, "--repair", "--quiet"]):  # fmt: skip
            assert main.main(words) == ExitCode.FAILED, words
            assert "this program reads" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in before}, "and is left as it was"


def test_a_key_that_only_a_later_version_knows_is_no_mistake(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("stopped")
    job.config_file.write_text(job.config_file.read_text() + "\n[later]\nkey = 1\n")
    assert main.main(["resume", str(job.path)]) == ExitCode.DAMAGED
    assert "later" in capsys.readouterr().err
    with contextlib.closing(Catalog.open(job.state)) as catalog:
        edits = Edits()
        edits.set("crawl", {**catalog.get("crawl"), "format": formats.FORMAT + 1})
        catalog.commit(edits)
    for words in (["resume"], ["fsck", "--quiet"], ["why", "a.one.test"], ["report", "--politeness"]):
        assert main.main([words[0], str(job.path), *words[1:]]) == ExitCode.FAILED, words
        assert "this program reads" in capsys.readouterr().err


def test_a_robots_log_goes_on_behind_its_last_whole_text(tmp_path: Path) -> None:
    """A dead worker's log, torn in the middle of its header or of a text, is written on by recovery."""
    log = RulesLog(Files(), str(tmp_path), 7)
    pointers = [log.append(text) for text in (b"one", b"two")]
    log.close()
    path = tmp_path / "robots-0007.log"
    data = path.read_bytes()
    ends = [end for _, end in RulesLog.texts(Files(), str(path))]
    torn = [data[:size] for size in range(len(data) + 1)] + [bytes(size) for size in range(1, 40)]
    for left in torn:
        path.write_bytes(left)
        again = RulesLog(Files(), str(tmp_path), 7)
        pointer = again.append(b"three")
        again.close()
        assert RulesLog.read(Files(), str(tmp_path), pointer) == b"three"
        texts = [text for text, _ in RulesLog.texts(Files(), str(path))]
        kept = len(left) if left.strip(b"\0") else 0
        whole = [text for text, end in zip((b"one", b"two"), ends, strict=True) if end <= kept]
        assert texts == [*whole, b"three"]
        for text, found in zip(whole, pointers):
            assert RulesLog.read(Files(), str(tmp_path), found) == text
