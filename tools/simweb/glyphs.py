"""Text as a matrix of bytes: a row each, zeros where there is nothing, whole columns written and read at once."""

from __future__ import annotations

from drum.ragged import Ragged

import numpy as np

from tools.simweb.mix import Array, Bools, I8s

URL_BYTES_MAX = 160
SYLLABLE_BITS = 6
LABEL_SYLLABLES, LABEL_BYTES = 5, 11

_CONSONANTS, _VOWELS = b"bdfghjklmnprstvz", b"aeio"
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


def table(words: list[bytes] | tuple[bytes, ...]) -> Array:
    """Words as rows of bytes, padded with zeros."""
    width = max(map(len, words))
    return np.frombuffer(b"".join(word.ljust(width, b"\0") for word in words), np.uint8).reshape(-1, width)


def positions(alphabet: bytes) -> Array:
    """byte -> its place in the alphabet, -1 for others."""
    places = np.full(256, -1, np.int64)
    places[np.frombuffer(alphabet, np.uint8)] = np.arange(len(alphabet))
    return places


_SYLLABLE_TABLE = np.frombuffer(bytes(c for a in _CONSONANTS for b in _VOWELS for c in (a, b)), np.uint16)
_PAIR_TABLE = np.stack([np.repeat(_SYLLABLE_TABLE, 64), np.tile(_SYLLABLE_TABLE, 64)], axis=1).view(np.uint32)[:, 0]
DIGIT_TABLE = np.frombuffer(_DIGITS, np.uint8)
_CONSONANT_OF, _VOWEL_OF, DIGIT_OF = positions(_CONSONANTS), positions(_VOWELS), positions(_DIGITS)


def constant(n: int, text: bytes) -> Array:
    return np.broadcast_to(np.frombuffer(text, np.uint8), (n, len(text)))


def words(rows: Array) -> Array:
    """Each row as one void word of its width, to be copied in one piece."""
    return np.ascontiguousarray(rows).view(f"V{rows.shape[1]}")[:, 0]


class Words:
    """Texts to choose from, given as rows of bytes with zeros behind: words of one width, and their true lengths."""

    def __init__(self, texts: Array) -> None:
        self.lengths = np.count_nonzero(texts, axis=1).astype(np.uint8)
        self.rows = words(texts)


def joined(columns: list[Array]) -> Ragged:
    """Rows of the columns side by side, zeros left out."""
    rows = np.concatenate(columns, axis=1)
    there = rows != 0
    return Ragged.from_lengths(rows[there], np.count_nonzero(there, axis=1))


def syllables(numbers: I8s, count: int) -> Array:
    """Numbers in base 64, each digit a consonant and a vowel; written two at a time."""
    pairs = [f"p{place}" for place in range(count // 2)]
    out = np.empty(len(numbers), [*((name, np.uint32) for name in pairs), *[("last", np.uint16)] * (count % 2)])
    for place, name in enumerate(pairs):
        out[name] = _PAIR_TABLE[(numbers >> (SYLLABLE_BITS * (count - 2 - 2 * place))) & 4095]
    if count % 2:
        out["last"] = _SYLLABLE_TABLE[numbers & 63]
    return out.view(np.uint8).reshape(len(numbers), 2 * count)


def label(numbers: I8s) -> tuple[Array, Array]:
    """Numbers in as many syllables as they take, and a dot: words of LABEL_BYTES with anything behind, and the true
    lengths, u1."""
    count = np.ones(len(numbers), np.uint8)
    for place in range(1, LABEL_SYLLABLES):
        count += (numbers >> (SYLLABLE_BITS * place) > 0).view(np.uint8)
    out = np.empty((len(numbers), LABEL_BYTES), np.uint8)
    out[:, :-1] = syllables(numbers << (SYLLABLE_BITS * (LABEL_SYLLABLES - count)), LABEL_SYLLABLES)
    out[np.arange(len(numbers)), 2 * count] = ord(".")
    return words(out), 2 * count + 1


def syllable(text: Array, place: Array) -> I8s:
    """The digit that begins at column `place` of each row, 0..63; something negative for nonsense."""
    return np.asarray(_CONSONANT_OF[at(text, place)] * 4 + _VOWEL_OF[at(text, place + 1)])


def digits(numbers: I8s, base: int, width: int) -> Array:
    """Numbers with leading zeros."""
    out = np.empty((len(numbers), width), np.uint8)
    left = numbers
    for place in range(width):
        higher = left // base
        out[:, width - 1 - place] = DIGIT_TABLE[left - higher * base]
        left = higher
    return out


def number(numbers: I8s, base: int, width: int) -> Array:
    """Numbers without leading zeros, to the right of a field."""
    out = digits(numbers, base, width)
    for place in range(1, width):
        out[numbers < base**place, width - 1 - place] = 0
    return out


def read_number(text: Array, end: Array, base: int, width: int) -> I8s:
    """The digits that end before column `end` of each row, at most `width` of them; 0 where there are none."""
    value = np.zeros(len(text), np.int64)
    alive = np.ones(len(text), bool)
    for place in range(width):
        digit = np.where(end - 1 - place >= 0, DIGIT_OF[at(text, end - 1 - place)], -1)
        alive &= (digit >= 0) & (digit < base)
        value = np.where(alive, value + digit * base**place, value)
    return value


def at(text: Array, columns: Array) -> Array:
    return text[np.arange(len(text)), np.clip(columns, 0, text.shape[1] - 1)]


def starts(text: Array, columns: Array, prefix: bytes) -> Bools:
    there = np.ones(len(text), bool)
    for place, byte in enumerate(prefix):
        there &= at(text, columns + place) == byte
    return there


def matrix(rows: Ragged) -> Array:
    """Rows padded with zeros to URL_BYTES_MAX, or cut there: no page's URL is longer."""
    lengths = np.minimum(rows.lengths, URL_BYTES_MAX)
    out = np.zeros((len(rows), URL_BYTES_MAX), np.uint8)
    inside = np.arange(URL_BYTES_MAX) < lengths[:, None]
    kept = np.repeat(rows.offsets[:-1] - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
    out[inside] = rows.blob[kept]
    return out


def same(left: Ragged, right: Ragged) -> Bools:
    """Which rows are equal."""
    return np.asarray((matrix(left) == matrix(right)).all(axis=1) & (left.lengths == right.lengths))
