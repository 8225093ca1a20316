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

from drum.ragged import Ragged

import numpy as np

from tools.simweb import glyphs
from tools.simweb.mix import Array, Bools, I8s, U8s, mix
from tools.simweb.paths import TRAP_PATHS, read_trap
from tools.simweb.truth import NOWHERE, Sites, join_index, page_number, site_of
from tools.simweb.writing import Writer

CHUNK_ROWS = 32_768
NAME_BITS, NAME_BYTES = 28, 10

_SCHEME_TABLE = glyphs.table([b"http://", b"https://"])
_LABEL_TABLE = glyphs.table([b"", b"www.".ljust(glyphs.LABEL_BYTES, b"\0")])


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
        self._writer = Writer(web)

    # The numbers of sites, shuffled so that a name says nothing about its site

    def shuffled(self, sites: I8s) -> U8s:
        """Another number below 2^NAME_BITS for each site."""
        x = sites.astype(np.uint64) ^ self._flip
        for factor in self._factors:
            x = (x * np.uint64(factor)) & self._mask
            x ^= x >> np.uint64(NAME_BITS // 2)
        return x

    def unshuffled(self, x: U8s) -> I8s:
        """The inverse of `shuffled`."""
        for inverse in reversed(self._inverses):
            x = x ^ (x >> np.uint64(NAME_BITS // 2))
            x = (x * np.uint64(inverse)) & self._mask
        return (x ^ self._flip).astype(np.int64)

    def secure(self, sites: I8s) -> Bools:
        """https sites."""
        drawn = mix(self.web.salt("scheme"), sites) & np.uint64(1023)
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

    def urls(self, pages: U8s, place: tuple[I8s, I8s] | None = None, respelt: Array | int = 0) -> Ragged:
        """The canonical URL of each page. place: that of the pages (`Sites.place`), for callers who have it.
        respelt, u1: bits of what is written the other way, 1: http and https, 2: with and without www., on hosts 0
        only."""
        host, page = self.web.place(pages) if place is None else place
        site = site_of(pages)
        prefix = self.secure(site).view(np.uint8) | self._www(site, host).view(np.uint8) << 1
        prefix ^= np.uint8(respelt) if isinstance(respelt, int) else respelt
        names = np.empty(len(site), [("name", f"V{NAME_BYTES}"), ("end", f"V{len(self._end) + 1}")])
        names["name"] = glyphs.words(self._name(site))
        names["end"] = np.void(self._end + b"/")
        return self._writer.urls(pages, (host, page), prefix, names.view(f"V{names.itemsize}"))

    def _origin(self, site: I8s, host: I8s) -> list[Array]:
        scheme = _SCHEME_TABLE.take(self.secure(site).view(np.uint8), axis=0)
        return [scheme, self._label(site, host), self._name(site), glyphs.constant(len(site), self._end)]

    def _name(self, site: I8s) -> Array:
        return glyphs.syllables(self.shuffled(site).astype(np.int64), NAME_BYTES // 2)

    def _www(self, site: I8s, host: I8s) -> Bools:
        return np.asarray((host == 0) & (mix(self.web.salt("www"), site) & np.uint64(1) == 0))

    def _label(self, site: I8s, host: I8s) -> Array:
        """`www.` or nothing for host 0, syllables and a dot for others."""
        out = _LABEL_TABLE.take(self._www(site, host).view(np.uint8), axis=0)
        named = np.flatnonzero(host)
        label, length = glyphs.label(host[named])
        text = label.view(np.uint8).reshape(-1, glyphs.LABEL_BYTES)
        out[named] = np.where(np.arange(glyphs.LABEL_BYTES) < length[:, None], text, 0)
        return out

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
        site = self.unshuffled(np.where((name >= 0) & (name < 1 << NAME_BITS), name, 0).astype(np.uint64))
        label = end - NAME_BYTES - start - 1  # bytes before the dot
        www = (label == 3) & (glyphs.at(text, start) == ord("w"))
        number = np.zeros(len(text), np.int64)
        for place in range(glyphs.LABEL_SYLLABLES):
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
        for number, prefix in TRAP_PATHS.items():
            rows = np.flatnonzero(glyphs.starts(text, path, prefix))
            if len(rows):
                section[rows] = number
                index[rows] = read_trap(number, text[rows], path[rows] + len(prefix), lengths[rows])
        index = np.where((index >= 0) & (index < 1 << 32), index, 0)
        found = page_number(sites, section, index)
        known &= self.web.exists(found)
        return np.where(known & glyphs.same(self.urls(np.where(known, found, np.uint64(0))), urls), found, NOWHERE)
