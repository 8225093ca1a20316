"""A page's row after a visit, and until when it rests.

    304, or equal bytes, or the same text    its interval passed without a change
    changed                                  its interval had a change at least
    404, 410                                 nothing is learnt; it is asked again after a day, then as its belief says,
                                             and is gone when it still says so GONE_S after the first time
    other errors, no response, a refusal     nothing is learnt; it is asked again after its interval, a day at least

A rest ends in one of two ways. It is *wished* for a time that the price gave: with room to spare the page is taken
earlier. Or it is *shut*: no visit comes earlier, because of a bound (`every_min`, the chance that the page changed at
all, a failure, a host that was put off).
"""

from __future__ import annotations

from dataclasses import dataclass

from drum import Batch

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.rows import Change, PageFlag
from irlcrawl.revisit.beliefs import F8, U1, Belief, belief_of, codes_of, draws, observed
from irlcrawl.revisit.hubs import days_to_overflow, learnt_links, link_chance_after, link_worths
from irlcrawl.revisit.price import chance_after, due_after, worth
from irlcrawl.revisit.signals import RIGHT, unannounced
from irlcrawl.revisit.weight import DAY_S, WEIGHTS, Terms, weight_codes

GONE_S = 7 * DAY_S
FAILED_DAYS = (1.0, 30.0)
"""After a failure a page rests as long as after a visit, but within these bounds."""
DENIED_DAYS = 30.0
"""After robots.txt forbade it."""
_HALVINGS = 30
LOOK_INTERVALS, LOOK_DAYS_MIN = 8.0, 1.0
"""A page that is never worth its visit at today's price is looked at again after so many of its mean intervals, at
least so many days, then after twice as long each time: not visited, unless the price sank. Without that, pages that
starve at a crawl's first price did so for a year, whatever the price became."""
DEAR = 2.0
"""A page that is due rests on if at today's price it would rest so many times as long as it did."""
NOTHING, NONE, CHANGE = range(3)
"""What a visit teaches of changes."""
_SAME = [Change.NOT_MODIFIED, Change.SAME, Change.NEAR]
_FOUND = ("stored", "digest", "content", "modified", "validators", "hub")
_OURS = np.uint8(PageFlag.DENIED | PageFlag.GONE_ONCE | PageFlag.SIGNALLED | PageFlag.NOW)
_CALLED = np.uint8(PageFlag.SIGNALLED | PageFlag.NOW)


@dataclass(frozen=True, slots=True)
class Resting:
    """Pages (LINK and PAGE) that rest until `due` (unix seconds, f8 a row); those that are `shut` not a second less."""

    rows: Batch
    due: F8
    shut: NDArray[np.bool_]
    found: NDArray[np.uint8] | None = None  # NOTHING, NONE or CHANGE; None: they come from no visit
    held: NDArray[np.bool_] | None = None  # no signal calls them, for their last visit failed; None: no such page


@dataclass(frozen=True, slots=True)
class Looked:
    """Of pages that came back from their rest, a row each: may it be visited; if not, until when does it rest (unix
    seconds), and is it shut."""

    go: NDArray[np.bool_]
    due: F8
    shut: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Learnt:
    """What visits came to: pages that rest again, those that are `gone`, and how much shape and exposure (days) each
    row of the visits added to its belief."""

    resting: Resting
    gone: NDArray[np.bool_]  # of the rows given
    shape: F8
    days: F8


def beliefs(rows: Batch) -> Belief:
    """Of rows with PAGE."""
    return belief_of(rows["rate_a"], rows["rate_b"], rows["prior"])


def weights(rows: Batch, terms: Terms) -> F8:
    """Of rows with PAGE, rules taken in."""
    both: F8 = WEIGHTS[rows["weight"]] * terms.weight
    return both


def silent(rows: Batch) -> Belief:
    """Of rows with PAGE, the belief of changes of which no signal tells."""
    return unannounced(beliefs(rows), rows["told"])


def worth_now(rows: Batch, terms: Terms, now: float) -> F8:
    """What a visit is worth now to each of rows with PAGE; weighted page-days. One that is due to a signal is worth the
    time that its copy may last then; one that the operator asked for has no bound."""
    belief, weight = silent(rows), weights(rows, terms)
    days = np.maximum(now - rows["visited"], 0.0) / DAY_S
    found = worth(belief, weight, days) + link_worths(rows) * terms.weight * days**2 / 2
    flags = rows["flags"]
    if (flags & _CALLED).any():
        own = beliefs(rows)
        found = np.where(flags & PageFlag.SIGNALLED, np.maximum(found, RIGHT * weight * own.b / own.a), found)
        found = np.where(flags & PageFlag.NOW, np.inf, found)
    return found


def wished_after(rows: Batch, terms: Terms, price: F8 | float) -> F8:
    """Days after the last visit at which the next one is worth the price, for freshness and for new links together; a
    list of links is visited before it overflows."""
    belief, weight, links = silent(rows), weights(rows, terms), link_worths(rows) * terms.weight
    days = due_after(belief, weight, price, terms.most)
    hubs = np.flatnonzero(links > 0)
    if len(hubs):
        price = np.broadcast_to(np.asarray(price, np.float64), days.shape)[hubs]
        some = Belief(belief.a[hubs], belief.b[hubs])
        days[hubs] = _both_after(some, weight[hubs], links[hubs], price, days[hubs])
        days[hubs] = np.minimum(days[hubs], days_to_overflow(rows.take(hubs)))
    return days


def _both_after(belief: Belief, weight: F8, links: F8, price: F8, most: F8) -> F8:
    """Where V(T) + links T^2 / 2 meets the price, no later than `most`: both grow with T, so bisection finds it."""
    high = np.minimum(most, np.sqrt(2 * price / links))
    low = np.zeros(len(high))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        over = worth(belief, weight, middle) + links * middle**2 / 2 > price
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return high


