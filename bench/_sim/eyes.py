"""Whose eyes tell a simulated crawl that it met a page's content before: the crawler's, or an oracle's.

The crawler's are the fingerprint of the page as it is served (irlcrawl/worker/page/fingerprint.py), remembered by the
worker that fetches the page's host, in a table as large as a worker's. To make every page's bytes would take most of a
run; `seen` gives the same in columns: numbers that are equal where these fingerprints are
(tests/tools/test_sim_eyes.py). An oracle's memory is that of all workers together, and sixteen times as large.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irlcrawl.worker.harvest.builder import CACHE_BITS, RecentKeys
from tools.simweb.answers import content
from tools.simweb.mix import U8s, mix
from tools.simweb.web import Web

REAL, ORACLE = "real", "oracle"
EYES = (REAL, ORACLE)
WORKERS = 4
"""Processes that fetch; each knows what it met itself."""
ORACLE_BITS = 22


def seen(web: Web, pages: U8s, when: float) -> U8s:
    """What the crawler sees of pages that answer 200: u8[n], equal for two of them where the fingerprints of their
    bodies are. The web writes its pages' texts by this number."""
    return content(web, pages, when)


class Eyes:
    """Which pages bring something new."""

    def __init__(self, web: Web, whose: str) -> None:
        self._web = web
        self._many, bits = (WORKERS, CACHE_BITS) if whose == REAL else (1, ORACLE_BITS)
        self._known = [RecentKeys(bits) for _ in range(self._many)]

    def novel(self, pages: U8s, when: float) -> NDArray[np.bool_]:
        """Of pages that answered 200, in order: bool[n], False for those whose content is known."""
        found, novel = seen(self._web, pages, when), np.zeros(len(pages), np.bool_)
        worker = mix(self._web.salt("worker"), self._web.host(pages)) % np.uint64(self._many)
        for number, known in enumerate(self._known):
            mine = np.flatnonzero(worker == number)
            novel[mine] = known.fresh(found[mine])
        return novel
