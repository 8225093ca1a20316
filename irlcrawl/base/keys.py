"""The 64-bit keys of URLs, sites, hosts and pairs of sites, and what else a URL's text alone decides: its host, whether
it is a home page, its priority.

Of what a key is, its name says where more than one kind is near: url_key, site_key, host_key. A host is an origin,
`scheme://host[:port]`; a site is a registrable domain (base/url.py: SiteOf).
"""

from __future__ import annotations

import xxhash

from irlcrawl.base.rows import Source

PRIORITY_DEPTH_MAX = 127
PRIORITY_LAST = 255
"""No priority goes later."""


def priority_of(depth: int, source: int, home: bool = False) -> int:
    """The priority byte: depth first, then what a person would click before what a machine infers. 0..255. A host's
    home page has that of a seed, however far from one: more links lead there than to any other page."""
    return (0 if home else min(depth, PRIORITY_DEPTH_MAX)) * 2 + (Source.CANONICAL <= source <= Source.SCRIPT)


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
