"""The enemies of the simulated web are what they are said to be: farms, traps, duplicates, sites that turn."""

from __future__ import annotations

import numpy as np
import pytest
from simweb_support import BIG, all_pages, good_pages, homes

from tools.simweb.params import Params
from tools.simweb.truth import NEVER, Kind, Section, Truth, page_number, section_of, site_of
from tools.simweb.web import Web


def test_farms_outrank_the_median_good_site() -> None:
    """Distinct sites that link to a site, over a whole small web: what STAR counts."""
    web = Web(Params(seed=7, pages_nominal=60_000, farms=1, farm_sites=6_000_000, farm_pages=30))
    sources = all_pages(
        web, np.concatenate([np.arange(web.good_sites), np.arange(web.farm_start, web.subdomain_start)])
    )
    into, out_of = [], []
    for at in range(0, len(sources), 20_000):
        links = web.links(sources[at : at + 20_000])
        into.append(site_of(links.targets))
        out_of.append(site_of(sources[at : at + 20_000])[links.sources()])
    pairs = np.unique(np.stack([np.concatenate(out_of), np.concatenate(into)]), axis=1)
    degree = np.bincount(pairs[1][pairs[0] != pairs[1]], minlength=web.sites)
    kind = web.kind(np.arange(web.sites))
    assert np.median(degree[kind == Kind.FARM]) > np.median(degree[kind == Kind.GOOD])


def test_farms_have_a_hundred_thousand_domains_and_one_good_site_in_a_hundred_links_to_them() -> None:
    assert BIG.farm_sites == 100_000
    sites = np.arange(BIG.good_sites)
    assert BIG.spammed(sites).mean() == pytest.approx(0.01, rel=0.05)
    for spammed, low, high in ((True, 0.1, 0.3), (False, 0.0, 0.0)):
        pages = homes(sites[BIG.spammed(sites) == spammed][:5000])
        share = (BIG.kind(site_of(BIG.links(pages).targets)) == Kind.FARM).mean()
        assert low <= share <= high
    page = homes(np.array([BIG.farm_start + 5]))
    within = BIG.links(np.repeat(page, 1) + np.arange(200, dtype=np.uint64)).targets
    assert (BIG.truth(within) == Truth.FARM).mean() > 0.85


@pytest.mark.parametrize("section", list(Section)[1:])
def test_traps_have_no_end(section: Section) -> None:
    sites = np.arange(100_000)
    assert (BIG.trap(sites) == section).mean() == pytest.approx(
        [0, 0.02, 0.02, 0.01, 0.01, 0.01, 0.01][section], rel=0.2
    )
    mine = sites[BIG.trap(sites) == section][:50]
    found = homes(mine)
    seen = found
    for _ in range(4):
        found = np.setdiff1d(BIG.links(found[:1500]).targets, seen)
        seen = np.concatenate([seen, found])
        found = found[section_of(found) == section]
        assert len(found) > 20
    assert (BIG.truth(found) == section).all()
    assert (BIG.importance(found) == 0).all()


def test_duplicates_give_themselves_away() -> None:
    """Sessions and mirrors repeat good pages; honeypots and calendars repeat themselves; good pages do not."""
    mirror = all_pages(BIG, np.arange(BIG.mirror_start, BIG.mirror_start + 20))
    twins = BIG.twin(mirror)
    for column in ("status", "content"):
        same = BIG.answers(mirror)[column] == BIG.answers(twins)[column]
        assert same[(BIG.answers(mirror)["status"] > 0) & (BIG.answers(twins)["status"] > 0)].mean() > 0.9
    pages = good_pages(3000)
    good = pages[BIG.truth(pages) == Truth.GOOD]
    content = BIG.answers(good)["content"]
    content = content[content != 0]
    assert len(np.unique(content)) == len(np.unique(good[BIG.answers(good)["status"] == 200]))
    sites = np.arange(100_000)
    for section in (Section.CALENDAR, Section.SESSION, Section.HONEYPOT, Section.PARAMETERS):
        site = sites[BIG.trap(sites) == section][:1]
        index = np.arange(1000, 3000) if section != Section.SESSION else np.arange(1000)
        content = BIG.answers(page_number(np.repeat(site, len(index)), section, index))["content"]
        assert len(np.unique(content[content != 0])) < 20


def test_a_twentieth_of_the_sites_turns() -> None:
    sites = np.arange(BIG.farm_start - 100_000, BIG.farm_start + 100_000)
    turn = BIG.turn(sites)
    assert (turn != NEVER).mean() == pytest.approx(0.05, abs=0.004)
    turns = sites[turn != NEVER]
    before, after = BIG.truth(homes(turns), 0.0), BIG.truth(homes(turns), 1.0)
    good = turns < BIG.farm_start
    assert (before[good] == Truth.GOOD).all() and (after[good] == Truth.TURNED).all()
    assert (before[~good] == Truth.FARM).all() and (after[~good] == Truth.GOOD).all()
    half = (BIG.truth(homes(turns), 0.5) != before).mean()
    assert half == pytest.approx(0.5, abs=0.05)
    bad = BIG.links(homes(turns[good]), 1.0).targets
    assert (BIG.kind(site_of(bad)) == Kind.FARM).mean() > 0.3
