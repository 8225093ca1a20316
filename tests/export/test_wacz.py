"""WACZ: what py-wacz's validator accepts, with an index in which every capture is found."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import os
import struct
import sys
import zipfile
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import verbs_export
from irlcrawl.export import wacz
from tests.cli.conftest import Run
from tests.export.made import Page, add, make_job

PAGES = [Page(f"http://a.example/{number}", b"<title>Page %d</title>" % number) for number in range(700)]


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    job = make_job(tmp_path / "job", [Page("http://a.example/", b"<title>Home</title>", depth=0), *PAGES])
    add(job, [Page("http://b.example/x", b"gone", status=404), Page("http://b.example/t", b"t", {})], stream=2)
    return job


@pytest.fixture
def package(job: JobDir, run: Run, tmp_path: Path) -> zipfile.ZipFile:
    code, _, err = run("export", "wacz", job.path, "-o", tmp_path / "x.wacz", "--title", "A crawl")
    assert code == ExitCode.DONE, err
    return zipfile.ZipFile(tmp_path / "x.wacz")


def test_the_validator_of_py_wacz_accepts_it(package: zipfile.ZipFile, capfd: pytest.CaptureFixture[str]) -> None:
    theirs = pytest.importorskip("wacz.main", reason="wacz is missing: pip install wacz")
    assert theirs.main(["validate", "-f", package.filename]) == 0, capfd.readouterr().out


def test_what_is_in_it(package: zipfile.ZipFile, job: JobDir) -> None:
    told = json.loads(package.read("datapackage.json"))
    names = set(package.namelist()) - {"datapackage.json", "datapackage-digest.json"}
    assert (told["wacz_version"], told["title"], told["mainPageUrl"]) == ("1.1.1", "A crawl", "http://a.example/")
    assert {resource["path"] for resource in told["resources"]} == names
    for resource in told["resources"]:
        data = package.read(resource["path"])
        assert (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}") == (resource["bytes"], resource["hash"])
    for path in job.warcs.iterdir():
        info = package.getinfo(f"archive/{path.name}")
        assert info.compress_type == zipfile.ZIP_STORED and package.read(info) == path.read_bytes()
    digest = json.loads(package.read("datapackage-digest.json"))
    assert digest["hash"] == f"sha256:{hashlib.sha256(package.read('datapackage.json')).hexdigest()}"


def test_pages_that_a_person_named_come_first(package: zipfile.ZipFile) -> None:
    header, *pages = [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()]
    assert header["format"] == "json-pages-1.0"
    assert [(page["url"], page["title"]) for page in pages] == [("http://a.example/", "Home")]
    _, *extra = [json.loads(line) for line in package.read("pages/extraPages.jsonl").splitlines()]
    assert {page["url"] for page in extra} == {page.url for page in PAGES} and extra[1]["title"] == "Page 1"
    assert len({page["id"] for page in pages + extra}) == 701


def test_a_page_whose_body_is_stored_under_another_url_was_in_no_list(tmp_path: Path, run: Run) -> None:
    """Of two seeds with one body the second was missing."""
    body, sites = b"<title>Twice</title>" + b" " * 2000, ("http://a.test/", "http://b.test/")
    pages = [*(Page(site, body, depth=0) for site in sites), Page(sites[0], body)]
    job = make_job(tmp_path / "twice", pages, dedupe_bytes_min=1024)
    assert run("export", "wacz", job.path, "-o", tmp_path / "twice.wacz")[0] == ExitCode.DONE
    with zipfile.ZipFile(tmp_path / "twice.wacz") as package:
        _, *named = [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()]
        assert "pages/extraPages.jsonl" not in package.namelist(), "as it was before, a page is listed once"
    assert [(page["url"], page["title"]) for page in named] == [(site, "Twice") for site in sites]


def test_pages_whose_body_is_in_another_crawl_were_left_out_and_nobody_was_told(tmp_path: Path, run: Run) -> None:
    body = b"<title>Twice</title>" + b" " * 2000
    pages = [Page("http://a.test/", body, depth=0), Page("http://a.test/", body), Page("http://b.test/", body)]
    job = make_job(tmp_path / "job", pages, dedupe_bytes_min=1024, roll_bytes=1)
    assert "cannot be shown" not in run("export", "wacz", job.path, "-o", tmp_path / "whole.wacz")[2]
    min(job.warcs.iterdir()).unlink()
    code, _, err = run("export", "wacz", job.path, "-o", tmp_path / "rest.wacz")
    assert (
        code == ExitCode.DONE and "2 responses cannot be shown: the body was taken down, or is in another crawl" in err
    )


def test_the_index_has_every_capture(package: zipfile.ZipFile, job: JobDir, run: Run) -> None:
    packed = package.read("indexes/index.cdx.gz")
    meta, *blocks = package.read("indexes/index.idx").decode().splitlines()
    assert json.loads(meta.removeprefix("!meta 0 ")) == {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
    text = b""
    for line in blocks:
        key, _, values = line.partition(" {")
        place = json.loads("{" + values)
        block = gzip.decompress(packed[place["offset"] : place["offset"] + place["length"]])
        assert block.decode().startswith(key + " ") and block.count(b"\n") <= wacz.INDEX_LINES
        text += block
    assert text.decode() == run("export", "cdxj", job.path)[1] and len(blocks) == 3


@pytest.mark.parametrize("indexed", [True, False])
def test_a_damaged_archive_is_left_out(job: JobDir, run: Run, tmp_path: Path, indexed: bool) -> None:
    """One kept all others from being exported."""
    broken = max(job.warcs.iterdir())
    whole = sorted(one.name for one in job.warcs.iterdir() if one != broken)
    if indexed:
        run("export", "cdxj", job.path)
    kept = broken.stat()
    broken.write_bytes(broken.read_bytes()[:-9])
    os.utime(broken, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    code, _, err = run("export", "wacz", job.path, "-o", tmp_path / "x.wacz")
    assert code == ExitCode.DAMAGED and str(broken) in err and "it was left out of the export" in err
    with zipfile.ZipFile(tmp_path / "x.wacz") as package:
        names = sorted(name.removeprefix("archive/") for name in package.namelist() if name.startswith("archive/"))
        index = gzip.decompress(package.read("indexes/index.cdx.gz"))
    assert names == whole and broken.name.encode() not in index and whole[0].encode() in index
    broken.unlink()
    assert run("export", "wacz", job.path, "-o", tmp_path / "y.wacz")[0] == ExitCode.DONE
    with zipfile.ZipFile(tmp_path / "x.wacz") as first, zipfile.ZipFile(tmp_path / "y.wacz") as second:
        assert {name: first.read(name) for name in first.namelist() if name.startswith("pages/")} == (
            {name: second.read(name) for name in second.namelist() if name.startswith("pages/")}
        )
    assert run("export", "wacz", job.path)[0] == ExitCode.CONFIG


def test_one_that_failed_between_two_files_says_why_and_no_more(
    job: JobDir, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without selectolax the sentence was followed by a traceback of zipfile, whose stream was closed before it."""
    unraised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    for name in [name for name in sys.modules if name.partition(".")[0] == "selectolax"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "selectolax", None)
    monkeypatch.setattr(verbs_export, "_load", lambda args: None)
    code, _, err = run("export", "wacz", job.path, "-o", tmp_path / "x.wacz")
    gc.collect()
    assert code == ExitCode.FAILED and "pip install 'irlcrawl[export]'" in err
    assert not unraised and not list(tmp_path.glob("x.wacz*"))


def test_no_local_header_has_more_than_the_directory_says(package: zipfile.ZipFile) -> None:
    """wabac.js read what followed the header at the wrong place: ReplayWeb.page opened no package at all."""
    with open(str(package.filename), "rb") as stream:
        for info in package.infolist():
            stream.seek(info.header_offset)
            name_length, extra_length = struct.unpack_from("<HH", stream.read(30), 26)
            assert (name_length, extra_length, info.extra) == (len(info.filename), 0, b""), info.filename
