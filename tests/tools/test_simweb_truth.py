"""What the simulated web's shortcuts answer is what its definition says, for every kind of page."""

from __future__ import annotations

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tools.simweb.params import Params
from tools.simweb.truth import PerSite, Section, join_index, page_number, split_index
from tools.simweb.web import Web

PINNED = 11434109539618421048
"""Of the web as it was before there was a shortcut: see test_simweb.test_the_definition_does_not_move."""
SMALL = Web(Params(seed=8, pages_nominal=3_000_000))


def pages_of_every_kind(web: Web) -> np.ndarray:
    sites = np.arange(0, web.sites, max(1, web.sites // 3_000))
    pages = page_number(sites, Section.PAGES, (sites * 7_919) % web.size(sites))
    return np.concatenate([pages, web.links(pages).targets[::50]])


def test_a_web_is_the_same_in_every_column_as_when_it_was_defined() -> None:
    told = xxhash.xxh3_64()
    pages = pages_of_every_kind(SMALL)
    for when in (0.0, 0.6):
        links = SMALL.links(pages, when)
        pages = links.targets[::40]
        answers = SMALL.answers(pages, when, attempt=1)
        hosts = SMALL.host(pages)
        urls = SMALL.urls(pages)
        for column in (
            links.offsets, links.targets, *(answers[name] for name in ("status", "location", "content")), hosts,
            SMALL.homes(pages), SMALL.allowed(pages), SMALL.truth(pages, when), SMALL.address(hosts), urls.blob,
            urls.offsets,
        ):  # fmt: skip
            told.update(np.ascontiguousarray(column).tobytes())
        assert (SMALL.pages(urls) == pages).all()
    assert told.intdigest() == PINNED


@given(st.integers(1, 40), st.lists(st.lists(st.integers(0, 39), max_size=30), max_size=8))
def test_what_a_table_says_of_a_site_is_what_arithmetic_does(sites: int, asked: list[list[int]]) -> None:
    def made(some: np.ndarray) -> np.ndarray:
        return np.asarray(1 + some * 123_456_789 % (1 << 32))

    table = PerSite(made, sites)
    for some in asked:
        numbers = np.array(some, np.int64) % sites
        assert table(numbers).tolist() == made(numbers).tolist()


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 5) | st.integers(1, 2**28))))
def test_a_page_of_a_site_is_on_one_host_and_back(rows: list[tuple[int, int]]) -> None:
    index, hosts = np.array(rows, np.int64).reshape(-1, 2).T
    found = []
    for page, count in rows:
        if count == 1:
            found.append((0, page))
        elif page % 2 == 0:
            found.append((0, page // 2))
        else:
            found.append((1 + page // 2 % (count - 1), page // 2 // (count - 1)))
    host, page_there = split_index(index, hosts)
    assert list(zip(host.tolist(), page_there.tolist(), strict=True)) == found
    assert join_index(host, page_there, hosts).tolist() == index.tolist()
