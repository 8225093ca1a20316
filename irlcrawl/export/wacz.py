"""WACZ 1.1.1 (specs.webrecorder.net/wacz/1.1.1): a crawl's archives in one ZIP file with an index and a list of pages,
which ReplayWeb.page opens from a disk or over the web without reading all of it.

    archive/*.warc.gz                 as they are
    indexes/index.cdx.gz, index.idx   CDXJ in gzip members of 300 lines, and the first key of each
    pages/pages.jsonl                 the pages that a person named (seeds)
    pages/extraPages.jsonl            all other pages
    datapackage.json, datapackage-digest.json   hashes of all of these
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from drum.files import Files

from isal import igzip

from irlcrawl import __version__
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import COMPRESSED
from irlcrawl.base.keys import name_key
from irlcrawl.export import cdxj
from irlcrawl.export.archives import Archive, Capture, captures
from irlcrawl.export.media.kinds import handler_of
from irlcrawl.export.output import whole_file
from irlcrawl.export.pages import WARC as PAGE
from irlcrawl.export.pages import read, subset_of
from irlcrawl.terminal.progress import Bar

VERSION = "1.1.1"
INDEX = f"index.cdx{COMPRESSED}"
INDEX_LINES = 300
COPY_BYTES = 1 << 20
PAGE_TYPES = ("text/html", "application/xhtml+xml")


class Package:
    """A ZIP file being written, and the resources that are in it."""

    def __init__(self, stream: IO[bytes], now: float) -> None:
        self._zip = zipfile.ZipFile(stream, "w")
        self._date = time.gmtime(max(now, 315532800))[:6]  # a ZIP's dates begin with 1980
        self.resources: list[dict[str, Any]] = []

    @contextmanager
    def entry(self, path: str, *, packed: bool) -> Iterator[Entry]:
        """Write one resource. packed: compress it (what is read in pieces is not)."""
        info = zipfile.ZipInfo(path, self._date)
        info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
        with self._zip.open(info, "w", force_zip64=True) as target:
            entry = Entry(target)
            yield entry
        digest = f"sha256:{entry.sha256.hexdigest()}"
        name = os.path.basename(path).lower()
        self.resources.append({"name": name, "path": path, "hash": digest, "bytes": entry.bytes})

    def close(self) -> None:
        self._zip.close()


class Entry:
    """What is written into one resource."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target, self.sha256, self.bytes = target, hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        self._target.write(data)
        self.sha256.update(data)
        self.bytes += len(data)


def write(
    job: JobDir, archives: list[Archive], path: str, bar: Bar, jobs: int, now: float, title: str | None = None
) -> None:
    """Write `path`, which gets its name when it is whole. Damaged, JobError, OSError."""
    files = Files()
    with tempfile.TemporaryDirectory() as directory, whole_file(path) as stream:
        indexes = cdxj.index(job, archives, directory, files, bar, jobs)
        package = Package(stream, now)
        _indexes(package, cdxj.all_lines(indexes, directory))
        main = _pages(package, archives, files, bar, directory)
        bar.stage("archives", sum(one.bytes for one in archives))
        for archive in archives:
            _copy(package, archive, bar)
        _describe(package, now, title or job.path.name, main)
        package.close()


def _indexes(package: Package, lines: Iterable[bytes]) -> None:
    idx = [b"!meta 0 " + json.dumps({"format": "cdxj-gzip-1.0", "filename": INDEX}).encode() + b"\n"]
    with package.entry(f"indexes/{INDEX}", packed=False) as entry:
        block: list[bytes] = []
        for line in lines:
            block.append(line)
            if len(block) == INDEX_LINES:
                idx.append(_block(entry, block))
                block = []
        if block:
            idx.append(_block(entry, block))
    with package.entry("indexes/index.idx", packed=True) as entry:
        for line in idx:
            entry.write(line)


def _block(entry: Entry, block: list[bytes]) -> bytes:
    """Write lines as a gzip member; its line in the index of the index."""
    data, offset = igzip.compress(b"".join(block), 3), entry.bytes
    entry.write(data)
    told = {"offset": offset, "length": len(data), "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}
    return block[0].partition(b" {")[0] + b" " + json.dumps(told).encode() + b"\n"


def _pages(package: Package, archives: list[Archive], files: Files, bar: Bar, directory: str) -> dict[str, str]:
    """Write both lists of pages; the first page that a person named."""
    bar.stage("pages", sum(one.bytes for one in archives))
    main: dict[str, str] = {}
    with open(os.path.join(directory, "extra"), "w+b") as extra:
        with package.entry("pages/pages.jsonl", packed=True) as entry:
            entry.write(_header("pages", "Pages"))
            for archive in archives:
                for capture in captures(files, archive):
                    page = _page(capture)
                    if page is not None:
                        seed = _is_seed(capture)
                        main = main or (page if seed else {})
                        (entry if seed else extra).write(json.dumps(page).encode() + b"\n")
                bar.read(archive.bytes)
        if extra.tell():
            extra.seek(0)
            with package.entry("pages/extraPages.jsonl", packed=True) as entry:
                entry.write(_header("extra-pages", "Extra Pages"))
                while data := extra.read(COPY_BYTES):
                    entry.write(data)
    return main


def _header(name: str, title: str) -> bytes:
    return json.dumps({"format": "json-pages-1.0", "id": name, "title": title}).encode() + b"\n"


def _page(capture: Capture) -> dict[str, str] | None:
    """The line of a page; None for what is no page that a person would open."""
    if capture.revisit or subset_of(capture) != PAGE:
        return None
    found = read(capture)
    handler = handler_of(found.media_type)
    if found.media_type not in PAGE_TYPES or handler is None:
        return None
    moment = capture.record.fields.get("warc-date", "").partition(".")[0].removesuffix("Z") + "Z"
    title = handler.read(found.body, found.codec).title
    return {
        "id": f"{name_key(f'{moment} {capture.url}'.encode()):016x}", "url": capture.url, "ts": moment,
        "title": title or capture.url,
    }  # fmt: skip


def _is_seed(capture: Capture) -> bool:
    """Whether no link led to the page: a person named it, or it is what that redirected to."""
    unit = capture.record.unit
    return unit is not None and not json.loads(unit).get("depth")


def _copy(package: Package, archive: Archive, bar: Bar) -> None:
    with open(archive.path, "rb") as source, package.entry(f"archive/{archive.name}", packed=False) as entry:
        while data := source.read(COPY_BYTES):
            entry.write(data)
            bar.read(len(data))


def _describe(package: Package, now: float, title: str, main: dict[str, str]) -> None:
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    told: dict[str, Any] = {
        "profile": "data-package", "title": title, "wacz_version": VERSION, "software": f"irlcrawl {__version__}",
        "created": created, "modified": created, "resources": package.resources,
    }  # fmt: skip
    if main:
        told |= {"mainPageUrl": main["url"], "mainPageDate": main["ts"]}
    text = json.dumps(told, indent=2).encode()
    with package.entry("datapackage.json", packed=True) as entry:
        entry.write(text)
    digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(text).hexdigest()}"}
    with package.entry("datapackage-digest.json", packed=True) as entry:
        entry.write(json.dumps(digest, indent=2).encode())
