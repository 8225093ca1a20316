"""The sketch of what a page says: three SimHashes, two of which stay almost the same when a few of its words change.

The features of a page are the pairs of neighbouring words of its long texts (fingerprint.py), each counted once: frame
(`nav`, `aside`, `footer`), scripts, labels and digits are gone. By its hash a feature belongs to one of three parts,
and the 64 bits of a part are the majority, bit by bit, of its features' hashes (Charikar's SimHash). Two pages are
near-duplicates if one part differs in at most three bits (Manku, Jain, Das Sarma, WWW 2007). A single SimHash of the
whole page misses a third of the edits of one word in a page of 200: four of its features differ, and with them 3 bits
or more. Of three parts one mostly has none of them.

numpy on the bytes of the texts of several pages together: a word's hash is a difference of prefix sums, so no word
becomes an object. One page at a time takes twice as long, most of it in calling numpy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from irlcrawl.worker.page.fingerprint import DIGITS, texts_of

PARTS = 3
FEATURES_MIN = 50
"""A page with fewer has no sketch: it would say little, and change with each word."""
TEXT_BYTES_MAX = 1 << 14
"""Of a page's texts; what comes behind that is not looked at. It is some 2,500 words."""
LOOKED_BYTES_MAX = 20 << 10
"""With their digits, which do not count."""
BATCH_BYTES_MAX = 1 << 16
"""Texts that are read together."""
FEATURES = 252
"""Of a page with more only a share is taken, by their hashes: a half, a quarter, ..."""
PART_FEATURES_MIN, PART_FEATURES_MAX = 4, 255
"""Of a part; the most that a byte counts. (Far from what hashes give.)"""

FRAMES_MAX = 16
FRAME_WITHIN = 4 << 10
"""Of a page's frame so many elements are looked for among its first bytes, and among its last."""

_FRAME = re.compile(rb"<(nav|footer|aside)[\s>]")
_LETTERS = bytes(c | 0x20 if 65 <= c <= 90 else c if 97 <= c <= 122 or c >= 0x80 else 0 for c in range(256))
"""ASCII letters in lower case and what may be letters elsewhere as they are; the rest is 0."""
_BASE = 0x9E3779B1


def _powers(base: int) -> NDArray[np.uint32]:
    values = np.full(BATCH_BYTES_MAX, base, np.uint32)
    values[0] = 1
    return np.multiply.accumulate(values, dtype=np.uint32)


_POWERS, _INVERSE = _powers(_BASE), _powers(pow(_BASE, -1, 1 << 32))
_SHIFTS = np.arange(8, dtype=np.uint64)[:, None]
_ONES = np.uint64(0x0101010101010101)
_EDGES = np.array([0x5555555555555555, 0xAAAAAAAAAAAAAAAA], np.uint64)
_APART = np.array([0, 0x5A3C96E10F78D2B4, 0xC369A55A96F00F3C], np.uint64)
"""So that a part of one page is not taken for another part of another one."""
_MIX = tuple(map(np.uint64, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)))
_NOTHING = np.zeros(1, np.uint64)
_29, _32 = np.uint64(29), np.uint64(32)


def words_of(body: bytes, texts: list[bytes]) -> bytes:
    """What a sketch reads of a decoded page in HTML with these texts (texts_of): its letters outside its frame, with
    zeros between words. Of at most TEXT_BYTES_MAX bytes; not empty, it begins with a zero."""
    if framed := _framed(body):
        texts = [text for text in texts if text not in framed]
    return b"\0".join(texts)[:LOOKED_BYTES_MAX].translate(_LETTERS, DIGITS)[:TEXT_BYTES_MAX]


def sketches(pages: Sequence[bytes]) -> list[tuple[int, ...]]:
    """Of each page with these words (words_of) PARTS numbers (u8); none of a page that says too little."""
    found: list[tuple[int, ...]] = []
    for batch in _batches(pages):
        found += _sketched(*features_of(batch))
    return found


