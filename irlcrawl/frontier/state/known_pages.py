"""The drum `pages`: what is known of each page that is visited again, by its key, for whatever names a page by its URL:
sitemaps and feeds that say when it changed, and the operator who wants it visited now.

A page's row rests in a queue by its due second (calendar.py), where nothing finds it by key. So each time that a row is
put to rest, or is taken out, a few bytes of it become pending here (OP_KNOWN). A signal that is believed (OP_SIGNAL),
or an order (OP_NOW), meets them in the next pass: if the page rests, and its visit is worth the price, it is *called*:
the signal's own row goes on, with what the drum knows of the page, and the row in the queue is left behind, as dead.

A URL that was fetched before pages were visited again (OP_EARLIER) is taken in as a page if the drum never knew it.

What the drum does not have, a visit that was called does without: it asks for the whole page, and compares its text
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from drum import Batch, Ragged, Repository, Result

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.rows import LINK, PAGE, PageFlag
from irlcrawl.revisit.beliefs import LEVELS, PRIOR_SHAPE, RATES
from irlcrawl.revisit.hubs import link_codes, link_rate_codes
from irlcrawl.revisit.visited import CHANGE, NOTHING
from irlcrawl.revisit.weight import weight_codes

KNOWN = {
    "due": "u4",  # its second in the queue, at rest; 0: its row is not there, but on its way to a visit
    "visited": "u4",
    "visits": "u2",
    "rate_a": "u1",
    "rate_b": "u1",
    "links": "u1",  # rate of new links, as a code; 0: it is no hub
    "marks": "u1",  # SHUT, ALWAYS, SIGNALLED, HELD
    "content": "u8",
}
"""What is stored: 22 bytes a page. The columns that rows.PAGE has, too, are as there."""
SHUT, ALWAYS, SIGNALLED, HELD = 1, 2, 4, 8
"""It rests shut; it differs at each fetch; a signal came after its last visit; no signal calls it."""
PENDING = {"key": "u8", **KNOWN, "host": "u8", "found": "u1"}
"""As rows wait. found: what the visit taught (visited.py). A row that was taken out of its rest
has `visits` 0, and no other column but its key."""
WANTED = {"after": "u4", "factor": "f4", "told": "u1", "prior": "u1", "least": "u4"}
"""Beside LINK, of a signal: the unix second at which the page changed; its importance times the chance that the signal
is right; the codes of its host (rows.PAGE); the least seconds between two visits. Of an earlier fetch `after` is the
unix second of it, and all else 0."""
OP_KNOWN, OP_SIGNAL, OP_NOW, OP_EARLIER = range(4)


class KnownPage(NamedTuple):
    """What the drum says of a page: the label with which its row rests (0: it is on its way to a visit, or gone), in
    `shut` or in `wished`, and what waits to be looked at beside it."""

    label: int
    shut: bool
    ordered: bool
    signalled: bool


def known_page(drum: Repository, key: int) -> KnownPage | None:
    """As a pass of the drum would find it now; None for what never was a page."""
    found, values = drum.lookup(np.array([key], np.uint64))
    known, label, marks = bool(found[0]) and bool(values["visits"][0]), int(values["due"][0]), int(values["marks"][0])
    waiting = {OP_NOW: False, OP_SIGNAL: False}
    for op, rows in drum.waiting_of(key):
        if op != OP_KNOWN:
            if op in waiting:
                waiting[op] = True
            continue
        label = int(rows["due"][-1])
        for row in np.flatnonzero(rows["visits"] > 0).tolist():
            known, marks = True, int(rows["marks"][row])
    return KnownPage(label, bool(marks & SHUT), waiting[OP_NOW], waiting[OP_SIGNAL]) if known else None


class EverKnown:
    """Which keys the drum knows as pages, or knew. 8 bytes for each row that waits."""

    def __init__(self, drum: Repository) -> None:
        self._drum = drum
        waiting = [rows["key"][rows["visits"] > 0] for rows in drum.waiting(OP_KNOWN)]
        self._waiting = np.unique(np.concatenate([np.empty(0, np.uint64), *waiting]))

    def __call__(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        found, values = self._drum.lookup(keys)
        known: NDArray[np.bool_] = (found & (values["visits"] > 0)) | np.isin(keys, self._waiting)
        return known


class KnownKernel:
    """Brings what is stored up to date, then calls pages (shapes: drum.kernels.Kernel).

    Emitted: of OP_KNOWN the first row of a page that was visited after a signal (`scored`), and whether the signal was
    `right`; of OP_SIGNAL and OP_NOW the first of a page that is called, with KNOWN's columns and where its row was; of
    OP_EARLIER the first of what never was a page (`earlier`).
    """

    def __init__(self, known: bool, wanted: bool, price: float, prior: float, now: float) -> None:
        """known, wanted: such rows are pending. prior: rate a day of pages of which the host tells none. now: unix
        seconds."""
        self._known, self._wanted, self._price, self._prior, self._now = known, wanted, price, prior, now
        names = [*(name for name in KNOWN if known), *(["found"] if known else []), *(WANTED if wanted else [])]
        self.columns: Sequence[str] = names

    def __call__(self, found: NDArray[np.bool_], stored: Batch, items: Batch, starts: NDArray[np.int64]) -> Result:
        groups = len(starts) - 1
        group, op = np.repeat(np.arange(groups), np.diff(starts)), items["op"]
        values = {name: stored[name].copy() for name in KNOWN}
        write = np.zeros(groups, np.bool_)
        scored, right = np.zeros(items.rows, np.bool_), np.zeros(items.rows, np.bool_)
        if self._known:
            rows = np.flatnonzero(op == OP_KNOWN)
            scored[rows], right[rows] = self._learn(values, items.take(rows), group[rows])
            write[group[rows]] = True
        called, earlier = np.zeros(items.rows, np.bool_), np.zeros(items.rows, np.bool_)
        if self._wanted:
            rows = np.flatnonzero((op == OP_SIGNAL) | (op == OP_NOW))
            called[rows] = self._call(values, items.take(rows), group[rows], op[rows] == OP_NOW, write)
            rows = np.flatnonzero((op == OP_EARLIER) & (values["visits"][group] == 0))
            earlier[rows[np.unique(group[rows], return_index=True)[1]]] = True
        columns = {f"page_{name}": values[name][group] for name in KNOWN}
        columns |= {"scored": scored, "right": right, "earlier": earlier}
        values["due"][group[called]] = 0
        return Result(values=Batch(values), write=write, emit=scored | called | earlier, columns=columns)

    def _learn(
        self, values: dict[str, NDArray[Any]], items: Batch, group: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The last row says where a page is, the last that is not of one taken out what is known of it. Returns (rows
        that a signal is judged by, whether it was right)."""
        values["due"][group] = items["due"]  # numpy keeps the last assignment of a repeated index
        visited = np.flatnonzero(items["found"] != NOTHING)
        pages, first = np.unique(group[visited], return_index=True)
        told = (values["marks"][pages] & SIGNALLED) != 0
        scored, right = np.zeros(items.rows, np.bool_), np.zeros(items.rows, np.bool_)
        scored[visited[first[told]]] = True
        right[:] = scored & (items["found"] == CHANGE)
        resting = np.flatnonzero(items["visits"] > 0)
        kept = np.zeros(len(values["marks"]), np.uint8)
        kept[:] = values["marks"] & SIGNALLED
        kept[pages] = 0
        for name in KNOWN:
            if name != "due":
                values[name][group[resting]] = items[name][resting]
        values["marks"] = (values["marks"] & ~np.uint8(SIGNALLED)) | kept
        return scored, right

    def _call(
        self, values: dict[str, NDArray[Any]], items: Batch, group: NDArray[np.int64], now: NDArray[np.bool_],
        write: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Which rows call their pages: one of each, an order before any signal. A signal that came after the last visit
        is noted even where it is not worth a visit, or its host is not believed (told 0): it is judged by the next."""
        of = {name: values[name][group] for name in KNOWN}
        known = of["visits"] > 0
        late = known & (items["after"] > of["visited"]) & ~now
        values["marks"][group[late]] |= SIGNALLED
        write[group[late]] = True
        prior = np.where(items["prior"] > 0, RATES[items["prior"]], self._prior)
        days = (PRIOR_SHAPE / prior + LEVELS[of["rate_b"]]) / (PRIOR_SHAPE + LEVELS[of["rate_a"]])
        worth = items["factor"] * days
        rested = of["visited"] + items["least"].astype(np.float64) <= self._now
        wanted = late & (items["told"] > 0) & (worth >= self._price) & rested & (of["marks"] & HELD == 0)
        wanted = (wanted | (now & known)) & (of["due"] > 0)
        called = np.zeros(items.rows, np.bool_)
        order = np.flatnonzero(wanted)
        order = order[np.argsort(~now[order], kind="stable")]
        called[order[np.unique(group[order], return_index=True)[1]]] = True
        write[group[called]] = True
        return called


def pending_of(
    rows: Batch, labels: NDArray[np.uint32], shut: bool, found: NDArray[np.uint8] | None,
    held: NDArray[np.bool_] | None,
) -> Batch:  # fmt: skip
    """PENDING rows of pages (LINK and PAGE) that are put to rest."""
    marks = np.where(rows["flags"] & PageFlag.ALWAYS, ALWAYS, 0) | (SHUT if shut else 0)
    marks = marks if held is None else np.where(held, marks | HELD, marks)
    own = {name: rows[name] for name in ("key", "visited", "visits", "rate_a", "rate_b", "content", "host")}
    return Batch({
        **own, "due": labels, "marks": marks.astype(np.uint8), "links": link_rate_codes(rows),
        "found": np.zeros(rows.rows, np.uint8) if found is None else found,
    }).select(PENDING)  # fmt: skip


def taken_out(keys: NDArray[np.uint64]) -> Batch:
    """PENDING rows of pages that were taken out of their rest."""
    return Batch.zeros(PENDING, len(keys)).with_(key=keys)


def earlier_rows(rows: Batch, prior: int) -> Batch:
    """LINK and PAGE rows of emitted earlier fetches: nothing is known of them but when they were. prior: code of the
    rate of pages of which nothing is known."""
    blank, count = Batch.zeros(PAGE, rows.rows), rows.rows
    return rows.select(LINK).with_(**{
        **blank.columns, "visits": np.ones(count, np.uint16), "visited": rows["after"], "weight": weight_codes(rows),
        "prior": np.full(count, prior, np.uint8),
    })  # fmt: skip


def called_rows(rows: Batch) -> Batch:
    """LINK and PAGE rows of emitted signals and orders: of what the drum does not know nothing is said."""
    blank = Batch.zeros(PAGE, rows.rows)
    flag = np.where(rows["after"] > 0, np.uint8(PageFlag.SIGNALLED), np.uint8(PageFlag.NOW))  # an order names no date
    always = np.where(rows["page_marks"] & ALWAYS, PageFlag.ALWAYS, 0)
    links_a, links_b = link_codes(rows["page_links"])
    known = {name: rows[f"page_{name}"] for name in ("visits", "visited", "rate_a", "rate_b", "content")}
    empty = Ragged.from_list([b""] * rows.rows)
    return rows.select(LINK).with_(**{
        **blank.columns, **known, "links_a": links_a, "links_b": links_b,
        "weight": weight_codes(rows), "told": rows["told"], "prior": rows["prior"],
        "flags": (always | flag).astype(np.uint8),
        "validators": empty, "hub": empty,
    })  # fmt: skip
