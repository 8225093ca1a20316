"""What a simulated web's pages say, made for many pages at a time: their links, which are kept in a file, and contents.

A web is asked in columns: one page's links cost it as much as those of a hundred pages. So the first page of a chunk
that is read has the links of the whole chunk made and written to a temporary file, behind a table of where each page's
begin and what it shows; a page is two positioned reads from there. Memory holds a number for each chunk, so that what a
long crawl takes is its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

from tools.simweb.answers import content
from tools.simweb.mix import U8s
from tools.simweb.weather import Weather

CHUNK_BITS = 7
CHUNK = 1 << CHUNK_BITS
CONTENTS = 8 * CHUNK
"""Bytes of a chunk's table: a fingerprint for each page; then, to HEAD, where its links begin behind HEAD and end."""
HEAD = CONTENTS + 4 * (CHUNK + 1)


class Pages:
    """Of one web; the file lies in `directory` and has no name."""

    def __init__(self, weather: Weather, directory: Path) -> None:
        self._weather = weather
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - until close()
        self._starts: dict[int, int] = {}  # chunk of pages whose numbers begin alike -> where it is in the file
        self._end = 0

    def links(self, page: int) -> list[bytes]:
        """The URLs that a page links to, as its links spell them, in their order."""
        start, at = self._place(page)
        begin, end = np.frombuffer(self._read(8, start + CONTENTS + 4 * at), np.uint32).tolist()
        return self._read(end - begin, start + HEAD + begin).split(b"\n")[:-1]

    def content(self, page: int) -> int:
        """A fingerprint, equal for duplicates and nearly so."""
        start, at = self._place(page)
        return int.from_bytes(self._read(8, start + 8 * at), sys.byteorder)

    def _read(self, size: int, at: int) -> bytes:
        return os.pread(self._file.fileno(), size, at)

    def _place(self, page: int) -> tuple[int, int]:
        """Where its chunk begins in the file, and which of the chunk's pages it is."""
        number = page >> CHUNK_BITS
        start = self._starts.get(number)
        if start is None:
            start = self._starts[number] = self._make(number << CHUNK_BITS)
        return start, page & (CHUNK - 1)

    def _make(self, first: int) -> int:
        web = self._weather.web
        pages: U8s = np.uint64(first) + np.arange(CHUNK, dtype=np.uint64)
        there = web.exists(pages)
        links, urls = self._weather.links(pages[there])
        texts = urls.tolist()
        counts = np.zeros(CHUNK, np.int64)
        counts[there] = np.diff(links.offsets)
        bounds = np.concatenate(([0], np.cumsum(counts))).tolist()
        pieces = [b"".join([url + b"\n" for url in texts[a:b]]) for a, b in pairwise(bounds)]
        offsets = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces]))).astype(np.uint32)
        contents = np.zeros(CHUNK, np.uint64)
        contents[there] = content(web, pages[there])
        start, data = self._end, b"".join([contents.tobytes(), offsets.tobytes(), *pieces])
        os.pwrite(self._file.fileno(), data, start)
        self._end += len(data)
        return start

    def close(self) -> None:
        self._file.close()