def features_of(pages: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes u8[n] of the pairs of words of pages (words_of; BATCH_BYTES_MAX together), of each page distinct and
    ascending; and where each page's begin and end, i8[pages + 1]."""
    letters = np.frombuffer(b"".join(pages), np.uint8)
    inside = letters != 0
    begin = (inside[1:] > inside[:-1]).nonzero()[0]  # a word begins behind each of these
    if len(begin) < 3:
        return np.empty(0, np.uint64), np.zeros(len(pages) + 1, np.int64)
    bounds = begin.searchsorted(list(accumulate(map(len, pages), initial=0)))
    pairs = _pairs(letters, begin)
    keep = _all_true(len(begin))
    ends = bounds[1:]
    keep[ends - 1] = keep[ends - 2] = False  # a page's last word has no end, the one before it no pair
    sizes = ends - bounds[:-1]
    if max(counts := sizes.tolist()) - 2 > FEATURES:
        shares = [(1 << ((count - 3) // FEATURES).bit_length()) - 1 if count - 2 > FEATURES else 0 for count in counts]
        keep[:-2] &= pairs & np.array(shares, np.uint64).repeat(sizes)[:-2] == 0
    return _distinct(pairs[keep[:-2]], _before(keep)[bounds])


def _batches(pages: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    begin = size = 0
    for at, page in enumerate(pages):
        size += len(page)
        if size > BATCH_BYTES_MAX:
            yield pages[begin:at]
            begin, size = at, len(page)
    yield pages[begin:]


def _pairs(letters: NDArray[np.uint8], begin: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hashes of each two words that follow one another, u8[words - 2]: the last has no end here."""
    sums = (_POWERS[: len(letters)] * letters).cumsum(dtype=np.uint32).take(begin)
    words = ((sums[1:] - sums[:-1]) * _INVERSE.take(begin[:-1])).astype(np.uint64)
    words *= _MIX[0]
    pairs: NDArray[np.uint64] = words[:-1] + (words[1:] >> _29)
    pairs *= _MIX[1]
    pairs ^= pairs >> _32
    pairs *= _MIX[2]
    return pairs


def _distinct(features: NDArray[np.uint64], bounds: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Each page's features sorted, each once."""
    for begin, end in pairwise(bounds.tolist()):
        features[begin:end].sort()
    first = _all_true(len(features) + 1)
    np.not_equal(features[1:], features[:-1], out=first[1:-1])
    first[bounds] = True
    return features[first[:-1]], _before(first)[bounds]


# What numpy has in Python (ones, diff, concatenate of lists) takes longer than what it does for a few hundred numbers.


def _all_true(count: int) -> NDArray[np.bool_]:
    made = np.empty(count, np.bool_)
    made.fill(True)
    return made


def _before(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many are true before each, and in all: i8[n + 1]."""
    counts = np.empty(len(flags) + 1, np.int64)
    counts[0] = 0
    flags.cumsum(out=counts[1:])
    return counts


def _sketched(features: NDArray[np.uint64], bounds: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Of pages with these features."""
    totals = bounds[1:] - bounds[:-1]
    parts = (np.arange(len(totals)) * PARTS).repeat(totals)
    parts += features >= _EDGES[0]
    parts += features >= _EDGES[1]
    sizes = np.bincount(parts, minlength=PARTS * len(totals))
    features = np.concatenate((features, _NOTHING))  # for parts without a feature: they begin behind the last one
    features ^= features >> _32
    features *= _MIX[0]
    features ^= features >> _29
    lanes = features >> _SHIFTS
    lanes &= _ONES
    counts = np.add.reduceat(lanes, sizes.cumsum() - sizes, axis=1).T.copy().view(np.uint8)  # [parts, 64], in one order
    majority = counts > (sizes >> 1).astype(np.uint8)[:, None]
    numbers = np.packbits(majority, axis=1).view(np.uint64).reshape(-1, PARTS) ^ _APART
    sizes = sizes.reshape(-1, PARTS)
    told = (totals >= FEATURES_MIN) & (sizes.min(axis=1) >= PART_FEATURES_MIN)
    told &= sizes.max(axis=1) <= PART_FEATURES_MAX
    return [tuple(page) if tells else () for page, tells in zip(numbers.tolist(), told.tolist(), strict=True)]


def _framed(body: bytes) -> set[bytes]:
    """The long texts in the elements that make a page's frame, each up to its first end tag. (Written in lower case; to
    cut them out and read the texts of the rest would take as long as all else.)"""
    framed: set[bytes] = set()
    for part in (body[:FRAME_WITHIN], body[max(len(body) - FRAME_WITHIN, FRAME_WITHIN) :]):
        for tag, _ in zip(_FRAME.finditer(part), range(FRAMES_MAX)):
            until = part.find(b"</" + tag[1], tag.end())
            framed.update(texts_of(part[tag.start() : until + 1 if until > 0 else tag.start()]))
    return framed
