"""Hubs: pages that are visited for the new links they bring, in the currency of refresh.

New links arrive at a rate rho, each worth the weight w of the page it leads to from the day it is known (a page that
nobody fetched is a stale one). So a visit after T days is worth, beside its freshness,

    w * rho * T^2 / 2

by which the time between two visits goes with 1 / sqrt(rho): the rule that Sia, Cho and Cho found for feeds. A list of
so many of its latest items loses what is older: it is visited before so many have come, whatever that is worth.

The rate is a Gamma belief, whose shape and exposure are codes in the row (`links_a`, `links_b`). Counts of new links
are seen whole, so a visit adds them to a and its interval to b, exactly; both fade, for what is news changes.
"""

from __future__ import annotations

from drum import Batch

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.rows import PageFlag
from irlcrawl.revisit.beliefs import F8, LEVELS, RATES, U1, coded, draws, rate_code

FADE = 0.9
"""Of what is known of new links, so much is kept at each visit."""
SHAPE, RATE = 0.5, 1.0
"""The belief of a hub of which nothing is known: as much as half a link tells, at a link a day."""
OVERFLOW = 0.5
"""A list is visited before this share of its items is expected to be new."""
LINK_OCTAVES, DEPTH_MAX = -0.7, 8
KNOWN_SHAPE = 4.0
"""How much a rate tells that was kept as a code alone (the drum `pages`)."""
_SALT = np.uint64(0xD1342543DE82EF95)
_HASH_BYTES = 2


def is_hub(rows: Batch) -> NDArray[np.bool_]:
    """Of rows with PAGE: those that remember links, or of which the rate of new links is known."""
    hub: NDArray[np.bool_] = (rows["hub"].lengths > 0) | (rows["links_b"] > 0)
    return hub


def link_rates(rows: Batch) -> F8:
    """New links a day that are expected of each of rows with PAGE; 0 of those that are no hubs."""
    a, b = LEVELS[rows["links_a"]], LEVELS[rows["links_b"]]
    return np.where(is_hub(rows), (SHAPE + a) / (SHAPE / RATE + b), 0.0)


def link_worths(rows: Batch) -> F8:
    """rho * w: what a day of waiting adds each day, of rows with LINK and PAGE. w: of a page one link farther."""
    depth = np.minimum(rows["depth"].astype(np.float64) + 1, DEPTH_MAX)
    worths: F8 = link_rates(rows) * 2.0 ** (LINK_OCTAVES * depth)
    return worths


def link_chance_after(rows: Batch, chance: float) -> F8:
    """Days after which a hub has new links with this chance (0 to below 1); infinite for other pages."""
    rate = link_rates(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, -np.log1p(-chance) / rate, np.inf)


def days_to_overflow(rows: Batch) -> F8:
    """Days in which OVERFLOW of the items of a feed or a sitemap are replaced; infinite for other pages."""
    lists = rows["flags"] & (PageFlag.FEED | PageFlag.SITEMAP) != 0
    items, rate = rows["hub"].lengths / _HASH_BYTES, link_rates(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lists & (items > 0) & (rate > 0), OVERFLOW * items / rate, np.inf)


def learnt_links(rows: Batch, days: F8, new: NDArray[np.uint16], counted: NDArray[np.bool_]) -> tuple[U1, U1]:
    """(links_a, links_b) after visits that came so many days after those before. counted: where new links could be
    told, for the page had been seen with its links. The draw is a hash, as for beliefs."""
    a, b = LEVELS[rows["links_a"]], LEVELS[rows["links_b"]]
    draw_a, draw_b = draws(rows["key"] ^ _SALT, rows["visits"])
    after_a, after_b = coded(FADE * a + new, draw_a), coded(FADE * b + days, draw_b)
    return np.where(counted, after_a, rows["links_a"]), np.where(counted, after_b, rows["links_b"])


def link_rate_codes(rows: Batch) -> U1:
    """A hub's rate in one byte, 1 to 255; 0: no hub."""
    codes = np.maximum(rate_code(link_rates(rows)), 1)
    return np.where(is_hub(rows), codes, 0).astype(np.uint8)


def link_codes(codes: U1) -> tuple[U1, U1]:
    """(links_a, links_b) out of that byte."""
    half, rate = np.full(len(codes), 0.5), RATES[codes]
    a, b = coded(KNOWN_SHAPE + SHAPE * rate / RATE, half), coded((KNOWN_SHAPE + SHAPE) / rate, half)
    return np.where(codes > 0, a, 0).astype(np.uint8), np.where(codes > 0, b, 0).astype(np.uint8)
