"""Paths of the simulated web's pages: the words they are made of, and the paths of traps, both ways."""

from __future__ import annotations

from drum.ragged import Ragged

import numpy as np

from tools.simweb import glyphs
from tools.simweb.mix import Array, I8s
from tools.simweb.truth import Section

DIRECTORIES = (
    b"about archive articles blog books city culture docs events forum garden guide health history home-page index-of "
    b"kitchen library maps market media music nature news people photos projects reviews science sports stories travel"
).split()
WORDS = (
    b"amber apple autumn bridge candle castle cloud copper coast desert dragon eagle ember falcon feather "
    b"forest fountain glacier harbour island jasmine kettle lantern lavender lemon marble meadow mirror "
    b"mountain night ocean orchard paper pebble pepper pine planet prairie quartz rain raven ribbon river "
    b"rocket saffron sail silver sparrow spring stone storm summer temple thunder tiger valley velvet violet "
    b"walnut water willow winter yellow zephyr"
).split()
_SEGMENTS = (b"/img", b"/css", b"/lib", b"/inc")
TRAP_PATHS = {Section.CALENDAR: b"/calendar/", Section.PAGINATION: b"/list/", Section.SESSION: b"/visit/",
              Section.PARAMETERS: b"/shop?", Section.HONEYPOT: b"/private/", Section.SOFT404: b"/missing"}  # fmt: skip
_SID_FACTOR = 0x9E3779B1
_SID_INVERSE = pow(_SID_FACTOR, -1, 1 << 32)
_SEGMENT_TABLE = glyphs.table(_SEGMENTS)


def trap_path(section: int, index: I8s) -> Ragged:
    """What follows the first slash, of pages of one trap section."""
    n = len(index)
    return glyphs.joined([glyphs.constant(n, TRAP_PATHS[Section(section)][1:]), *_places(section, index, n)])


def _places(section: int, index: I8s, n: int) -> list[Array]:
    if section == Section.CALENDAR:
        return [
            glyphs.number(index // 12, 10, 10),
            glyphs.constant(n, b"/"),
            glyphs.number(index % 12 + 1, 10, 2),
        ]
    if section == Section.PAGINATION:
        return [
            glyphs.number(index >> 20, 10, 4),
            glyphs.constant(n, b"?page="),
            glyphs.number(index & 0xFFFFF, 10, 7),
        ]
    if section == Section.SESSION:
        sid = (index * _SID_FACTOR) & 0xFFFFFFFF
        return [glyphs.number(index >> 20, 10, 4), glyphs.constant(n, b"?sid="), glyphs.digits(sid, 16, 8)]
    if section == Section.PARAMETERS:
        out = np.zeros((n, 8, 4), np.uint8)
        for place in range(8):
            digit = (index >> (4 * place)) & 15
            rows = np.flatnonzero(digit)
            out[rows, place, 1] = ord("a") + place
            out[rows, place, 2] = ord("=")
            out[rows, place, 3] = glyphs.DIGIT_TABLE[digit[rows]]
            later = rows[index[rows] & ((1 << (4 * place)) - 1) > 0]
            out[later, place, 0] = ord("&")
        return [out.reshape(n, 32)]
    if section == Section.HONEYPOT:
        return [glyphs.digits(index, 16, 8)]
    out = np.zeros((n, 16, 4), np.uint8)
    for place in range(16):  # the highest two-bit digit, which is 1, is the mark; those below it are segments
        rows = np.flatnonzero(index >> (2 * place) >= 4)
        out[rows, 15 - place] = _SEGMENT_TABLE[(index[rows] >> (2 * place)) & 3]
    return [out.reshape(n, 64)]


def read_trap(section: int, text: Array, at: I8s, end: I8s) -> I8s:
    """The index of a trap URL whose text after the section's own begins at column `at`; any number for nonsense."""
    if section == Section.CALENDAR:
        month = glyphs.read_number(text, end, 10, 2)
        year = glyphs.read_number(text, end - np.where(month >= 10, 3, 2), 10, 10)
        return year * 12 + month - 1
    if section == Section.PAGINATION:
        page = glyphs.read_number(text, end, 10, 7)
        written = 1 + sum((page >= 10**power).astype(np.int64) for power in range(1, 7))
        return (glyphs.read_number(text, end - written - len(b"?page="), 10, 4) << 20) | page
    if section == Section.SESSION:
        return (glyphs.read_number(text, end, 16, 8) * _SID_INVERSE) & 0xFFFFFFFF
    if section == Section.PARAMETERS:
        index = np.zeros(len(text), np.int64)
        for pair in range(8):
            there = at + 4 * pair + 3 <= end
            name = np.clip(glyphs.at(text, at + 4 * pair).astype(np.int64) - ord("a"), 0, 7)
            value = np.maximum(glyphs.DIGIT_OF[glyphs.at(text, at + 4 * pair + 2)], 0) & 15
            index = np.where(there, index | (value << (4 * name)), index)
        return index
    if section == Section.HONEYPOT:
        return glyphs.read_number(text, end, 16, 8)
    index = np.ones(len(text), np.int64)
    for segment in range(15):
        there = at + 4 * segment + 4 <= end
        letter = glyphs.at(text, at + 4 * segment + 1)
        # img, css, lib, inc: the second letter of i-words tells them apart.
        second = glyphs.at(text, at + 4 * segment + 2)
        digit = np.select([letter == ord("c"), letter == ord("l"), second == ord("n")], [1, 2, 3], 0)
        index = np.where(there, (index << 2) | digit, index)
    return index
