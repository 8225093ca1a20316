"""The 64-bit keys of URLs, sites, hosts and pairs of sites, and what else a URL's text alone decides: its host, whether
it is a home page, its priority.

Where more than one kind of key is near, a key's name says of what it is: url_key, site_key, host_key. A host is an
origin, `scheme://host[:port]`; a site is a registrable domain (base/url.py: SiteOf).

Keys go by site: the top SITE_BITS of the key of a URL, a host or a pair of sites are those of its site's key (a pair's:
of the site that is linked to), so that in each drum what belongs to a range of sites is a range of keys. The other bits
are a hash of the thing itself. Where spread counts (filters, caches, parts of a file), take a key's last bits, which
are uniform however few the sites are.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

import xxhash

from irlcrawl.base.rows import Source

SITE_BITS = 12
"""Of each key, at the top: its site's."""
_SITE_MASK = (1 << SITE_BITS) - 1 << 64 - SITE_BITS

PRIORITY_LEVEL_SHIFT = 3
"""A priority is a byte: in the high bits the level, of which each goes before the next; in the low ones how far a link
of that kind is trusted."""
PRIORITY_TRUST = (1 << PRIORITY_LEVEL_SHIFT) - 1
"""The low bits."""
PRIORITY_LAST = 255
"""No priority goes later."""
PRIORITY_HOME_MAX = 6
"""Seeds and home pages have priorities up to this one."""
PRIORITY_AGED = 7
"""Of a URL that has waited very long: after seeds and home pages, before all others."""
WEIGHT_MAX = 10
"""Of an operator's rule: a URL counts as at most so many links nearer to a seed, or farther from it."""
PRIORITY_RAISED_MAX = (WEIGHT_MAX + 1 << PRIORITY_LEVEL_SHIFT) - 1
"""Above the priority of every link, unless a rule or long waiting raised it."""
_LEVEL_MAX = (PRIORITY_LAST >> PRIORITY_LEVEL_SHIFT) - 1
DEPTH_SEPARATE_MAX = _LEVEL_MAX - WEIGHT_MAX
"""Depths beyond this one go as one."""
_TRUST = {
    Source.SEED: 0, Source.SITEMAP: 0, Source.LINK: 2, Source.REDIRECT: 3, Source.CANONICAL: 4, Source.FRAME: 5,
    Source.SCRIPT: 6, Source.REQUISITE: 0,
}  # fmt: skip
_TRUST_NAVIGATION = 1
"""Of a link on a host's home page to its own site."""

STAND_IN = "100::"
"""How the stand-in for the address of a host begins that a proxy resolves: the prefix that leads nowhere (RFC 6666)."""


def stand_in(name: str) -> str:
    """The stand-in for the address of a host whose proxy resolves its name: one for each name, so that no two hosts
    share a clock of addresses for it."""
    digits = f"{name_key(name.encode()) | 1 << 63:016x}"
    return str(ip_address(f"100::{digits[:4]}:{digits[4:8]}:{digits[8:12]}:{digits[12:]}"))


def is_stand_in(address: str) -> bool:
    return address.startswith(STAND_IN)


def priority_of(depth: int, source: int, home: bool = False, weight: int = 0, navigation: bool = False) -> int:
    """The priority byte, 0..255: smaller goes first. Seeds and what they redirect to come before all else, then depth
    by depth, and in a depth what a person would click before what a machine infers. A host's home page is as a seed,
    however far from one: more links lead there than to any other page. `weight` is of an operator's rule
    (web/preference.py): as if the URL were so many links nearer to a seed; a seed can only fall behind. `navigation`:
    of a LINK, a home page has it, to its own site."""
    level = max(-weight, 0) if home or not depth else max(WEIGHT_MAX + depth - weight, 1)
    trust = _TRUST_NAVIGATION if navigation and source == Source.LINK else _TRUST[Source(source)]
    return min(level, _LEVEL_MAX) << PRIORITY_LEVEL_SHIFT | trust


def priority_behind(priority: int) -> int:
    """Of what a page with this priority needs: it goes right after the page, before links of the page's depth."""
    return priority >> PRIORITY_LEVEL_SHIFT << PRIORITY_LEVEL_SHIFT | _TRUST[Source.REQUISITE]


def level_of(priority: int) -> int:
    """The level of a priority byte."""
    return priority >> PRIORITY_LEVEL_SHIFT


def is_home(url: bytes) -> bool:
    """Whether a canonical URL is its host's home page: nothing follows the first slash."""
    return url.endswith(b"/") and url.count(b"/") == 3


def url_key(url: bytes, seed: int, site: int) -> int:
    """64-bit key of a canonical URL of that site (its key). Seeded per crawl: xxh3 is not proof against an adversary
    who knows the seed."""
    return site & _SITE_MASK | xxhash.xxh3_64_intdigest(url, seed) >> SITE_BITS


def url_keys(urls: Iterable[bytes], seed: int, sites: Iterable[int]) -> list[int]:
    """url_key of each URL, urls[i] being of sites[i]: for many, without a call for each."""
    digest, mask, bits = xxhash.xxh3_64_intdigest, _SITE_MASK, SITE_BITS
    return [site & mask | digest(url, seed) >> bits for url, site in zip(urls, sites, strict=True)]


def name_key(name: bytes) -> int:
    """64-bit key of a site, host name or address. Unseeded: the same in every crawl, shown by tools."""
    return xxhash.xxh3_64_intdigest(name)


def host_key(origin: bytes, site: int) -> int:
    """64-bit key of a host (an origin) of that site (its key). Unseeded, as name_key."""
    return site & _SITE_MASK | xxhash.xxh3_64_intdigest(origin) >> SITE_BITS


def is_host(key: int, origin: bytes) -> bool:
    """Whether this host_key is the origin's: by its own bits, for those who do not know its site."""
    return key & ~_SITE_MASK == xxhash.xxh3_64_intdigest(origin) >> SITE_BITS


def pair_key(site_from: int, site_to: int) -> int:
    """Key of a directed pair of sites."""
    pair = site_from.to_bytes(8, "little") + site_to.to_bytes(8, "little")
    return site_to & _SITE_MASK | xxhash.xxh3_64_intdigest(pair) >> SITE_BITS


def origin_of(url: bytes) -> bytes:
    """`scheme://host[:port]` of a canonical URL: the authority of RFC 9309, and what this project calls a host."""
    end = url.find(b"/", url.index(b"//") + 2)
    return url if end < 0 else url[:end]
