"""WACZ 1.1.1 (specs.webrecorder.net/wacz/1.1.1): a crawl's archives in one ZIP file with an index and a list of pages,
which ReplayWeb.page opens from a disk or over the web without reading all of it.

    archive/*.warc.gz, *.warc.zst     as they are (the second kind is for other players than ReplayWeb.page)
    indexes/index.cdx.gz, index.idx   CDXJ in gzip members of 300 lines, and the first key of each
    pages/pages.jsonl                 the pages that a person named (seeds)
    pages/extraPages.jsonl            all other pages
    datapackage.json, datapackage-digest.json   hashes of all of these
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Iterable
from contextlib import closing
from typing import IO, Any, BinaryIO

from drum.files import Damaged, Files

from isal import igzip

from irlcrawl import __version__
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import COMPRESSED
from irlcrawl.base.keys import name_key
from irlcrawl.base.rows import Source
from irlcrawl.export import cdxj
from irlcrawl.export.archives import Archive, Capture, captures, unit_of
from irlcrawl.export.media.kinds import handler_of
from irlcrawl.export.originals import Indexes, Originals, refers_to
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

    def add(self, path: str, source: BinaryIO, *, packed: bool, bar: Bar | None = None) -> None:
        """Copy one resource from an open file. packed: compress it (what is read in pieces is not). wabac.js takes it
        that a local header has no extra fields where the directory has none: so only large files get those of ZIP64."""
        info = zipfile.ZipInfo(path, self._date)
        info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
        large = source.seek(0, os.SEEK_END) > zipfile.ZIP64_LIMIT
        source.seek(0)
        sha256 = hashlib.sha256()
        with self._zip.open(info, "w", force_zip64=large) as target:
            while data := source.read(COPY_BYTES):
                target.write(data)
                sha256.update(data)
                if bar is not None:
                    bar.read(len(data))
        name, digest = os.path.basename(path).lower(), f"sha256:{sha256.hexdigest()}"
        self.resources.append({"name": name, "path": path, "hash": digest, "bytes": info.file_size})

    def close(self) -> None:
        self._zip.close()


def write(
    job: JobDir, archives: list[Archive], path: str, bar: Bar, jobs: int, now: float, damaged: list[Damaged],
    title: str | None = None,
) -> int:  # fmt: skip
    """Write `path`, which gets its name when it is whole; returns how many responses it cannot show, as their body
    is in none of the archives. Archives that are damaged are left out, and `damaged` gets what is wrong with them.
    JobError, OSError."""
    files = Files()
    with tempfile.TemporaryDirectory() as directory, whole_file(path) as stream:
        indexes = cdxj.index(job, archives, directory, files, bar, jobs, damaged)
        originals = Originals(Indexes.of(job, indexes), files)
        indexed = [one for one in archives if one.name in indexes]
        with closing(Package(stream, now)) as package:  # in any case before the stream, or zipfile complains
            whole, main = _pages(package, indexed, files, bar, directory, originals, damaged)
            _indexes(package, cdxj.all_lines([indexes[one.name] for one in whole], directory), directory)
            bar.stage("archives", sum(one.bytes for one in whole))
            for archive in whole:
                with open(archive.path, "rb") as source:
                    package.add(f"archive/{archive.name}", source, packed=False, bar=bar)
            _describe(package, now, title or job.path.name, main)
    return originals.missed


def _indexes(package: Package, lines: Iterable[bytes], directory: str) -> None:
    idx = [b"!meta 0 " + json.dumps({"format": "cdxj-gzip-1.0", "filename": INDEX}).encode() + b"\n"]
    with open(os.path.join(directory, INDEX), "w+b") as packed:
        block: list[bytes] = []
        for line in lines:
            block.append(line)
            if len(block) == INDEX_LINES:
                idx.append(_block(packed, block))
                block = []
        if block:
            idx.append(_block(packed, block))
        package.add(f"indexes/{INDEX}", packed, packed=False)
    package.add("indexes/index.idx", io.BytesIO(b"".join(idx)), packed=True)


def _block(packed: BinaryIO, block: list[bytes]) -> bytes:
    """Write lines as a gzip member; its line in the index of the index."""
    data, offset = igzip.compress(b"".join(block), 3), packed.tell()
    packed.write(data)
    told = {"offset": offset, "length": len(data), "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}
    return block[0].partition(b" {")[0] + b" " + json.dumps(told).encode() + b"\n"


def _pages(
    package: Package, archives: list[Archive], files: Files, bar: Bar, directory: str, originals: Originals,
    damaged: list[Damaged],
) -> tuple[list[Archive], dict[str, str]]:  # fmt: skip
    """Write both lists of pages; (the archives that are whole, the first page that a person named)."""
    bar.stage("pages", sum(one.bytes for one in archives))
    whole, main = [], dict[str, str]()
    with open(os.path.join(directory, "named"), "w+b") as named, open(os.path.join(directory, "extra"), "w+b") as extra:
        named.write(_header("pages", "Pages"))
        for archive in archives:
            before = named.tell(), extra.tell()
            try:
                first = _list_pages(files, archive, originals, named, extra)
            except Damaged as error:
                damaged.append(error)
                for stream, at in zip((named, extra), before):
                    stream.seek(at)
                    stream.truncate()
                continue
            whole.append(archive)
            main = main or first
            bar.read(archive.bytes)
        package.add("pages/pages.jsonl", named, packed=True)
        if extra.tell():
            package.add("pages/extraPages.jsonl", extra, packed=True)
    return whole, main


def _list_pages(
    files: Files, archive: Archive, originals: Originals, named: BinaryIO, extra: BinaryIO
) -> dict[str, str]:  # fmt: skip
    """Write the pages of an archive; the first one that a person named. Damaged."""
    first: dict[str, str] = {}
    for capture in captures(files, archive):
        page = _page(capture, originals)
        if page is not None:
            seed = _is_seed(capture)
            first = first or (page if seed else {})
            if not seed and not extra.tell():
                extra.write(_header("extra-pages", "Extra Pages"))
            (named if seed else extra).write(json.dumps(page).encode() + b"\n")
    return first


def _header(name: str, title: str) -> bytes:
    return json.dumps({"format": "json-pages-1.0", "id": name, "title": title}).encode() + b"\n"


def _page(capture: Capture, originals: Originals) -> dict[str, str] | None:
    """The line of a page; None for what is no page that a person would open, or is listed as it was before."""
    if subset_of(capture) != PAGE or _carried(capture).get("source") == Source.REQUISITE:
        return None
    shown = originals.of(capture) if capture.revisit else capture
    if shown is None or (capture.revisit and refers_to(capture)[0] == capture.url):
        return None
    found = read(shown)
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
    return capture.record.unit is not None and not _carried(capture).get("depth")


def _carried(capture: Capture) -> dict[str, Any]:
    """What is noted of the URL behind a capture; empty if others wrote it."""
    return unit_of(capture.record)


def _describe(package: Package, now: float, title: str, main: dict[str, str]) -> None:
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    told: dict[str, Any] = {
        "profile": "data-package", "title": title, "wacz_version": VERSION, "software": f"irlcrawl {__version__}",
        "created": created, "modified": created, "resources": package.resources,
    }  # fmt: skip
    if main:
        told |= {"mainPageUrl": main["url"], "mainPageDate": main["ts"]}
    text = json.dumps(told, indent=2).encode()
    package.add("datapackage.json", io.BytesIO(text), packed=True)
    digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(text).hexdigest()}"}
    package.add("datapackage-digest.json", io.BytesIO(json.dumps(digest, indent=2).encode()), packed=True)
