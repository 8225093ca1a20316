"""Weights of pages out of their rows, and what rules say of them."""

from __future__ import annotations

from drum import Batch, Ragged

import numpy as np
import pytest

from irlcrawl.base.rows import LINK, Source
from irlcrawl.config.keys import Config, RevisitRule, Site
from irlcrawl.revisit.weight import DAY_S, WEIGHTS, Rules, weight_codes


def test_rules_and_what_the_row_holds_make_weights() -> None:
    config = Config()
    config.revisit_rule = [RevisitRule("/news/", 4.0, 60.0, 3600.0), RevisitRule("a[.]test", None, None, 7200.0)]
    urls = [b"http://a.test/news/1", b"http://a.test/", b"http://b.test/x?y=/", b"http://b.test/x/y"]
    terms = Rules(config).of(Ragged.from_list(urls))
    assert terms.weight.tolist() == [4, 1, 1, 1]
    assert (terms.least * DAY_S).round(6).tolist() == [60, 3600, 3600, 3600]
    assert (terms.most * DAY_S).round(6).tolist() == [3600, 7200, 365 * DAY_S, 365 * DAY_S]
    source = np.array([Source.LINK, Source.SEED, Source.LINK, Source.LINK], "u1")
    of = WEIGHTS[
        weight_codes(
            Batch.zeros(LINK, 4).with_(url=Ragged.from_list(urls), depth=np.array([1, 0, 1, 9], "u2"), source=source)
        )
    ]
    octaves = np.log2(of)
    assert octaves == pytest.approx([-0.7, 3.0, -1.2, -5.6], abs=0.1)


def test_a_site_has_bounds_and_a_weight_that_a_rule_goes_before() -> None:
    config = Config()
    config.site = {
        "a.test": Site(revisit_weight=2.0, revisit_every_min_seconds=60.0, revisit_every_max_seconds=600.0),
        "www.a.test": Site(revisit_every_max_seconds=30.0),
        "c.test": Site(gap_host_seconds=3.0),
    }
    config.revisit_rule = [RevisitRule("/news/", 4.0, 10.0, None)]
    urls = [b"http://a.test/", b"http://b.a.test:8080/x", b"http://www.a.test/x", b"http://c.test/", b"http://xa.test/"]
    news = [b"http://b.a.test/news/1", b"http://c.test/news/1"]
    terms = Rules(config).of(Ragged.from_list(urls + news))
    day, year = DAY_S, 365 * DAY_S
    assert terms.weight.tolist() == [2, 2, 2, 1, 1, 8, 4]
    assert (terms.least * day).round(6).tolist() == [60, 60, 30, 3600, 3600, 10, 10]
    assert (terms.most * day).round(6).tolist() == [600, 600, 30, year, year, 600, year]
