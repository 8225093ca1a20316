"""Link lists: pages that mostly link to other sites. They raise the reputation of no site.

An ordinary page has links to its own site, for finding one's way, and a few to others. Pages of link farms, and pages
whose comments are spam, lead to dozens of sites, so that one fetch of them would make dozens of sites look linked to.
So such a page raises the reputation of no site; its links are followed like others. Directories and blogrolls lose
their say as well, except seeds, which a person chose. A bare list also brings its own site no yield. Links are counted
as often as they stand on the page, menus included; other sites once each. Measured on real pages: docs/budgets.md.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

SHARE = 6
"""A page is a list only if at least one link in this many leads to yet another site."""
BARE_SHARE = 3
"""A list is bare, hardly more than its links, if at least one link in this many leads to yet another site."""

Counts = NDArray[np.int64]


@overload
def is_list(sites: int, links: int, sites_max: int, share: int = SHARE) -> bool: ...
@overload
def is_list(sites: Counts, links: Counts, sites_max: int, share: int = SHARE) -> NDArray[np.bool_]: ...
def is_list(sites: Any, links: Any, sites_max: int, share: int = SHARE) -> Any:
    """Whether a page with `links` links to `sites` other sites is a list: a bool, or bool[n]. sites_max: a page with no
    more sites than this is none; 0: no page is one."""
    return (sites > sites_max) & (share * sites > links) & (sites_max > 0)
