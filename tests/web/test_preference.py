"""The operator's rules of order: the first that matches a URL decides."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.config.keys import ConfigError, Priority
from irlcrawl.web.preference import weigher

PATTERNS = ["/news/", r"\.pdf$", "^https://de", r"\?", "", "é"]
URLS = [b"http://a.test/news/x.pdf", b"https://de.test/", b"http://a.test/?q=1", b"http://a.test/plain"]


@given(st.lists(st.tuples(st.sampled_from(PATTERNS), st.integers(-10, 10)), min_size=1, max_size=5))
def test_the_first_rule_that_matches_decides(rules: list[tuple[str, int]]) -> None:
    weight_of = weigher([Priority(*rule) for rule in rules])
    assert weight_of is not None
    for url in URLS:
        hits = (weight for pattern, weight in rules if re.search(pattern, url.decode()))
        assert weight_of(url) == next(hits, 0)


def test_no_rules_cost_nothing() -> None:
    assert weigher([]) is None


def test_a_wrong_pattern_is_named_with_its_rule() -> None:
    with pytest.raises(ConfigError, match=r"priority 2: '\(' is not an RE2 pattern"):
        weigher([Priority("a", 1), Priority("(", 1)])
