"""Link lists: a page much of which is links to other sites says little for any of them.

A page has links to its own site, to find one's way, and a few to others. Those of link farms, and pages whose comments
are spam, lead to dozens of sites, and one fetch of them would make dozens of sites look linked to. So such a page
raises the reputation of nobody; its links are followed like others. Directories and blogrolls lose their say, too, but
for seeds: those a person chose. A bare list also counts as nothing new of its own site's. Links are counted as often as
they stand on the page, menus included; other sites once each. What real pages have: docs/budgets.md.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

SHARE = 6
"""Of a list at least one link in so many leads to yet another site ..."""
BARE_SHARE = 3
"""... and of a bare one, which is hardly anything else."""

Counts = NDArray[np.int64]


@overload
def is_list(sites: int, links: int, sites_max: int, share: int = SHARE) -> bool: ...
@overload
def is_list(sites: Counts, links: Counts, sites_max: int, share: int = SHARE) -> NDArray[np.bool_]: ...
def is_list(sites: Any, links: Any, sites_max: int, share: int = SHARE) -> Any:
    """Whether a page with so many `links` to so many other `sites` is a list: a bool, or bool[n]. sites_max: with no
    more sites than these it never is one; 0: no page is."""
    return (sites > sites_max) & (share * sites > links) & (sites_max > 0)