def intervals(rows: Batch, terms: Terms, price: F8 | float, chance: float) -> tuple[F8, F8]:
    """(days until a visit is worth the price, least days until any visit) after the last one, of rows with PAGE."""
    least = np.maximum(terms.least, np.minimum(chance_after(silent(rows), chance), link_chance_after(rows, chance)))
    return wished_after(rows, terms, price), np.minimum(least, terms.most)


def looked_at(rows: Batch, due: F8, terms: Terms, price: F8 | float, chance: float, now: float) -> Looked:
    """Pages (LINK and PAGE) that come back from their rest at unix second `now`, some before their `due`: which may be
    visited, and until when the others rest.

    One that came before its due rests on if a bound forbids a visit. One that is due, though the price is far above
    what a visit is worth (it rose meanwhile, or the page never was worth it, and this is the look after a while whether
    the price sank), rests on, too: at most for as long again as since its last visit."""
    wished, least = intervals(rows, terms, price, chance)
    since = np.maximum(now - rows["visited"], 0.0) / DAY_S
    soon = since < least
    due_now = (due <= now) & (rows["attempt"] == 0) & (rows["flags"] & _OURS == 0)
    dear = due_now & (since < terms.most) & (wished > DEAR * since)
    rest = np.where(soon, least, np.minimum(wished, 2 * since))
    go = ~(soon & (due > now)) & ~dear
    return Looked(go, rows["visited"] + rest * DAY_S, soon)


def after_visits(rows: Batch, visits: Batch, terms: Terms, prior: U1, price: float, chance: float) -> Learnt:
    """Pages after a visit with a response each. rows: LINK and PAGE as leased (PAGE zero: never visited before);
    visits: VISIT, a row for each; prior: codes of rates for those never visited."""
    change, at = visits["change"], visits["at"]
    first, none, some = rows["visits"] == 0, np.isin(change, _SAME), change == Change.YES
    gone, answered = change == Change.GONE, change != Change.ERROR
    days = np.where(first, 0.0, np.maximum(at - rows["visited"], 0.0) / DAY_S)
    rows = rows.with_(
        attempt=np.zeros(rows.rows, np.uint8),
        visits=np.where(rows["visits"] == 65_535, 1, rows["visits"] + 1).astype(np.uint16),  # 0: never
        prior=np.where(first, prior, rows["prior"]),
        weight=np.where(first, weight_codes(rows), rows["weight"]),
    )
    before = beliefs(rows)
    learns = (none | some) & ~first
    announced = some & (rows["flags"] & PageFlag.SIGNALLED != 0)
    after = observed(before, days, some)
    after = Belief(np.where(announced, before.a + 1, after.a), np.where(announced, before.b + days, after.b))
    counted = learns & (rows["hub"].lengths > 0)
    links = learnt_links(rows, days, visits["new_links"], counted)
    codes = codes_of(after, rows["prior"], *draws(rows["key"], rows["visits"]))
    vanished = gone & (rows["flags"] & PageFlag.GONE_ONCE == 0)
    over = gone & ~vanished & (at >= rows["changed"].astype(np.float64) + GONE_S)
    flags = (visits["flags"] & ~_OURS) | np.where(gone, np.uint8(PageFlag.GONE_ONCE), np.uint8(0))
    seconds = at.astype(np.uint32)
    rows = rows.with_(
        rate_a=np.where(learns, codes[0], rows["rate_a"]),
        rate_b=np.where(learns, codes[1], rows["rate_b"]),
        visited=np.where(answered, seconds, rows["visited"]),
        changed=np.where((some & ~first) | vanished, seconds, rows["changed"]),
        flags=np.where(answered, flags, rows["flags"]).astype(np.uint8),
        links_a=links[0],
        links_b=links[1],
        **{name: visits[name] for name in _FOUND},
    )
    wished, least = intervals(rows, terms, price, chance)
    wished = np.where(vanished, 1.0, wished)
    shut = (least >= wished) | vanished | ~answered
    belief = beliefs(rows)
    look = np.maximum(LOOK_INTERVALS * belief.b / belief.a, LOOK_DAYS_MIN)
    starves = (wished >= terms.most) & ~vanished
    rest = np.where(vanished, 1.0, np.maximum(np.where(starves, np.minimum(look, terms.most), wished), least))
    rest = np.where(answered, rest, np.clip(rest, *FAILED_DAYS))
    left = ~over
    found = np.where(learns & some, CHANGE, np.where(learns, NONE, NOTHING)).astype(np.uint8)
    held = (vanished | ~answered)[left]
    resting = Resting(rows.filter(left), (at + rest * DAY_S)[left], shut[left], found[left], held)
    return Learnt(resting, over, np.where(learns, after.a - before.a, 0.0), np.where(learns, after.b - before.b, 0.0))


def after_failures(
    rows: Batch, denied: NDArray[np.bool_], terms: Terms, price: float, chance: float, now: float
) -> Resting:
    """Pages (LINK and PAGE, visited before) of which a visit came to nothing, or was forbidden by robots.txt."""
    wished, least = intervals(rows, terms, price, chance)
    days = np.where(denied, DENIED_DAYS, np.clip(np.maximum(wished, least), *FAILED_DAYS))
    flags = rows["flags"] | np.where(denied, np.uint8(PageFlag.DENIED), np.uint8(0))
    rows = rows.with_(attempt=np.zeros(rows.rows, np.uint8), flags=flags.astype(np.uint8))
    every = np.ones(rows.rows, np.bool_)
    return Resting(rows, now + days * DAY_S, every, held=every)
