"""What a simulated web's pages say, made for many pages at a time: their links, which are kept in a file, and contents.

A web is asked in columns: one page's links cost it as much as those of a hundred pages. So the first page of a chunk
that is read has the links of the whole chunk made and written to a temporary file; each page's are one positioned read
from there, and memory holds twelve bytes a page.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.simweb.answers import content
from tools.simweb.mix import U8s
from tools.simweb.weather import Weather

CHUNK_BITS = 7


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Pages whose numbers begin alike. Page `first + i` has the links offsets[i]:offsets[i+1] behind `start`."""

    start: int
    first: int
    offsets: NDArray[np.uint32]
    contents: U8s


class Pages:
    """Of one web; the file lies in `directory` and has no name."""

    def __init__(self, weather: Weather, directory: Path) -> None:
        self._weather = weather
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - until close()
        self._chunks: dict[int, _Chunk] = {}
        self._end = 0

    def links(self, page: int) -> list[bytes]:
        """The URLs that a page links to, as its links spell them, in their order."""
        chunk = self._of(page)
        at = page - chunk.first
        begin, end = int(chunk.offsets[at]), int(chunk.offsets[at + 1])
        return os.pread(self._file.fileno(), end - begin, chunk.start + begin).split(b"\n")[:-1]

    def content(self, page: int) -> int:
        """A fingerprint, equal for duplicates and nearly so."""
        chunk = self._of(page)
        return int(chunk.contents[page - chunk.first])

    def _of(self, page: int) -> _Chunk:
        number = page >> CHUNK_BITS
        found = self._chunks.get(number)
        if found is None:
            found = self._chunks[number] = self._make(number << CHUNK_BITS)
        return found

    def _make(self, first: int) -> _Chunk:
        web = self._weather.web
        pages: U8s = np.uint64(first) + np.arange(1 << CHUNK_BITS, dtype=np.uint64)
        pages = pages[: int(np.flatnonzero(web.exists(pages))[-1]) + 1]
        there = web.exists(pages)
        links, urls = self._weather.links(pages[there])
        texts = urls.tolist()
        counts = np.zeros(len(pages), np.int64)
        counts[there] = np.diff(links.offsets)
        bounds = np.concatenate(([0], np.cumsum(counts))).tolist()
        pieces = [b"".join([url + b"\n" for url in texts[a:b]]) for a, b in pairwise(bounds)]
        offsets = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces]))).astype(np.uint32)
        start, data = self._end, b"".join(pieces)
        os.pwrite(self._file.fileno(), data, start)
        self._end += len(data)
        return _Chunk(start, first, offsets, content(web, pages))

    def close(self) -> None:
        self._file.close()
