"""The calendar against a list: nothing before its time, everything after, once, over any reopening. And overrides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drum import Batch, Catalog, Edits, Files, Ragged, SegmentPool, SegmentWriter
from irlcrawl.config import Site
from irlcrawl.frontier.calendar import SECOND_MAX, Calendar
from irlcrawl.frontier.overrides import Overrides
from irlcrawl.rows import LINK, name_key


@dataclass
class Desk:
    path: Path
    files: Files = field(default_factory=Files)
    commits: int = 0

    def __post_init__(self) -> None:
        self.catalog = Catalog.open(self.path, self.files)
        self.pool = SegmentPool(self.files, str(self.path), 16)
        self.calendar = Calendar(self.catalog, self.pool)

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
            columns = {name: keys.astype("<" + kind) for name, kind in LINK.items() if kind != "bytes"}
            rows = Batch({**columns, "url": Ragged.from_list([b"u%d" % key for key in keys.tolist()])})
            self.calendar.add(lambda: writer, edits, rows, np.array(dues, np.float64))
            taken = list(self.calendar.due(edits, now, rows_max))
            self.calendar.tidy(lambda: writer, edits)
        self.catalog.commit(edits)
        assert all(list(batch.columns) == list(LINK) for batch in taken)
        return [key for batch in taken for key in batch["key"].tolist()]


due = st.one_of(st.floats(0, 60), st.integers(0, 60).map(float), st.just(math.inf))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(due, max_size=5), st.floats(0, 8), st.sampled_from([1, 3, 1000]), st.booleans()), max_size=14
    )
)
def test_nothing_before_its_time_and_everything_after_it(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[list[float], float, int, bool]]
) -> None:
    desk = Desk(tmp_path_factory.mktemp("calendar"))
    waiting: dict[int, float] = {}
    number, now = 0, 0.0
    for dues, passed, rows_max, reopen in [*turns, ([], 100.0, 1000, True)]:
        now += passed
        waiting.update(enumerate(dues, number))
        taken = desk.turn(dues, number, now, rows_max)
        number += len(dues)
        came = [waiting.pop(key) for key in taken]  # KeyError: it came twice
        assert all(at <= now for at in came)
        left = sorted(math.ceil(at) for at in waiting.values() if at < SECOND_MAX and math.ceil(at) <= now)
        assert not left or len(taken) >= rows_max, "what is due comes, unless there is too much of it"
        assert not (left and came) or math.ceil(max(came)) < left[0], "earliest seconds first, each whole"
        if reopen:
            desk.reopen()
        assert desk.calendar.rows == len(waiting)
        first = min((math.ceil(min(at, SECOND_MAX)) for at in waiting.values()), default=None)
        assert desk.calendar.next_due() == first
    assert sorted(key for batch in desk.calendar.scan() for key in batch["key"].tolist()) == sorted(waiting)
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
