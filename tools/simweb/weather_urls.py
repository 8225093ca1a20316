"""One URL read at a time: what names.Names reads in columns, for callers who have one URL at a moment.

A column of one row takes two milliseconds. Ordinary pages are read here in some microseconds; other URLs are rare and
go the long way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drum.ragged import Ragged

from tools.simweb.paths import DIRECTORIES, WORDS
from tools.simweb.truth import NOWHERE
from tools.simweb.weather_spells import hashed
from tools.simweb.web import Web

_URL = re.compile(rb"(https?)://([^/:?#]+)(?::(\d+))?(/[^#]*)", re.DOTALL)
_PAGE = re.compile(rb"/([a-z-]+)/([a-z]+-[a-z]+)/([a-z]+-[a-z]+)-([1-9a-z][0-9a-z]{0,6})\.html")
_WORD_BITS = len(WORDS).bit_length() - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a URL."""

    secure: bool
    name: bytes
    port: int  # 0: the scheme's own
    path: bytes  # with its query


def parts(url: bytes) -> Asked:
    """Raises ValueError for what is no http URL."""
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(f"{url!r} is no URL of this web")
    return Asked(found[1] == b"https", found[2], int(found[3] or 0), found[4])


@dataclass(frozen=True, slots=True)
class Area:
    """What must be known of a host to read its paths: the numbers of truth.Sites."""

    site: int
    original: int
    number: int  # of the host on its site
    hosts: int  # of the site
    size: int  # pages of the site
    origin: bytes  # scheme://name[:port], canonical


def page_of(web: Web, area: Area, path: bytes) -> int | None:
    """The page's number; None where the host has no such page."""
    if path == b"/":
        return _number(area, 0)
    found = _PAGE.fullmatch(path)
    if found is None:
        other = web.pages(Ragged.from_list([area.origin + path]))[0]
        return None if other == NOWHERE else int(other)
    page = int(found[4], 36)
    words = hashed(web.salt("words"), area.original, page)
    directory = hashed(web.salt("directory"), area.original, page >> 4) & 31
    if found[1] != DIRECTORIES[directory] or found[2] != _phrase(words) or found[3] != _phrase(words >> 12):
        return None
    return _number(area, page)


def _phrase(bits: int) -> bytes:
    return WORDS[bits >> _WORD_BITS & 63] + b"-" + WORDS[bits & 63]


def _number(area: Area, page: int) -> int | None:
    """truth.join_index and page_number of one page."""
    index = page
    if area.hosts > 1:
        index = 2 * page if area.number == 0 else 2 * (page * (area.hosts - 1) + area.number) - 1
    return area.site << 36 | index if index < area.size else None


def page_on_host(area: Area, index: int) -> int:
    """truth.split_index of one page: its number on its host."""
    if area.hosts == 1:
        return index
    return (index >> 1) // (area.hosts - 1) if index & 1 else index >> 1
