"""Units, exchanges and writers for the tests of the archive."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drum.files import Files, Handle

from warcio.bufferedreaders import BufferedReader
from warcio.checker import Checker

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import CARRIED, Carried, Source
from irlcrawl.worker.archive.warc import Exchange, Unit, WarcWriter, warc_files, warcinfo_values

# warcio takes the module `brotli` for brotlipy's and fails on every `Content-Encoding: br` where it is Google's
# (webrecorder/warcio#73). Without it, it checks those records like any other.
BufferedReader.DECOMPRESSORS.pop("br", None)

TEXT = b"<html><body>" + b"<a href='/x'>link</a> caf\xc3\xa9 \x00\xff\r\n\r\n" * 200 + b"</body></html>"
REQUEST = b"GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Crawler/1 (+https://c.test; me@c.test)\r\n\r\n"
HEADER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


class Quick(Files):
    """No power is lost in these tests."""

    def fsync(self, handle: Handle) -> None:
        pass

    def fsync_dir(self, path: str | os.PathLike[str]) -> None:
        pass


def unit_of(url: bytes = b"http://a.test/", **fields: Any) -> Unit:
    values: dict[str, Any] = {
        "url": url, "segment": 3, "row": 14, "key": 2**64 - 15, "host": 2**63 + 9, "depth": 2,
        "source": int(Source.LINK), "priority": 4, "cls": int(Class.FETCHED), "reason": int(Reason.OK),
        "status": 200, "start": 1_700_000_000.25, "duration_ms": 125,
    } | fields  # fmt: skip
    carried = Carried(**{name: values.pop(name) for name in CARRIED if name in values})
    return Unit(carried=carried, **values)


def failed_unit(url: bytes = b"http://a.test/gone", **fields: Any) -> Unit:
    values = {"cls": int(Class.FAILED), "reason": int(Reason.CONNECT), "status": -2, "detail": "connection refused"}
    return unit_of(url, **{**values, **fields})


def exchange_of(unit: Unit, body: bytes = b"<p>hello</p>", header: bytes = HEADER, **fields: Any) -> Exchange:
    values: dict[str, Any] = {
        "ip": "192.0.2.7", "request": REQUEST, "start": unit.start, "duration": unit.duration_ms / 1000,
    }  # fmt: skip
    return Exchange(url=unit.url, header=header, body=body, **{**values, **fields})


def writer_in(
    directory: Path, stream: int = 1, roll_bytes: int = 10**9, files: Files | None = None, **options: Any
) -> WarcWriter:
    info = warcinfo_values(
        software="irlcrawl/test",
        user_agent="Crawler/1 (+https://c.test; me@c.test)",
        operator="me",
        is_part_of="job",
        settings="page.requisites = true",
    )
    return WarcWriter(
        files or Quick(), directory, options.pop("prefix", "irlcrawl"), stream, info=info, roll_bytes=roll_bytes,
        gzip_level=1, clock=options.pop("clock", None) or VirtualClock(1_700_000_000.5), **options,
    )  # fmt: skip


def paths_in(directory: Path) -> list[Path]:
    """The archive's files in order, as they are named on disk."""
    return [directory / file.on_disk for file in warc_files(Files(), os.fspath(directory))]


def check(*paths: Path) -> int:
    """`warcio check`, in this process."""
    return int(Checker(SimpleNamespace(inputs=[os.fspath(path) for path in paths], verbose=False)).process_all())
