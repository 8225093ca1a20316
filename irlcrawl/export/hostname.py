"""What a host's name says, in the columns of cc-index: its parts, and its domain under the Public Suffix List."""

from __future__ import annotations

import re
from functools import lru_cache

from irlcrawl.base.url import SiteOf
from irlcrawl.export.table import Row

PARTS = 5
HOSTS_CACHED = 1 << 16

_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+")
_registered, _private = SiteOf(names_max=1), SiteOf(private_suffixes=True, names_max=1)


@lru_cache(maxsize=HOSTS_CACHED)
def host_columns(host: str) -> Row:
    """The columns table.HOST of a host's name. An address has no parts, suffixes and domains; a public suffix is a
    suffix and has no domain."""
    if ":" in host or _IPV4.fullmatch(host):
        return (host, *[None] * (PARTS + 4), host)
    name = host.rstrip(".")
    labels = name.split(".")
    last = [labels[-n] if n <= len(labels) else None for n in range(1, PARTS + 1)]
    return (host, *last, *_domain(_registered, name), *_domain(_private, name), reversed_name(name))


def reversed_name(name: str) -> str:
    """`www.example.com` as `com.example.www`; an address stays as it is."""
    return name if ":" in name or _IPV4.fullmatch(name) else ".".join(reversed(name.split(".")))


def _domain(site_of: SiteOf, name: str) -> tuple[str, str | None]:
    """(suffix, registrable domain) of a name. SiteOf calls a suffix a site of its own; but a name below one is not
    part of it."""
    site = site_of(name)
    _, dot, suffix = site.partition(".")
    return (suffix, site) if dot and site_of(f"x.{site}") == site else (site, None)
