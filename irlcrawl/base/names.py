"""Which site and which host a URL is of, and its key, for all who have a URL's text and a crawl's seed.

A URL's key begins with its site's (keys.py), so making keys needs the rule by which hosts make sites: it is the
configuration's (`scope.private_suffixes`), and fixed for a crawl.
"""

from __future__ import annotations

from functools import lru_cache

from irlcrawl.base.keys import host_key, name_key, origin_of, url_key
from irlcrawl.base.url import HOSTS_CACHED, SiteOf, host_of


class Names:
    """The keys of a crawl's URLs. The last HOSTS_CACHED origins are remembered."""

    def __init__(self, seed: int = 0, private_suffixes: bool = False) -> None:
        self.seed = seed
        self.site_of = SiteOf(private_suffixes)
        self.of_origin = lru_cache(maxsize=HOSTS_CACHED)(self._of_origin)
        """of() by the URL's origin."""

    def of(self, url: bytes) -> tuple[int, int]:
        """(site key, host key) of a canonical URL; both depend on its origin alone, which is mostly a known one."""
        return self.of_origin(origin_of(url))

    def url_key(self, url: bytes) -> int:
        """The key of a canonical URL."""
        return url_key(url, self.seed, self.of_origin(origin_of(url))[0])

    def _of_origin(self, origin: bytes) -> tuple[int, int]:
        site = name_key(self.site_of(host_of(origin + b"/")).encode("ascii"))
        return site, host_key(origin, site)
