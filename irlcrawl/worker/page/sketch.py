"""The sketch of what a page says: three SimHashes, two of which stay almost the same when a few of its words change.

The features of a page are the pairs of neighbouring words of its long texts (fingerprint.py), each counted once: frame
(`nav`, `aside`, `footer`), scripts, labels and digits are gone. By its hash a feature belongs to one of three parts,
and the 64 bits of a part are the majority, bit by bit, of its features' hashes (Charikar's SimHash). Two pages are
near-duplicates if one part differs in at most three bits (Manku, Jain, Das Sarma, WWW 2007). A single SimHash of the
whole page misses a third of the edits of one word in a page of 200: four of its features differ, and with them 3 bits
or more. Of three parts one mostly has none of them.

numpy on the bytes of all texts together: a word's hash is a difference of prefix sums, so no word becomes an object.
"""

from __future__ import annotations

import re

import numpy as np

from irlcrawl.worker.page.fingerprint import DIGITS, texts_of

PARTS = 3
FEATURES_MIN = 50
"""A page with fewer has no sketch: it would say little, and change with each word."""
TEXT_BYTES_MAX = 1 << 14
"""Of a page's texts; what comes behind that is not looked at. It is some 2,500 words."""
FEATURES = 504
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


def _powers(base: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    values = np.full(TEXT_BYTES_MAX, base, np.uint32)
    values[0] = 1
    return np.multiply.accumulate(values, dtype=np.uint32)


_POWERS, _INVERSE = _powers(_BASE), _powers(pow(_BASE, -1, 1 << 32))
_SHIFTS = np.arange(8, dtype=np.uint64)[:, None]
_ONES = np.uint64(0x0101010101010101)
_EDGES = np.array([0x5555555555555555, 0xAAAAAAAAAAAAAAAA], np.uint64)
_APART = np.array([0, 0x5A3C96E10F78D2B4, 0xC369A55A96F00F3C], np.uint64)
"""So that a part of one page is not taken for another part of another one."""
_MIX = tuple(map(np.uint64, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)))
_29, _32 = np.uint64(29), np.uint64(32)


def sketch(body: bytes, texts: list[bytes]) -> tuple[int, ...]:
    """PARTS numbers (u8) of a decoded page in HTML with these texts (texts_of); empty for a page that says too
    little."""
    features = features_of(body, texts)
    if len(features) < FEATURES_MIN:
        return ()
    first, second = np.searchsorted(features, _EDGES).tolist()
    sizes = (first, second - first, len(features) - second)
    if min(sizes) < PART_FEATURES_MIN or max(sizes) > PART_FEATURES_MAX:
        return ()
    features ^= features >> _32
    features *= _MIX[0]
    lanes = (features ^ (features >> _29)) >> _SHIFTS
    lanes &= _ONES
    counts = np.add.reduceat(lanes, (0, first, second), axis=1).T.copy().view(np.uint8)  # [PARTS, 64], in one order
    majority = counts > np.array([[size // 2] for size in sizes], np.uint8)
    return tuple((np.packbits(majority, axis=1).view(np.uint64)[:, 0] ^ _APART).tolist())


def features_of(body: bytes, texts: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Hashes u8[n], distinct and ascending, of the pairs of words of a page outside its frame."""
    if framed := _framed(body):
        texts = [text for text in texts if text not in framed]
    return _features(b" ".join(texts).translate(_LETTERS, DIGITS)[:TEXT_BYTES_MAX])


def _framed(body: bytes) -> set[bytes]:
    """The long texts in the elements that make a page's frame, each up to its first end tag. (Written in lower case; to
    cut them out and read the texts of the rest would take as long as all else.)"""
    framed: set[bytes] = set()
    for part in (body[:FRAME_WITHIN], body[max(len(body) - FRAME_WITHIN, FRAME_WITHIN) :]):
        for tag, _ in zip(_FRAME.finditer(part), range(FRAMES_MAX)):
            until = part.find(b"</" + tag[1], tag.end())
            framed.update(texts_of(part[tag.start() : until + 1 if until > 0 else tag.start()]))
    return framed


def _features(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Hashes u8[n], distinct, of pairs of words. text: 0 between words."""
    letters = np.frombuffer(text, np.uint8)
    inside = letters != 0
    begin = (inside[1:] > inside[:-1]).nonzero()[0]  # a word begins behind each of these
    if len(begin) <= FEATURES_MIN:
        return np.empty(0, np.uint64)
    sums = np.cumsum(_POWERS[: len(letters)] * letters, dtype=np.uint32).take(begin)
    words = ((sums[1:] - sums[:-1]) * _INVERSE.take(begin[:-1])).astype(np.uint64)
    words *= _MIX[0]
    pairs = words[:-1] + (words[1:] >> _29)
    pairs *= _MIX[1]
    pairs ^= pairs >> _32
    pairs *= _MIX[2]
    if len(pairs) > FEATURES:
        share = np.uint64((1 << ((len(pairs) - 1) // FEATURES).bit_length()) - 1)
        pairs = pairs[pairs & share == 0]
    pairs.sort()
    pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))]
    return pairs
