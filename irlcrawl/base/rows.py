"""The shapes that cross process and disk boundaries: one place for every column name, enumeration and key function.

A URL on its way through the frontier is a row of `LINK`; what became of it is a row of `OUTCOME`; what a worker learnt
about a host is a row of `FACT`. Worker, frontier and replay all use these, so a field is added here or nowhere.
"""

from __future__ import annotations

from enum import IntEnum

import xxhash

BYTES = "bytes"
"""The dtype name of a ragged column (drum.ragged.Ragged)."""

LINK = {
    "key": "u8",  # url_key(url, seed)
    "site": "u8",  # name_key(registrable domain)
    "host": "u8",  # name_key(origin), see origin_of
    "depth": "u2",  # links from the nearest seed
    "hop": "u1",  # redirects since the last link
    "source": "u1",  # Source
    "priority": "u1",  # smaller goes first: priority_of
    "attempt": "u1",  # requests already made for this URL
    "url": BYTES,  # canonical, ASCII, no fragment
}
"""A URL waiting somewhere. Harvest sections `links` and, with `due` (f8, unix seconds) added, `retries`."""

PAIR = {"key": "u8", "site": "u8", "from": "u8"}
"""A link between two different sites: key = pair_key(from, to), site = the key of the site linked to, from = of the
other."""

YIELD = {"key": "u8", "novel": "u1"}
"""What a fetch brought its site: key = the site's; novel 1: a successful page with content not met before."""

OUTCOME = {
    "segment": "u4",  # the ready segment leased from; NO_SEGMENT for a fetch no URL stands behind (robots.txt)
    "row": "u4",  # its row there
    "key": "u8",
    "host": "u8",
    "cls": "u1",  # Class
    "reason": "u1",  # Reason
    "status": "i2",  # HTTP status or the negative code of conventions (crawl.log)
    "bytes": "u4",  # of the record on the wire: header and body as received
    "line": BYTES,  # its finished crawl.log line, without newline
}
NO_SEGMENT = 0xFFFFFFFF

FACT = {
    "host": "u8",
    "at": "f8",  # unix seconds; the later fact wins
    "robots": "u1",  # Robots
    "robots_until": "f8",  # unix seconds
    "rules_log": "u4",  # number of the robots log that holds the text
    "rules_offset": "u8",
    "rules_length": "u4",  # 0: no text
    "crawl_delay": "f4",  # seconds; 0 none
    "failed": "u1",  # 1: a visit that ended without any response; 0: a response came
}

SCOPE_ENTRY = {"entry": BYTES}


class Source(IntEnum):
    """Where a URL was found."""

    SEED = 0
    REDIRECT = 1
    LINK = 2
    CANONICAL = 3
    FRAME = 4
    SCRIPT = 5


DISCOVERY_LETTER = {
    Source.SEED: "-", Source.REDIRECT: "R", Source.LINK: "L",
    Source.CANONICAL: "C", Source.FRAME: "E", Source.SCRIPT: "X",
}  # fmt: skip


class Class(IntEnum):
    """The ledger class of an outcome (invariant I1)."""

    FETCHED = 0  # any HTTP response
    FAILED = 1
    EXCLUDED = 2
    RETRY = 3  # not done: the row is in `retries` too
    NONE = 4  # outside the ledger: robots.txt


class Reason(IntEnum):
    """Why an outcome is what it is; the lower-case name is what people see."""

    OK = 0
    HTTP_ERROR = 1  # a response >= 400
    REDIRECT = 2
    TRUNCATED = 3  # body over its byte bound: kept as far as it came
    DNS = 10
    CONNECT = 11
    TLS = 12
    TIMEOUT = 13
    LOST = 14  # connection closed before the response was whole
    PROTOCOL = 15  # not HTTP
    ADDRESS = 16  # resolves only to addresses the configuration does not allow
    HOST_DEAD = 17
    THROTTLED = 18  # 429 or 503
    ROBOTS = 20
    ROBOTS_UNREACHABLE = 21  # RFC 9309 2.3.1.4: complete disallow
    QUOTA_HOST = 22
    QUOTA_SITE = 23
    BLOCKED = 24
    FRONTIER_FULL = 26  # given up to keep the frontier within frontier.bytes_max


def class_of(reason: Reason) -> Class:
    """The ledger class of a URL that leaves without a request."""
    return Class.EXCLUDED if reason >= Reason.ROBOTS else Class.FAILED


CRAWL_LOG_STATUS = {
    Reason.DNS: -1, Reason.CONNECT: -2, Reason.TLS: -2, Reason.LOST: -3, Reason.TIMEOUT: -4, Reason.PROTOCOL: -5,
    Reason.ADDRESS: -7, Reason.HOST_DEAD: -8, Reason.ROBOTS: -9998, Reason.ROBOTS_UNREACHABLE: -61,
    Reason.QUOTA_HOST: -5003, Reason.QUOTA_SITE: -5003, Reason.BLOCKED: -5001, Reason.FRONTIER_FULL: -5003,
}  # fmt: skip
"""Heritrix's negative fetch status for outcomes without a response."""


class Robots(IntEnum):
    """State of a host's robots.txt (RFC 9309 section 2.3.1)."""

    UNKNOWN = 0  # never asked, or expired
    RULES = 1  # 2xx: the text is in the robots log
    ALLOW = 2  # 4xx except 429: no restrictions
    DENY = 3  # 5xx, 429, network error, too many redirects past the grace: complete disallow, for a short time


PRIORITY_DEPTH_MAX = 127


def priority_of(depth: int, source: int, home: bool = False) -> int:
    """The priority byte: depth first, then what a person would click before what a machine infers. 0..255. A host's
    home page has that of a seed, however far from one: more links lead there than to any other page."""
    return (0 if home else min(depth, PRIORITY_DEPTH_MAX)) * 2 + (source >= Source.CANONICAL)


def is_home(url: bytes) -> bool:
    """Whether a canonical URL is its host's home page: nothing follows the first slash."""
    return url.endswith(b"/") and url.count(b"/") == 3


def url_key(url: bytes, seed: int) -> int:
    """64-bit key of a canonical URL. Seeded per crawl: xxh3 is not proof against an adversary who knows the seed."""
    return xxhash.xxh3_64_intdigest(url, seed)


def name_key(name: bytes) -> int:
    """64-bit key of a site, origin, host name or address. Unseeded: the same in every crawl, shown by tools."""
    return xxhash.xxh3_64_intdigest(name)


def pair_key(site_from: int, site_to: int) -> int:
    """Key of a directed pair of sites."""
    return xxhash.xxh3_64_intdigest(site_from.to_bytes(8, "little") + site_to.to_bytes(8, "little"))


def origin_of(url: bytes) -> bytes:
    """`scheme://host[:port]` of a canonical URL: the authority of RFC 9309, and what this project calls a host."""
    end = url.find(b"/", url.index(b"//") + 2)
    return url if end < 0 else url[:end]
