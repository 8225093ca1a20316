"""Which URLs belong to the crawl: how far links are followed from the seeds, and which URLs are left out.

Each seed (and each seed's redirect) adds an *entry*, a few bytes that name the host, site or prefix it opens: `host
example.com[:8080]`, `site example.com`, `prefix example.com/docs/`, or `any`. Entries are committed and sent to
workers. They have no scheme: http and https of a name are one web. A million entries cost 8 bytes of key each and their
text once; a link costs a few dictionary look-ups.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache

import re2

from irlcrawl.base import pattern
from irlcrawl.base.keys import name_key
from irlcrawl.base.url import HOSTS_CACHED, SiteOf, host_of
from irlcrawl.config import keys as config
from irlcrawl.config.overrides import Overrides

_ENTRY = re.compile(rb"any|(?:host|site) [^\s/]+|prefix [^\s/]+/(?:\S*/)?").fullmatch

RECENT_MAX = 4096
"""Entries kept in a set before they are sorted into the array."""


class KeySet:
    """A growing set of 64-bit keys in 8 bytes each: a sorted array, and a small set of keys that came since it was
    sorted."""

    def __init__(self) -> None:
        self._sorted = array("Q")
        self._recent: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def __contains__(self, key: int) -> bool:
        at = bisect_left(self._sorted, key)
        return (at < len(self._sorted) and self._sorted[at] == key) or key in self._recent

    def add(self, keys: Iterable[int]) -> list[bool]:
        """Add `keys`; returns for each whether it was new."""
        new = []
        for key in keys:
            new.append(key not in self)
            if new[-1]:
                self._recent.add(key)
        if len(self._recent) > RECENT_MAX + len(self._sorted) // 8:
            self._sorted = array("Q", sorted([*self._sorted, *self._recent]))
            self._recent = set()
        return new


class Scope:
    """The scope of a crawl. `site_overrides` is the configuration's `[site."x"]`; `entries` are committed entries.

    Raises config.ConfigError when a pattern is no RE2 expression.
    """

    def __init__(
        self,
        params: config.Scope,
        site_overrides: Mapping[str, config.Site] | None = None,
        entries: Iterable[bytes] = (),
        site_of: SiteOf | None = None,
    ) -> None:
        self._params = params
        overrides = site_overrides or {}
        self._overrides = Overrides(overrides)
        self._depths = any(site.depth_max is not None for site in overrides.values())  # some site has its own
        self._include = finder("scope.include", params.include)
        self._exclude = finder("scope.exclude", params.exclude)
        self._site_of = site_of or SiteOf(params.private_suffixes)
        self._keys = KeySet()
        self._text = bytearray()
        self._any = params.kind == "any"
        self._guarded_from = min(params.path_segments_max, params.path_repeats_max)
        self._slashes = 0  # in the longest prefix entry
        self._opened = lru_cache(maxsize=HOSTS_CACHED)(self._host_opened)
        self._depth_of = lru_cache(maxsize=HOSTS_CACHED)(self._host_depth)
        self.add(entries)

    @property
    def version(self) -> int:
        """The number of distinct entries: it only grows."""
        return len(self._keys)

    def entries(self) -> list[bytes]:
        """Every entry, in order of arrival."""
        return bytes(self._text).split(b"\n")[:-1]

    def entries_of_seed(self, url: bytes, spelled: bytes) -> list[bytes]:
        """The entries that a seed (stored form) adds under the configured kind: its own, and that of its spelling
        (spelling.py), in which links lead to it and to what is beside it; no prefix above its own, as that of a
        directory without its slash is."""
        own, other = self._entry_of(url), self._entry_of(spelled)
        return [own] if other == own or other.count(b"/") < own.count(b"/") else [own, other]

    def _entry_of(self, url: bytes) -> bytes:
        kind = self._params.kind
        if kind == "site":
            return b"site " + self._site_of(host_of(url)).encode("ascii")
        authority, path = _authority_path(url)
        if kind == "host":
            return b"host " + authority
        if kind == "prefix":
            return b"prefix " + authority + path[: path.rindex(b"/") + 1]
        return b"any"

    def add(self, entries: Iterable[bytes]) -> int:
        """Adds entries; returns how many were new."""
        entries = list(entries)
        for entry in entries:
            if not _ENTRY(entry):
                raise ValueError(f"not a scope entry: {entry!r}")
        new = [e for e, is_new in zip(entries, self._keys.add(map(name_key, entries)), strict=True) if is_new]
        for entry in new:
            kind, _, name = entry.partition(b" ")
            self._any = self._any or kind == b"any"
            if kind == b"prefix":
                self._slashes = max(self._slashes, name.count(b"/"))
            self._text += entry + b"\n"
        if new:
            self._opened.cache_clear()
        return len(new)

    def has_host(self, url: bytes) -> bool:
        """Whether the host of a URL (stored form) is in scope, all of it or what is under some prefix."""
        scheme, _, rest = url.partition(b"://")
        authority = rest.partition(b"/")[0]
        return (
            self._any
            or self._opened(scheme + b"://" + authority)
            or (bool(self._slashes) and b"prefix " + authority + b"/" in self._text)
        )

    def contains(self, url: bytes, depth: int = 0, hop: int = 0) -> bool:
        """Whether a URL (stored form), `depth` links from a seed and `hop` redirects from a link, is in scope."""
        return self.why_not(url, depth, hop) is None

    def why_not(self, url: bytes, depth: int = 0, hop: int = 0) -> str | None:
        """The configuration key that leaves the URL out, or None when it is in scope."""
        params = self._params
        if len(url) > params.url_bytes_max:
            return "scope.url_bytes_max"
        if hop > params.hops_max:
            return "scope.hops_max"
        start = url.index(b"//") + 2
        slash = url.index(b"/", start)
        authority = url[start:slash]
        if url.count(b"/", slash) > self._guarded_from and (guard := self._path_guard(url, slash)):
            return guard
        if depth > (self._depth_of(authority) if self._depths else params.depth_max):
            return "scope.depth_max"
        if not (self._any or self._opened(url[:start] + authority) or (self._slashes and self._under_prefix(url))):
            return "scope.kind"
        if self._include is not None and not self._include.search(url):
            return "scope.include"
        if self._exclude is not None and self._exclude.search(url):
            return "scope.exclude"
        return None

    def _path_guard(self, url: bytes, slash: int) -> str | None:
        """The key that leaves a path out which only a trap has: too many directories, or the same ones again and again,
        as on a site whose pages link to themselves relatively."""
        params = self._params
        query = url.find(b"?", slash)
        segments = url[slash + 1 : len(url) if query < 0 else query].split(b"/")[:-1]
        if len(segments) > params.path_segments_max:
            return "scope.path_segments_max"
        most = params.path_repeats_max
        if len(segments) >= len(set(segments)) + most and repeats(segments) > most:
            return "scope.path_repeats_max"
        return None

    def _host_opened(self, origin: bytes) -> bool:
        url = origin + b"/"
        if name_key(b"host " + _authority_path(url)[0]) in self._keys:
            return True
        return name_key(b"site " + self._site_of(host_of(url)).encode("ascii")) in self._keys

    def _under_prefix(self, url: bytes) -> bool:
        authority, path = _authority_path(url)
        at = -1
        for _ in range(self._slashes):  # no entry is deeper: hostile paths cost no more than the seeds' own
            at = path.find(b"/", at + 1)
            if at < 0:
                return False
            if name_key(b"prefix " + authority + path[: at + 1]) in self._keys:
                return True
        return False

    def _host_depth(self, authority: bytes) -> int:
        """The depth limit of a host."""
        own = self._overrides.of(host_of(b"//" + authority + b"/")).depth_max
        return self._params.depth_max if own is None else own


def repeats(segments: list[bytes]) -> int:
    """How many times in a row a group of segments comes at most; 1 if none comes twice. Quadratic in their number."""
    most = 1
    for size in range(1, len(segments) // 2 + 1):
        same = 0  # segments in a row that are as the one `size` before
        for before, segment in zip(segments, segments[size:], strict=False):
            same = same + 1 if segment == before else 0
            most = max(most, same // size + 1)
    return most


def _authority_path(url: bytes) -> tuple[bytes, bytes]:
    """Host and port (the scheme's own port is never written in stored form) and the path without query."""
    start = url.index(b"//") + 2
    slash = url.index(b"/", start)
    query = url.find(b"?", slash)
    return url[start:slash], url[slash:] if query < 0 else url[slash:query]


def finder(key: str, patterns: list[str]) -> re2._Regexp[bytes] | None:
    """One linear-time expression that finds any of `patterns` anywhere in a URL; None if there are no patterns."""
    for one in patterns:
        try:
            pattern.compiled(one)
        except ValueError as error:
            raise config.ConfigError(f"{key}: {one!r} is not an RE2 expression: {error}") from error
    return pattern.compiled(pattern.any_of(patterns)) if patterns else None
