"""Keys go by site, and are else hashes; the priority of a URL: what goes before what within a site."""

from __future__ import annotations

import itertools

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from bench._sim.fetch import priorities
from budgets.beast import ENTRY_PRIORITY, LEVEL_SHIFT
from irlcrawl.base.keys import (
    DEPTH_SEPARATE_MAX,
    PRIORITY_LAST,
    PRIORITY_LEVEL_SHIFT,
    WEIGHT_MAX,
    host_key,
    is_host,
    level_of,
    name_key,
    pair_key,
    priority_of,
    url_key,
    url_keys,
)
from irlcrawl.base.rows import Source

depths, sources = st.integers(0, 65_535), st.sampled_from(Source)
weights = st.integers(-WEIGHT_MAX, WEIGHT_MAX)
words = st.integers(0, 2**64 - 1)


def by_arithmetic(site: int, own: int) -> int:
    """4,096 ranges of keys, one for each value of the first bits of sites; in its range, a hash of 52 bits."""
    return site // 2**52 * 2**52 + own // 2**12


@given(st.lists(st.tuples(st.binary(max_size=40), words), max_size=5), words, words)
def test_keys_go_by_site_and_are_else_the_hash(urls: list[tuple[bytes, int]], seed: int, other: int) -> None:
    expected = [by_arithmetic(site, xxhash.xxh3_64_intdigest(url, seed)) for url, site in urls]
    assert [url_key(url, seed, site) for url, site in urls] == expected
    assert url_keys([url for url, _ in urls], seed, [site for _, site in urls]) == expected
    for name, site in urls:
        key = host_key(name, site)
        assert key == by_arithmetic(site, xxhash.xxh3_64_intdigest(name))
        assert is_host(key, name) and not is_host(key ^ 1, name)
        pair = other.to_bytes(8, "little") + site.to_bytes(8, "little")
        assert pair_key(other, site) == by_arithmetic(site, xxhash.xxh3_64_intdigest(pair))


def test_keys_of_few_sites_are_all_different_and_their_last_bits_even() -> None:
    """300,000 URLs of 3 sites; 52 bits predict 1e-5 false duplicates."""
    urls = [b"http://a.test/%d" % number for number in range(300_000)]
    keys = np.array(url_keys(urls, 3, [name_key(b"%d" % (number % 3)) for number in range(len(urls))]), np.uint64)
    assert len(np.unique(keys)) == len(keys)
    last = np.bincount((keys & np.uint64(1023)).astype(np.int64), minlength=1024)
    assert 1024 - 5 * 45 < ((last - len(keys) / 1024) ** 2 / (len(keys) / 1024)).sum() < 1024 + 5 * 45  # chi-squared


@given(st.tuples(depths, sources, st.booleans()), st.tuples(depths, sources, st.booleans()))
def test_seeds_and_homes_go_first_then_depth_by_depth_then_by_source(
    one: tuple[int, Source, bool], other: tuple[int, Source, bool]
) -> None:
    def rank(depth: int, source: Source, home: bool) -> tuple[int, int]:
        listed = [Source.LINK, Source.REDIRECT, Source.CANONICAL, Source.FRAME, Source.SCRIPT]
        trust = 0 if source in (Source.SEED, Source.SITEMAP, Source.REQUISITE) else 1 + listed.index(source)
        return (0 if home else min(depth, DEPTH_SEPARATE_MAX)), trust

    mine, theirs = priority_of(*one), priority_of(*other)
    assert (mine < theirs) == (rank(*one) < rank(*other))
    assert 0 <= mine < PRIORITY_LAST
    assert (mine < ENTRY_PRIORITY) == (one[0] == 0 or one[2]), "budgets know entries by it"
    assert LEVEL_SHIFT == PRIORITY_LEVEL_SHIFT, "and levels"


@given(depths, sources, st.booleans(), weights)
def test_a_weight_moves_a_url_by_as_many_levels_as_there_are(
    depth: int, source: Source, home: bool, weight: int
) -> None:
    plain, moved = priority_of(depth, source, home), priority_of(depth, source, home, weight)
    entry = home or depth == 0
    assert moved < PRIORITY_LAST and moved % 8 == plain % 8, "the trust in its source is what it was"
    if entry:
        assert level_of(moved) == max(0, -weight)
    elif depth <= DEPTH_SEPARATE_MAX - WEIGHT_MAX:
        assert level_of(moved) == level_of(plain) - weight
    assert (moved < ENTRY_PRIORITY) == (entry and weight >= 0), "a rule makes no entry of a link"


def test_simulated_workers_give_the_priorities_of_real_ones() -> None:
    rows = list(itertools.product(range(40), Source, (False, True)))
    depth, source, home = (np.array(column) for column in zip(*rows, strict=True))
    got = priorities(depth.astype(np.uint16), source.astype(np.uint8), home.astype(np.bool_))
    assert got.dtype == np.uint8 and got.tolist() == [priority_of(*row) for row in rows]
