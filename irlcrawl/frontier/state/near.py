"""Which pages say almost what an earlier page said: the drum `near` of the parts of all sketches
(worker/page/sketch.py).

Harvests bring a row per page (rows.NEAR); their sections wait as they are. When enough of them wait, a *pass* begins:
they become tables in memory (drum/hamming.py), with which all stored parts are compared in one sequential reading,
however many turns it takes. At its end every page of them has its verdict, and their parts are stored. A page is a
near-duplicate if a page before it, by arrival, has a part within three bits: whatever passes there were, and when.

A pass that a stop or a crash ends is begun again; what was committed of it is nothing. `fsck --repair` forgets the
drum: later pages are compared with those after the repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from drum import Batch, Catalog, CheckUpdate, Edits, Holder, Repository, SegmentPool, SegmentWriter
from drum.hamming import Near
from drum.segment import Section

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.rows import PAIR
from irlcrawl.frontier.state.sections import SectionList
from irlcrawl.worker.page.sketch import PARTS

COLUMNS = [f"part{number}" for number in range(PARTS)]
PAGES_MAX = 65_536
"""About how many pages a pass looks for: some 30 MB of tables."""
SHARE = 64
"""A pass begins when the pages that wait are one 64th of those stored, or PAGES_MAX. So it costs a page some 30
microseconds while there are less than four million of them, and from there on more in proportion."""
TURN_PARTS = 2_000_000
"""Parts compared in one turn, some 0.3 CPU-seconds."""

U8 = NDArray[np.uint64]
Proceed = Callable[[], bool]
Judged = Callable[[Batch, Batch, int], None]
"""Takes yields (rows.YIELD) and pairs (rows.PAIR) of pages whose verdict is there, and how many of them are
near-duplicates."""


class NearDuplicates:
    """Reopening is constructing it again on the reopened catalogue."""

    def __init__(self, catalog: Catalog, pool: SegmentPool, ram_bytes: int) -> None:
        self.drum = Repository("near", catalog=catalog, pool=pool, values={}, ram_bytes=ram_bytes)
        self._pool = pool
        self._list = SectionList("near", catalog, pool)
        self._pass: _Pass | None = None

    @property
    def waiting_rows(self) -> int:
        """Pages without a verdict."""
        return sum(self._pool.section(*place).rows for place in self._list.places())

    @property
    def holders(self) -> list[Holder]:
        return [self.drum, self._list]

    def take_in(self, edits: Edits, file: str) -> None:
        """Of a harvest that was named: its rows wait."""
        if self._pool.section(file, "near").rows:
            self._list.take_in(edits, (file, "near"))

    def merge(
        self, writer: Callable[[], SegmentWriter], edits: Edits, judged: Judged, urgent: bool, proceed: Proceed
    ) -> bool:
        """Go on with the pass, or begin one if it is time; urgent: for any page. judged(...) gets the pages of one that
        ends. Whether anything was done."""
        if self._pass is None:
            if not (waiting := self.waiting_rows):
                return False
            if not urgent and waiting < min(PAGES_MAX, self.drum.rows // (PARTS * SHARE)):
                return False
            self._pass = _Pass(self._some())
        if not self._pass.go_on(self.drum, proceed):
            return True
        ended, self._pass = self._pass, None
        self._judge(ended, judged)
        self.drum.pend_batch(Batch({"key": ended.near.keys}), ordered=True)
        self.drum.merge(CheckUpdate(), writer=writer(), edits=edits, emit=lambda *_: None)
        self._list.remove_first(edits, ended.sections)
        return True

    def _some(self) -> list[Section]:
        """The sections of a pass: the first of those that wait, with PAGES_MAX rows or a little more."""
        sections: list[Section] = []
        for place in self._list.first(len(self._list)):
            sections.append(self._pool.section(*place))
            if sum(section.rows for section in sections) >= PAGES_MAX:
                break
        return sections

    def _judge(self, ended: _Pass, judged: Judged) -> None:
        near = ended.verdicts()
        start = 0
        for place in self._list.first(ended.sections):
            for batch in self._pool.section(*place).scan(["site", "open", "pairs"]):
                verdicts = near[start : start + batch.rows]
                start += batch.rows
                waits = batch["open"] > 0
                novel = Batch({"key": batch["site"][waits], "novel": (~verdicts[waits]).astype(np.uint8)})
                if novel.rows:
                    judged(novel, _pairs(batch.filter(waits & ~verdicts)), int(np.count_nonzero(verdicts & waits)))


class _Pass:
    """The pages of some sections on their way past all that is stored."""

    def __init__(self, sections: list[Section]) -> None:
        self.sections = len(sections)
        parts = [np.stack([batch[name] for name in COLUMNS], 1) for one in sections for batch in one.scan(COLUMNS)]
        flat: U8 = np.concatenate(parts).reshape(-1)
        self._page = np.arange(len(flat)) // PARTS
        keys, first, self._which = np.unique(flat, return_index=True, return_inverse=True)
        self.near = Near(keys, self._page[first])
        self.near.meet(keys, self._page[first])
        self._next = 0  # the least key that is to be read

    def verdicts(self) -> NDArray[np.bool_]:
        """By page in order of arrival: whether it is a near-duplicate. A part that an earlier page of them has is
        one."""
        own = self.near.found[self._which] | (self.near.since[self._which] < self._page)
        verdicts: NDArray[np.bool_] = np.logical_or.reduce(own.reshape(-1, PARTS), axis=1)
        return verdicts

    def go_on(self, drum: Repository, proceed: Proceed) -> bool:
        """Compare with the next TURN_PARTS of what is stored, or fewer where proceed() says no; whether that was the
        last of it."""
        done = 0
        for keys in _stored(drum, self._next):
            if done >= TURN_PARTS or (done and not proceed()):
                return False
            self.near.meet(keys)
            done += len(keys)
            self._next = int(keys[-1]) + 1
        return True


def _stored(drum: Repository, least: int) -> Iterator[U8]:
    """Its keys from `least` on, ascending, in bounded pieces."""
    for bucket in drum.buckets:
        if bucket.hi >= least:
            rest = bucket.copy()
            rest.lo = max(bucket.lo, least)
            for batch in drum.scan(rest):
                yield batch["key"]


def _pairs(rows: Batch) -> Batch:
    """The pairs of pages (NEAR) that are no near-duplicates, as PAIR."""
    packed = rows["pairs"].tolist()
    both = np.frombuffer(b"".join(packed), "<u8").reshape(-1, 2)
    source = np.repeat(rows["site"], [len(pairs) // 16 for pairs in packed])
    return Batch(dict(zip(PAIR, (both[:, 0].copy(), both[:, 1].copy(), source), strict=True)))
