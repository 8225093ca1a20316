"""URLs of many pages as one blob of bytes: each part of all texts at once, written where it belongs.

    https://  label.  name.test/  directory  /two-words  /two-words  -4f2.html

A part is written as wide as its widest, padded, which takes less than half of what it does to put padded columns beside
each other and leave the padding out. What it covers behind itself is written later: paths go first, left to right, and
are narrower than the origin that follows them; then what stands before the names, whose padding ends within them; and
last the names, which are all of one width.
"""

from __future__ import annotations

from functools import cache

from drum.ragged import Ragged

import numpy as np

from tools.simweb import glyphs
from tools.simweb.mix import Array, I8s, U8s, mix
from tools.simweb.paths import DIRECTORIES, WORDS, trap_path
from tools.simweb.truth import Section, Sites, index_of, section_of, site_of

CHUNK_ROWS = 16_384
_MARGIN = 24  # bytes behind the last text, for the padding of its parts: none is wider
_PREFIXES = glyphs.Words(glyphs.table([b"http://", b"https://", b"http://www.", b"https://www."]))
_DIRECTORIES = glyphs.Words(glyphs.table([*DIRECTORIES, b""]))
_NO_DIRECTORY, _NO_PHRASE = len(DIRECTORIES), len(WORDS) ** 2
_PHRASES = glyphs.Words(glyphs.table([*(b"/" + first + b"-" + second for first in WORDS for second in WORDS), b""]))
_LOW = 36**3
"""Pages of a host below this number have a row of _numbers to themselves."""


@cache
def _numbers() -> glyphs.Words:
    """How paths end: nothing for page 0, and `-4f2.html` for the others below _LOW."""
    parts = [glyphs.constant(1, bytes(9))]
    for width in (1, 2, 3):
        some = np.arange(36 ** (width - 1), 36**width)
        dash, html, padding = (glyphs.constant(len(some), text) for text in (b"-", b".html", bytes(3 - width)))
        parts.append(np.concatenate([dash, glyphs.digits(some, 36, width), html, padding], axis=1))
    return glyphs.Words(np.concatenate(parts))


class Apart:
    """Texts of a few rows that no table has."""

    def __init__(self, rows: I8s, texts: Ragged) -> None:
        """rows: ascending."""
        self.rows, self.texts = rows, texts
        self.lengths = texts.lengths.astype(np.uint8)

    def slice(self, rows: slice) -> Apart:
        """Those of consecutive rows, counted from the first of these then."""
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop)).tolist()
        return Apart(self.rows[first:last] - rows.start, self.texts.slice(first, last))

    def put(self, out: Array, at: I8s) -> None:
        """Into the blob, at a place for each row there is."""
        lengths, offsets = self.texts.lengths, self.texts.offsets
        out[np.repeat(at[self.rows] - offsets[:-1], lengths) + np.arange(offsets[-1])] = self.texts.blob


class Writer:
    """Writes the URLs of one web."""

    def __init__(self, web: Sites) -> None:
        self._web = web

    def urls(self, pages: U8s, place: tuple[I8s, I8s], prefix: Array, names: Array) -> Ragged:
        """The URL of each page. place: `Sites.place`; prefix: rows of _PREFIXES; names: everything from the name of the
        site to the first slash, void words of one width."""
        host, page = place
        odd = _odd_ends(pages, page)
        before = _PREFIXES.lengths.take(prefix)
        named = np.flatnonzero(host)
        label, label_bytes = glyphs.label(host[named])
        before[named] += label_bytes
        size = before + np.uint8(names.itemsize)
        size[odd.rows] += odd.lengths
        chunks = [slice(start, start + CHUNK_ROWS) for start in range(0, len(pages), CHUNK_ROWS)]
        paths = [self._paths(pages[rows], page[rows]) for rows in chunks]
        for rows, parts in zip(chunks, paths, strict=True):
            for words, chosen in parts:
                size[rows] += words.lengths.take(chosen)
        offsets = np.zeros(len(pages) + 1, np.int64)
        np.cumsum(size, out=offsets[1:])
        out = np.empty(offsets[-1] + _MARGIN, np.uint8)
        for rows, parts in zip(chunks, paths, strict=True):
            at = offsets[:-1][rows] + before[rows]
            at += names.itemsize
            for words, chosen in parts:
                _put(out, at, words.rows.take(chosen))
                at += words.lengths.take(chosen)
            odd.slice(rows).put(out, at)
        _put(out, offsets[:-1], _PREFIXES.rows.take(prefix))
        name_at = offsets[:-1] + before
        _put(out, name_at[named] - label_bytes, label)
        _put(out, name_at, names)
        return Ragged(out[: offsets[-1]], offsets)

    def _paths(self, pages: U8s, page: I8s) -> list[tuple[glyphs.Words, I8s]]:
        """The parts of paths behind the first slash: tables, and rows of them."""
        web, home = self._web, page == 0
        h = mix(web.salt("words"), web.original(site_of(pages)), page).view(np.int64)
        directory = np.where(home, _NO_DIRECTORY, web.directory(pages, page))
        first, second = (np.where(home, _NO_PHRASE, (h >> shift) & (_NO_PHRASE - 1)) for shift in (0, 12))
        return [(_DIRECTORIES, directory), (_PHRASES, first), (_PHRASES, second), (_numbers(), page * (page < _LOW))]


def _put(out: Array, at: I8s, words: Array) -> None:
    """Words of one width into the blob, where each belongs."""
    width = words.itemsize
    places: Array = np.ndarray((len(out) - width + 1,), words.dtype, out, strides=(1,))
    places[at] = words


def _odd_ends(pages: U8s, page: I8s) -> Apart:
    """Ends of paths that no table has: whole paths of traps, and large numbers."""
    section = section_of(pages)
    rows, ends = [], []
    for number in np.flatnonzero(np.bincount(section)).tolist():  # at most seven
        if number != Section.PAGES:
            rows.append(np.flatnonzero(section == number))
            ends.append(trap_path(number, index_of(pages[rows[-1]])))
    rows.append(large := np.flatnonzero(page >= _LOW))
    dash, html = (glyphs.constant(len(large), text) for text in (b"-", b".html"))
    ends.append(glyphs.joined([dash, glyphs.number(page[large], 36, 7), html]))
    every = np.concatenate(rows)
    order = np.argsort(every)
    return Apart(every[order], Ragged.concat(ends).take(order))
