"""All that the pages of a crawl share, and the names of a URL's site and host. Apart from process.py, because those who
only name URLs need not load what reads pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from irlcrawl.base.names import Names
from irlcrawl.config import plugins
from irlcrawl.config.keys import Config
from irlcrawl.web.preference import weigher
from irlcrawl.web.robots import product_token
from irlcrawl.web.scope import Scope
from irlcrawl.web.spelling import Spelling

if TYPE_CHECKING:
    from irlcrawl.worker.harvest.plugged import Plugged, Renaming


class Context:
    """All that the pages of a crawl share. `scope` may grow while it is used. `again`: the units are read again, from
    the archive."""

    def __init__(self, config: Config, seed: int, scope: Scope, again: bool = False) -> None:
        self.again = again
        self.config = config
        self.seed = seed
        self.scope = scope
        self.everywhere = Scope(config.scope, config.site, [b"any"])
        """What limits and patterns let through, wherever it is."""
        self.of_lists = Scope(replace(config.scope, include=[]), config.site, [b"any"])
        """Which sitemaps are read: they may lie outside of what is crawled, at another host of their site, and, as far
        as a robots.txt itself names them, of another site; what they list does not."""
        self.plugged: Plugged | None = None
        """The plug-ins that are called for pages; None if none is named."""
        self.spelling: Spelling | Renaming = Spelling(config.urls, config.site, config.url_rule)
        if plugins.named(config.plugins):
            from irlcrawl.worker.harvest.plugged import Plugged, Renaming

            self.plugged = Plugged(config)
            if self.plugged.renames:
                self.spelling = Renaming(self.spelling, self.plugged)
        self.weight_of = weigher(config.priority)
        """The weight that the operator's rules give a URL; None if there are none."""
        self.product_token = product_token(config.crawl.user_agent)
        self.keys = Names(seed, config.scope.private_suffixes)
        self.site_of = self.keys.site_of
        self.names, self.names_of = self.keys.of, self.keys.of_origin
        self.url_key = self.keys.url_key
