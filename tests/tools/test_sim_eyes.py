"""The eyes of a simulated crawl are the crawler's: columns are equal where the fingerprints of served pages are."""

from __future__ import annotations

import numpy as np
import pytest

from bench._sim.eyes import EYES, Eyes, seen
from irlcrawl.worker.page.fingerprint import fingerprint
from tools.simweb.mix import U8s
from tools.simweb.params import Params
from tools.simweb.serve import Handler, Hosts
from tools.simweb.truth import Section, Truth, page_number, site_of
from tools.simweb.web import Web

WEB = Web(Params(seed=4, pages_nominal=400_000, https_share=0.0, farm_sites=20_000, turning_share=0.2))
WHEN = 0.6
EACH = 40


def sample(web: Web) -> U8s:
    """Pages of every truth that answer 200, duplicates among them: mirrors with their originals, many of one trap."""
    sites = np.repeat(np.arange(web.sites), 4)
    index = np.tile(np.arange(4), web.sites)
    ordinary = page_number(sites, Section.PAGES, index)
    trapped = np.flatnonzero(web.trap(np.arange(web.sites)) != Section.PAGES)
    at = np.repeat(trapped, 12)
    near = np.tile((np.arange(12) << 20) // 3 + 300 + np.arange(12), len(trapped))
    pages = np.concatenate([ordinary, page_number(at, web.trap(at), near), web.twin(ordinary)])
    pages = answering(web, np.unique(pages[web.exists(pages)]))
    truth = web.truth(pages, WHEN)
    kept = [np.flatnonzero(truth == kind)[:EACH] for kind in range(len(Truth))]
    mirrors = pages[kept[Truth.MIRROR]]
    return answering(web, np.unique(np.concatenate([pages[np.concatenate(kept)], web.twin(mirrors)])))


def answering(web: Web, pages: U8s) -> U8s:
    return pages[web.answers(pages, WHEN)["status"] == 200]


def test_columns_are_equal_where_the_fingerprints_of_served_pages_are() -> None:
    pages = sample(WEB)
    truth = WEB.truth(pages, WHEN)
    assert set(truth.tolist()) == set(map(int, Truth))
    handler = Handler(WEB, Hosts(WEB, []))
    contents = WEB.answers(pages, WHEN)["content"].tolist()
    served = [handler._html(pages[at : at + 1], contents[at], WHEN) for at in range(len(pages))]
    real = np.array([fingerprint(body) for body in served], np.uint64)
    columns = seen(WEB, pages, WHEN)
    assert ((real[:, None] == real) == (columns[:, None] == columns)).all()
    assert len(set(served)) > len(set(real.tolist())), "near-duplicates are no copies"
    for kind in (Truth.CALENDAR, Truth.PAGINATION, Truth.HONEYPOT, Truth.SOFT404):
        sites, number = site_of(pages)[truth == kind], real[truth == kind]
        assert len(set(number.tolist())) == len(set(sites.tolist())) < len(number), "one content a trap"


@pytest.mark.parametrize("whose", EYES)
def test_what_was_met_is_known_to_the_worker_that_met_it(whose: str) -> None:
    pages = sample(WEB)
    eyes = Eyes(WEB, whose)
    novel = eyes.novel(pages, WHEN)
    host = WEB.host(pages).tolist()
    content = seen(WEB, pages, WHEN).tolist()
    met = set[tuple[int, int]]()
    for at in range(len(pages)):
        again = (host[at], content[at]) in met
        assert not (again and novel[at]), "a host's pages have one worker"
        met.add((host[at], content[at]))
    assert novel.sum() >= len(set(content))
    assert not eyes.novel(pages, WHEN).any()
