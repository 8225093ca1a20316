"""The calendar, as which the rests are kept, too, against a list: nothing before its time, everything after, once, over
any reopening. And overrides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from drum import Batch, Catalog, Edits, Files, Ragged, SegmentPool, SegmentWriter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.keys import name_key
from irlcrawl.base.rows import BYTES, LINK
from irlcrawl.config.keys import Site
from irlcrawl.config.overrides import Overrides
from irlcrawl.frontier.state.calendar import SECOND_MAX, Calendar
from irlcrawl.frontier.state.clock_set import CLOCK_SET


@dataclass
class Desk:
    path: Path
    files: Files = field(default_factory=Files)
    commits: int = 0

    def __post_init__(self) -> None:
        self.catalog = Catalog.open(self.path, self.files)
        self.pool = SegmentPool(self.files, str(self.path), 16)
        self.calendar = Calendar(self.catalog, self.pool, "rests")

    def reopen(self) -> None:
        self.pool.close()
        self.catalog.close()
        self.__post_init__()

    def turn(self, dues: list[float], first: int, now: float, rows_max: int) -> list[int]:
        """One commit that puts rows away (their keys count from `first`) and takes what is due."""
        edits = Edits()
        self.commits += 1
        with SegmentWriter(self.files, self.path / f"turn-{self.commits}.seg") as writer:
            keys = np.arange(first, first + len(dues))
            columns = {name: keys.astype("<" + kind) for name, kind in LINK.items() if kind != BYTES}
            rows = Batch.zeros(LINK, len(keys)).with_(
                **columns, url=Ragged.from_list([b"u%d" % key for key in keys.tolist()])
            )
            self.calendar.add(lambda: writer, edits, rows, np.array(dues, np.float64))
            taken = list(self.calendar.due(edits, now, rows_max))
            self.calendar.tidy(lambda: writer, edits)
        self.catalog.commit(edits)
        assert all(list(batch.columns) == list(LINK) for batch in taken)
        return [key for batch in taken for key in batch["key"].tolist()]


def _columns(batch: Batch, *names: str) -> list[list[float]]:
    return [batch[name].tolist() for name in names]


due = st.one_of(st.integers(0, 960).map(lambda n: n / 16), st.just(math.inf))
reopening = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 3600.0, -3600.0, -1e9, 1e9]))
"""None: it goes on; else by how much the system's clock was set forward meanwhile."""


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(due, max_size=5), st.integers(0, 16), st.sampled_from([1, 3, 1000]), reopening), max_size=14
    )
)
def test_nothing_before_its_time_and_everything_after_it(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[list[float], int, int, float | None]]
) -> None:
    """Times of the test are those of a clock that nobody sets."""
    desk = Desk(tmp_path_factory.mktemp("calendar"))
    waiting: dict[int, float] = {}
    number, now, clock_set = 0, 0.0, 0.0
    for dues, halves, rows_max, step in [*turns, ([], 200, 1000, 0.0)]:
        now += halves / 2
        waiting.update(enumerate(dues, number))
        taken = desk.turn([at + clock_set for at in dues], number, now + clock_set, rows_max)
        number += len(dues)
        came = [waiting.pop(key) for key in taken]  # KeyError: it came twice
        assert all(at <= now for at in came)
        left = sorted(math.ceil(at) for at in waiting.values() if at < SECOND_MAX and math.ceil(at) <= now)
        assert not left or len(taken) >= rows_max, "what is due comes, unless there is too much of it"
        assert not (left and came) or math.ceil(max(came)) < left[0], "earliest seconds first, each whole"
        if step is not None:
            clock_set += step
            edits = Edits()
            edits.set(CLOCK_SET, [(0, clock_set)])
            desk.catalog.commit(edits)
            desk.reopen()
        assert desk.calendar.rows == len(waiting)
        first = min((math.ceil(min(at, SECOND_MAX)) for at in waiting.values()), default=None)
        assert desk.calendar.next_due() == (None if first is None else first + clock_set)
        told = {key: at for batch in desk.calendar.scan() for key, at in zip(*_columns(batch, "key", "due"))}
        assert told == {key: math.ceil(min(at, SECOND_MAX)) + clock_set for key, at in waiting.items()}
    assert set(waiting.values()) <= {math.inf}


# -- overrides ---------------------------------------------------------------------------------------------------------

label = st.sampled_from(["a", "b", "www", "test", "co"])
name = st.lists(label, min_size=1, max_size=4).map(".".join)


site = st.builds(Site, block=st.none() | st.booleans(), gap_host_seconds=st.none() | st.floats(0, 9))


@given(st.dictionaries(name, site, max_size=4), st.lists(name, max_size=8), st.sampled_from(["", "."]))
def test_of_each_key_the_nearest_name_above_that_sets_it_holds(
    sites: dict[str, Site], names: list[str], dot: str
) -> None:
    """[site."www.a.test"] with a depth took the gap from it that [site."a.test"] gives: the audit called it broken. And
    a name with a dot at its end was another name, which nobody had blocked."""
    overrides = Overrides(sites)
    for asked in [*names, *names]:  # the second time out of the cache
        above = [sites[site] for site in sorted(sites, key=len, reverse=True) if f".{asked}".endswith(f".{site}")]
        gaps = [one.gap_host_seconds for one in above if one.gap_host_seconds is not None]
        blocks = [one.block for one in above if one.block is not None]
        assert overrides.gap_host(asked + dot) == next(iter(gaps), None)
        assert overrides.blocked(asked + dot) == next(iter(blocks), False)


def test_what_is_not_set_is_none() -> None:
    overrides = Overrides({"a.test": Site(gap_host_seconds=3.0), "b.test": Site(pages_max=0)})
    assert (overrides.gap_host("www.a.test"), overrides.gap_host("b.test"), overrides.gap_host("test")) == (
        3,
        None,
        None,
    )
    assert overrides.pages_max_by_site() == {name_key(b"b.test"): 0}


def test_an_ipv6_address_lies_under_no_name() -> None:
    overrides = Overrides({"2.3.4": Site(gap_host_seconds=3.0), "::ffff:1.2.3.4": Site(block=True)})
    assert (overrides.gap_host("::ffff:1.2.3.4"), overrides.blocked("::ffff:1.2.3.4")) == (None, True)
