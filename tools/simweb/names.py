"""URL text and page numbers, both ways, as columns.

    https://www.dogabizeso.test/garden/lemon-stone/rain-sail-4f2.html PAGES (`/` is a host's page 0)
    https://dogabizeso.test/calendar/2025/7                           CALENDAR: a month
    https://dogabizeso.test/list/3?page=17                            PAGINATION
    https://dogabizeso.test/visit/12?sid=09ab34f7                     SESSION
    https://dogabizeso.test/shop?b=3&f=1                              PARAMETERS: a facet per hex digit of the index
    https://dogabizeso.test/private/9c04b1aa                          HONEYPOT
    https://dogabizeso.test/missing/img/css/img/img                   SOFT404: two bits a segment, below a leading 1

Text is laid out as a matrix of bytes, a row per URL, zeros where there is nothing, and read the same way; reading takes
the few bytes that carry numbers and then asks whether these numbers' URL is this text, so nothing but a page's one URL
is ever taken for it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from drum.ragged import Ragged
from tools.simweb import glyphs
from tools.simweb.mix import Array, Bools, I8s, U8s, mix
from tools.simweb.truth import (
    NOWHERE,
    Section,
    Sites,
    index_of,
    join_index,
    page_number,
    section_of,
    site_of,
)

CHUNK_ROWS = 32_768
NAME_BITS, NAME_BYTES = 28, 10
LABEL_SYLLABLES = 5

DIRECTORIES = (
    b"about archive articles blog books city culture docs events forum garden guide health history home-page index-of "
    b"kitchen library maps market media music nature news people photos projects reviews science sports stories travel"
).split()
_WORDS = (
    b"amber apple autumn bridge candle castle cloud copper coast desert dragon eagle ember falcon feather "
    b"forest fountain glacier harbour island jasmine kettle lantern lavender lemon marble meadow mirror "
    b"mountain night ocean orchard paper pebble pepper pine planet prairie quartz rain raven ribbon river "
    b"rocket saffron sail silver sparrow spring stone storm summer temple thunder tiger valley velvet violet "
    b"walnut water willow winter yellow zephyr"
).split()
_SEGMENTS = (b"/img", b"/css", b"/lib", b"/inc")
_TRAP_PATHS = {Section.CALENDAR: b"/calendar/", Section.PAGINATION: b"/list/", Section.SESSION: b"/visit/",
               Section.PARAMETERS: b"/shop?", Section.HONEYPOT: b"/private/", Section.SOFT404: b"/missing"}  # fmt: skip
_SID_FACTOR = 0x9E3779B1
_SID_INVERSE = pow(_SID_FACTOR, -1, 1 << 32)


_SEGMENT_TABLE = glyphs.table(_SEGMENTS)
_NO_DIRECTORY = len(DIRECTORIES)
_PHRASE_TABLE = glyphs.table([*(b"/" + first + b"-" + second for first in _WORDS for second in _WORDS), b""])
_PHRASES = len(_WORDS) ** 2  # the last row of their table is for the pages that have none
_SCHEME_TABLE = glyphs.table([b"http://", b"https://"])
_LABEL_TABLE = glyphs.table([b"", b"www.".ljust(2 * LABEL_SYLLABLES + 1, b"\0")])
_LOW = 36**3
"""Pages of a host below this number have a row of _number_table to themselves."""


@cache
def _number_table() -> Array:
    """How paths end: `-4f2.html` for each number below _LOW, then `0f2.html` for those with digits before them, then
    nothing for home pages."""
    low, end = np.arange(_LOW), glyphs.constant(_LOW, b".html")
    alone = [glyphs.constant(_LOW, b"-"), glyphs.number(low, 36, 3), end]
    behind = [glyphs.constant(_LOW, b"\0"), glyphs.digits(low, 36, 3), end]
    return np.concatenate([np.concatenate(part, axis=1) for part in (alone, behind, [np.zeros((1, 9), np.uint8)])])


class Names:
    """The names of one web."""

    def __init__(self, web: Sites) -> None:
        self.web = web
        self._mask = np.uint64((1 << NAME_BITS) - 1)
        self._flip = np.uint64(web.salt("name")) & self._mask
        self._factors = [web.salt(f"name {i}") | 1 for i in range(2)]
        self._inverses = [pow(f, -1, 1 << NAME_BITS) for f in self._factors]
        port = web.params.port
        self._end = f".test:{port}".encode() if port else b".test"
        self._directories = glyphs.table([self._end + b"/" + name for name in (*DIRECTORIES, b"")])

    # The numbers of sites, shuffled so that a name says nothing about its site

    def _shuffled(self, sites: I8s) -> U8s:
        x = sites.astype(np.uint64) ^ self._flip
        for factor in self._factors:
            x = (x * np.uint64(factor)) & self._mask
            x ^= x >> np.uint64(NAME_BITS // 2)
        return x

    def _unshuffled(self, x: U8s) -> I8s:
        for inverse in reversed(self._inverses):
            x = x ^ (x >> np.uint64(NAME_BITS // 2))
            x = (x * np.uint64(inverse)) & self._mask
        return (x ^ self._flip).astype(np.int64)

    def secure(self, sites: I8s) -> Bools:
        """https sites."""
        drawn = mix(self.web.salt("scheme"), sites) % np.uint64(1024)
        return np.asarray(drawn < self.web.params.https_share * 1024)

    # Numbers to text

    def site_names(self, sites: I8s) -> Ragged:
        """Registrable domains."""
        return glyphs.joined([self._name(sites), glyphs.constant(len(sites), b".test")])

    def origins(self, hosts: U8s) -> Ragged:
        """`scheme://host[:port]` of host numbers."""
        site = (hosts >> np.uint64(32)).astype(np.int64)
        return glyphs.joined(self._origin(site, (hosts & np.uint64(0xFFFFFFFF)).astype(np.int64)))

    def host_names(self, hosts: U8s) -> Ragged:
        """Host names, without scheme and port."""
        site = (hosts >> np.uint64(32)).astype(np.int64)
        label = self._label(site, (hosts & np.uint64(0xFFFFFFFF)).astype(np.int64))
        return glyphs.joined([label, self._name(site), glyphs.constant(len(site), b".test")])

    def urls(self, pages: U8s, place: tuple[I8s, I8s] | None = None) -> Ragged:
        """The canonical URL of each page. place: that of the pages (`Sites.place`), for callers who have it."""
        host, page = self.web.place(pages) if place is None else place
        chunks = [slice(a, a + CHUNK_ROWS) for a in range(0, len(pages), CHUNK_ROWS)]
        return Ragged.concat([self._urls(pages[rows], host[rows], page[rows]) for rows in chunks])

    def _urls(self, pages: U8s, host: I8s, page: I8s) -> Ragged:
        site, section = site_of(pages), section_of(pages)
        names = self._names(site, host)
        start = glyphs.width_of(names) + len(self._end)
        traps = []
        for number in np.flatnonzero(np.bincount(section)).tolist():  # at most seven
            if number != Section.PAGES:
                some = np.flatnonzero(section == number)
                traps.append((some, np.concatenate(_trap_path(number, index_of(pages[some])), axis=1)))
        width = start + max((block.shape[1] for _, block in traps), default=0)
        rows = glyphs.beside([*names, *self._end_and_path(pages, page)], width)  # a page of a trap stands there as `/`
        for some, block in traps:
            rows[some, start : start + block.shape[1]] = block
        return glyphs.squeezed(rows)

    def _names(self, site: I8s, host: I8s) -> list[Array]:
        """Origins but for their end."""
        scheme = _SCHEME_TABLE.take(self.secure(site).view(np.uint8), axis=0)
        return [scheme, self._label(site, host), self._name(site)]

    def _origin(self, site: I8s, host: I8s) -> list[Array]:
        return [*self._names(site, host), glyphs.constant(len(site), self._end)]

    def _name(self, site: I8s) -> Array:
        return glyphs.syllables(self._shuffled(site).astype(np.int64), NAME_BYTES // 2)

    def _label(self, site: I8s, host: I8s) -> Array:
        """`www.` or nothing for host 0, syllables and a dot for others."""
        www = (host == 0) & (mix(self.web.salt("www"), site) % np.uint64(2) == 0)
        out = _LABEL_TABLE.take(www.view(np.uint8), axis=0)
        named = np.flatnonzero(host > 0)
        if len(named):
            text = glyphs.syllables(host[named], LABEL_SYLLABLES)
            for place in range(LABEL_SYLLABLES - 1):  # leading zero syllables are not written
                text[
                    host[named] >> (glyphs.SYLLABLE_BITS * (LABEL_SYLLABLES - 1 - place)) == 0,
                    2 * place : 2 * place + 2,
                ] = 0
            out[named, :-1] = text
            out[named, -1] = ord(".")
        return out

    def _end_and_path(self, pages: U8s, page: I8s) -> list[Array]:
        """The end of the origin, and `/` alone for a host's home page."""
        h = mix(self.web.salt("words"), self.web.original(site_of(pages)), page).view(np.int64)
        home = page == 0
        directory = np.where(home, _NO_DIRECTORY, self.web.directory(pages, page))
        first, second = (np.where(home, _PHRASES, (h >> shift) & (_PHRASES - 1)) for shift in (0, 12))
        return [
            self._directories.take(directory, axis=0), _PHRASE_TABLE.take(first, axis=0),
            _PHRASE_TABLE.take(second, axis=0), *_number(page),
        ]  # fmt: skip

    # Text to numbers

    def pages(self, urls: Ragged) -> U8s:
        """The page of each URL, u8; NOWHERE for text that is no page's URL."""
        parts = [self._pages(urls.slice(a, min(a + CHUNK_ROWS, len(urls)))) for a in range(0, len(urls), CHUNK_ROWS)]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    def hosts(self, names: Ragged) -> U8s:
        """The host of each host name (no scheme, no port), u8; NOWHERE for names of no host."""
        lengths = names.lengths
        text = glyphs.matrix(names)
        sites, numbers = self._host(text, np.zeros(len(names), np.int64), lengths - len(b".test"))
        hosts = self._known(sites, numbers)
        return np.where(
            glyphs.same(self.host_names(np.where(hosts == NOWHERE, np.uint64(0), hosts)), names), hosts, NOWHERE
        )

    def _known(self, sites: I8s, numbers: I8s) -> U8s:
        known = (sites >= 0) & (numbers >= 0)
        hosts = (np.where(known, sites, 0).astype(np.uint64) << np.uint64(32)) | np.where(known, numbers, 0).astype(
            np.uint64
        )
        return np.where(known & self.web.host_exists(hosts), hosts, NOWHERE)

    def _host(self, text: Array, start: Array, end: Array) -> tuple[I8s, I8s]:
        """(site, host number) of the names in columns start to end, `.test` left out; numbers are -1 where there are
        none."""
        name = np.zeros(len(text), np.int64)
        for place in range(NAME_BYTES // 2):
            name = (name << glyphs.SYLLABLE_BITS) | glyphs.syllable(text, end - NAME_BYTES + 2 * place)
        site = self._unshuffled(np.where((name >= 0) & (name < 1 << NAME_BITS), name, 0).astype(np.uint64))
        label = end - NAME_BYTES - start - 1  # bytes before the dot
        www = (label == 3) & (glyphs.at(text, start) == ord("w"))
        number = np.zeros(len(text), np.int64)
        for place in range(LABEL_SYLLABLES):
            more = (label > 2 * place) & ~www
            number = np.where(more, (number << glyphs.SYLLABLE_BITS) | glyphs.syllable(text, start + 2 * place), number)
        return site, number

    def _pages(self, urls: Ragged) -> U8s:
        text = glyphs.matrix(urls)
        lengths = urls.lengths
        start = np.where(glyphs.at(text, np.full(len(urls), 4)) == ord("s"), 8, 7)
        slash = np.where(np.arange(text.shape[1]) >= start[:, None], text == ord("/"), False)
        path = slash.argmax(axis=1)
        sites, numbers = self._host(text, start, path - len(self._end))
        known = (self._known(sites, numbers) != NOWHERE) & slash.any(axis=1)
        sites, numbers = np.where(known, sites, 0), np.where(known, numbers, 0)
        hosts = self.web.host_count(sites)
        page = np.where(lengths == path + 1, 0, glyphs.read_number(text, lengths - 5, 36, 7))
        index = join_index(numbers, page, hosts)
        section = np.zeros(len(urls), np.int64)
        for number, prefix in _TRAP_PATHS.items():
            rows = np.flatnonzero(glyphs.starts(text, path, prefix))
            if len(rows):
                section[rows] = number
                index[rows] = _read_trap(number, text[rows], path[rows] + len(prefix), lengths[rows])
        index = np.where((index >= 0) & (index < 1 << 32), index, 0)
        found = page_number(sites, section, index)
        known &= self.web.exists(found)
        return np.where(known & glyphs.same(self.urls(np.where(known, found, np.uint64(0))), urls), found, NOWHERE)


def _number(page: I8s) -> list[Array]:
    """The end of each path: its number, in base 36, and `.html`."""
    large = np.flatnonzero(page >= _LOW)
    row = np.where(page == 0, 2 * _LOW, page)
    high = np.zeros((len(page), 5 if len(large) else 0), np.uint8)
    if len(large):
        over = page[large] // _LOW
        row[large] -= (over - 1) * _LOW
        high[large] = np.concatenate([glyphs.constant(len(large), b"-"), glyphs.number(over, 36, 4)], axis=1)
    return [high, _number_table().take(row, axis=0)]


def _trap_path(section: int, index: I8s) -> list[Array]:
    n = len(index)
    head = glyphs.constant(n, _TRAP_PATHS[Section(section)])
    if section == Section.CALENDAR:
        return [
            head,
            glyphs.number(index // 12, 10, 10),
            glyphs.constant(n, b"/"),
            glyphs.number(index % 12 + 1, 10, 2),
        ]
    if section == Section.PAGINATION:
        return [
            head,
            glyphs.number(index >> 20, 10, 4),
            glyphs.constant(n, b"?page="),
            glyphs.number(index & 0xFFFFF, 10, 7),
        ]
    if section == Section.SESSION:
        sid = (index * _SID_FACTOR) & 0xFFFFFFFF
        return [head, glyphs.number(index >> 20, 10, 4), glyphs.constant(n, b"?sid="), glyphs.digits(sid, 16, 8)]
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
        return [head, out.reshape(n, 32)]
    if section == Section.HONEYPOT:
        return [head, glyphs.digits(index, 16, 8)]
    out = np.zeros((n, 16, 4), np.uint8)
    for place in range(16):  # the highest two-bit digit, which is 1, is the mark; those below it are segments
        rows = np.flatnonzero(index >> (2 * place) >= 4)
        out[rows, 15 - place] = _SEGMENT_TABLE[(index[rows] >> (2 * place)) & 3]
    return [head, out.reshape(n, 64)]


def _read_trap(section: int, text: Array, at: I8s, end: I8s) -> I8s:
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
