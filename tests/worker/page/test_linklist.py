"""Which pages are lists of links: the simulator's columns, and the numbers a harvest has, against the definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench._sim.fetch import link_lists
from irlcrawl.worker.page.linklist import is_list
from tools.simweb.truth import page_number

PAGE = st.tuples(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=30))


@given(pages=st.lists(PAGE, max_size=5), sites_max=st.integers(0, 5))
def test_a_list_leads_to_many_other_sites_and_to_little_else(
    pages: list[tuple[int, list[tuple[int, int]]]], sites_max: int
) -> None:
    want: list[bool] = []
    bare: list[bool] = []
    for own, links in pages:
        others = len({site for site, _ in links} - {own})
        want.append(sites_max > 0 and others > sites_max and others / max(1, len(links)) > 1 / 6)
        assert is_list(others, len(links), sites_max) == want[-1]
        bare.append(sites_max > 0 and others > sites_max and others / max(1, len(links)) > 1 / 3)
    source = np.array([row for row, (_, links) in enumerate(pages) for _ in links], np.int64)
    to = np.array([link for _, links in pages for link in links], np.int64).reshape(-1, 2)
    numbers = page_number(np.array([own for own, _ in pages], np.int64), 0, np.zeros(len(pages), np.int64))
    got = link_lists(numbers, source, page_number(to[:, 0], 0, to[:, 1]), sites_max)
    assert [lists.tolist() for lists in got] == [want, bare]
