"""Lists that are out (irlcrawl/rounds): their URLs come back to the crawl by `update`, or when their date has passed.

A list is a ready segment that is lent (frontier/state/runs.py): its URLs keep their places. So what comes back is
folded as any harvest is, and nothing counts twice, whenever it comes. Called where the catalogue is owned, between
turns.
"""

from __future__ import annotations

from collections.abc import Iterable

from drum import Edits

from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.runs import LISTS


def sites(state: CrawlState) -> set[int]:
    """The sites that are in lists: the crawl asks nothing of them."""
    return {site for lent in state.runs.lent.values() for site in lent.sites}


def over(state: CrawlState, now: float) -> list[int]:
    """The lists (their segments) whose date has passed, `now` in unix seconds."""
    return [segment for segment, lent in state.runs.lent.items() if lent.until <= now - state.clock_set]


def take_back(state: CrawlState, segments: Iterable[int]) -> None:
    """Commit that these lists are out no more."""
    edits = Edits()
    for segment in segments:
        edits.remove(f"{LISTS}{segment}")
        del state.runs.lent[segment]
    if edits:
        state.catalog.commit(edits)
