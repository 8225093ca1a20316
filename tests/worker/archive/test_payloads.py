"""What earlier crawls hold: every payload they say is found, with the record that has it, and no other."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.worker.archive import payloads as module
from irlcrawl.worker.archive.payloads import Payloads, build


def sha1(number: int) -> bytes:
    return hashlib.sha1(b"%d" % number).digest()


def cdxj(path: Path, numbers: range, mime: str = "text/html", prefix: str = "sha1:") -> str:
    lines = []
    for number in numbers:
        digest = prefix + base64.b32encode(sha1(number)).decode()
        fields = {"url": f"http://a.test/{number}", "mime": mime, "digest": digest, "offset": "7", "filename": "x.warc"}
        lines.append(f"test,a)/{number} 20300102030405 {json.dumps(fields)}\n")
    path.write_text("!OpenWayback-CDXJ 1.0\n" + "".join(sorted(lines)))
    return str(path)


def test_all_that_sources_hold_is_found_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUN_ROWS", 300)
    sources = [
        cdxj(tmp_path / "a", range(1000)), cdxj(tmp_path / "b", range(900, 1500), prefix=""),
        cdxj(tmp_path / "c", range(2000, 2100), mime="warc/revisit"),
    ]  # fmt: skip
    job = JobDir(tmp_path / "job")
    assert build(Files(), job, sources, 0) == 1500
    assert [path.name for path in job.indexes.iterdir()] == ["payloads.seg"]
    known = Payloads(Files(), str(job.payloads))
    for number in range(1500):
        url, file = b"http://a.test/%d" % number, os.fsencode(tmp_path / "x.warc")
        assert known.find(sha1(number)) == (sha1(number), url, b"2030-01-02T03:04:05Z", file, 7)
    assert not any(known.find(sha1(number)) for number in range(2000, 6000))
    assert known.find(sha1(3)[:8] + bytes(12)) is None, "the beginning of a digest is none"


@pytest.mark.parametrize(
    "place", ['"filename": 3', '"filename": "a\\u0000b"', '"filename": "\\ud800"', '"offset": "x"']
)
def test_a_place_that_is_none_is_not_known(tmp_path: Path, place: str) -> None:
    text = Path(cdxj(tmp_path / "a", range(1))).read_text()
    (tmp_path / "a").write_text(text.replace("}", f", {place}}}"))
    job = JobDir(tmp_path / "job")
    assert build(Files(), job, [str(tmp_path / "a")], 0) == 1
    found = Payloads(Files(), str(job.payloads)).find(sha1(0))
    assert found is not None and found.file == b""


def test_new_payloads_are_mostly_told_without_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobDir(tmp_path / "job")
    build(Files(), job, [cdxj(tmp_path / "a", range(2000))], 0)
    known = Payloads(Files(), str(job.payloads))
    section, read = known._section, []

    class Counted:
        def between(self, lo: int, hi: int) -> object:
            read.append(lo)
            return section.between(lo, hi)

    monkeypatch.setattr(known, "_section", Counted())
    assert not any(known.find(sha1(number)) for number in range(5000, 15000))
    assert len(read) < 250
    assert known.find(sha1(5))


def test_of_nothing_nothing_is_known(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "job")
    assert build(Files(), job, [], 0) == 0
    assert Payloads(Files(), str(job.payloads)).find(sha1(1)) is None
    assert Payloads.open(Files(), JobDir(tmp_path / "another")) is None


@pytest.mark.parametrize("line", ["no index", 'test,a)/ 20300102030405 {"url": 3}', "a b c"])
def test_what_is_no_source_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "bad").write_text(line + "\n")
    for source, told in ((tmp_path / "bad", "line 1"), (tmp_path / "missing", "no crawl and no CDXJ")):
        with pytest.raises(ValueError, match=told):
            build(Files(), JobDir(tmp_path / "job"), [str(source)], 0)
