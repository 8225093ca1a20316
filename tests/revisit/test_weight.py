"""Weights of pages out of their rows, and what rules say of them."""

from __future__ import annotations

from drum import Batch, Ragged

import numpy as np
import pytest

from irlcrawl.base.rows import LINK, Source
from irlcrawl.config.keys import Config, RevisitRule
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
