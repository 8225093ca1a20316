"""What all pages of a crawl share, and what names a URL's site and host. Apart from process.py, because those who only
name URLs need not load what reads pages."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from irlcrawl.base.keys import name_key, origin_of
from irlcrawl.base.url import HOSTS_CACHED, SiteOf, host_of
from irlcrawl.config import plugins
from irlcrawl.config.keys import Config
from irlcrawl.web.preference import weigher
from irlcrawl.web.robots import product_token
from irlcrawl.web.scope import Scope
from irlcrawl.web.spelling import Spelling

if TYPE_CHECKING:
    from irlcrawl.worker.harvest.plugged import Plugged, Renaming


class Context:
    """What all pages of a crawl share. `scope` may grow while it is used. `again`: the units are read again, from the
    archive."""

    def __init__(self, config: Config, seed: int, scope: Scope, again: bool = False) -> None:
        self.again = again
        self.config = config
        self.seed = seed
        self.scope = scope
        self.everywhere = Scope(config.scope, config.site, [b"any"])
        """What limits and patterns let through, wherever it is."""
        self.plugged: Plugged | None = None
        """The plug-ins that are called for pages; None if none is named."""
        self.spelling: Spelling | Renaming = Spelling(config.urls, config.site)
        if plugins.named(config.plugins):
            from irlcrawl.worker.harvest.plugged import Plugged, Renaming

            self.plugged = Plugged(config)
            if self.plugged.renames:
                self.spelling = Renaming(self.spelling, self.plugged)
        self.weight_of = weigher(config.priority)
        """The weight that the operator's rules give a URL; None if there are none."""
        self.product_token = product_token(config.crawl.user_agent)
        self.site_of = SiteOf(config.scope.private_suffixes)
        self.names_of = lru_cache(maxsize=HOSTS_CACHED)(self._names_of)
        """names() by the URL's origin."""

    def names(self, url: bytes) -> tuple[int, int]:
        """(site key, host key) of a canonical URL; both depend on its origin alone, which is mostly a known one."""
        return self.names_of(origin_of(url))

    def _names_of(self, origin: bytes) -> tuple[int, int]:
        return name_key(self.site_of(host_of(origin + b"/")).encode("ascii")), name_key(origin)
