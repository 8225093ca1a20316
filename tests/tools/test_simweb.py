"""The simulated web is what it says: the same every time, and with the shapes it was given."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from protego import Protego
from simweb_support import BIG, all_pages, good_pages, homes

from irlcrawl.base.rows import Robots
from tools.simweb.answers import Fault
from tools.simweb.links import degrees
from tools.simweb.params import NO_ENEMIES, Params
from tools.simweb.robots import robots_text
from tools.simweb.truth import (
    NOWHERE,
    Truth,
    host_pages,
    page_number,
    site_of,
)
from tools.simweb.web import Web

DATA = Path(os.environ.get("IRLCRAWL_DATA", "../shared/data"))
PINNED_URLS = [b"https://www.bidetasiba.test/", b"https://begalirigi.test/"]
PINNED_LINKS = (60890, 17131018389606612)
SMALL = Web(Params(seed=5, pages_nominal=200_000))


def hill(values: np.ndarray, share: float) -> float:
    """The tail index (density exponent - 1) of the largest `share` of values."""
    top = np.sort(values)[-max(10, int(len(values) * share)) :].astype(float)
    return float(1.0 / np.log(top / top[0]).mean())


# The same every time


def test_an_answer_depends_on_nothing_but_its_page() -> None:
    pages = BIG.links(BIG.seeds(40)).targets[::7]
    together, again = BIG.links(pages, 0.5), Web(Params()).links(pages, 0.5)
    assert (together.targets == again.targets).all() and (together.offsets == again.offsets).all()
    answers, robots, truth = BIG.answers(pages, 0.5), BIG.robots(BIG.host(pages)), BIG.truth(pages, 0.5)
    for row in range(0, len(pages), 23):
        alone = pages[row : row + 1]
        assert BIG.links(alone, 0.5).targets.tolist() == together.of(row).tolist()
        assert {n: c[0] for n, c in BIG.answers(alone, 0.5).columns.items()} == {
            n: c[row] for n, c in answers.columns.items()
        }
        assert {n: c[0] for n, c in BIG.robots(BIG.host(alone)).columns.items()} == {
            n: c[row] for n, c in robots.columns.items()
        }
        assert BIG.truth(alone, 0.5)[0] == truth[row]


def test_the_definition_does_not_move() -> None:
    """Published figures name a seed: who changes the web changes these numbers knowingly, and says so."""
    seeds = BIG.seeds(1000)
    links = BIG.links(seeds)
    assert BIG.urls(seeds[:2]).tolist() == PINNED_URLS
    assert (len(links.targets), int(np.bitwise_xor.reduce(links.targets))) == PINNED_LINKS


def test_other_seeds_are_other_webs() -> None:
    other = Web(Params(seed=2))
    assert other.urls(other.seeds(1)).tolist() != BIG.urls(BIG.seeds(1)).tolist()
    pages = good_pages(100)
    assert not np.array_equal(BIG.links(pages).targets, other.links(pages).targets)


def test_all_links_lead_to_pages_that_exist() -> None:
    for web in (BIG, SMALL):
        pages = web.seeds(300)
        for when in (0.0, 0.7):
            for _ in range(3):
                pages = web.links(pages[:2000], when).targets[::11]
                assert web.exists(pages).all()
                assert (web.exists(web.answers(pages, when)["location"]) | (web.answers(pages)["status"] != 301)).all()


def test_hosts_share_out_the_pages_of_a_site() -> None:
    sites = np.array([0, 1, 5, SMALL.good_sites - 1])
    for site in sites.tolist():
        pages = all_pages(SMALL, np.array([site]))
        hosts, count = np.unique(SMALL.host(pages), return_counts=True)
        number = (hosts & np.uint64(0xFFFFFFFF)).astype(np.int64)
        one = np.full(len(hosts), site)
        assert len(hosts) == SMALL.host_count(np.array([site]))[0]
        assert (host_pages(number, SMALL.host_count(one), SMALL.size(one)) == count).all()


# Shapes


def test_degrees() -> None:
    found = degrees(BIG, good_pages(200_000))
    assert 55 < found.mean() < 62
    assert hill(found, 0.01) == pytest.approx(BIG.params.degree_exponent - 1, rel=0.15)


def test_sites_are_heavy_tailed() -> None:
    size = BIG.size(np.arange(BIG.good_sites))
    assert size.sum() == pytest.approx(BIG.params.pages_nominal * BIG.params.good_share, rel=0.1)
    assert hill(size, 0.001) == pytest.approx(1 / BIG.params.site_size_exponent, rel=0.15)
    hosts = BIG.host_count(np.arange(BIG.good_sites))
    assert (hosts > 1000).sum() > 50 and (hosts == 1).mean() > 0.9


def test_in_degrees_are_heavy_tailed_and_as_important_as_they_say() -> None:
    pages = good_pages(60_000)
    links = BIG.links(pages)
    into, out_of = site_of(links.targets), site_of(pages)[links.sources()]
    external = into[(into != out_of) & (into < BIG.good_sites)]
    count = np.bincount(external, minlength=BIG.good_sites)
    worth = BIG.site_importance(np.arange(BIG.good_sites))
    for low, high in ((0, 10), (10, 100), (100, 1000), (1000, 30_000), (30_000, BIG.good_sites)):
        assert count[low:high].sum() / len(external) == pytest.approx(worth[low:high].sum(), rel=0.1)
    assert hill(worth, 0.01) == pytest.approx(1 / BIG.params.popularity_exponent, rel=0.25)


def test_links_are_local() -> None:
    pages = good_pages(5_000)
    links = BIG.links(pages)
    own = site_of(links.targets) == site_of(pages)[links.sources()]
    assert 0.85 < own.mean() < 0.95


def crawl(web: Web, fetches: int) -> tuple[int, int, np.ndarray]:
    """Breadth first: (links, distinct pages found, pages fetched)."""
    seen = np.sort(web.seeds(100))
    front, links, fetched = [seen], 0, []
    while sum(map(len, fetched)) < fetches:
        pages = np.concatenate(front)
        batch, front = pages[: fetches // 15], [pages[fetches // 15 :]]
        fetched.append(batch)
        found = web.links(batch).targets
        links += len(found)
        new = np.setdiff1d(found, seen)
        seen = np.sort(np.concatenate([seen, new]), kind="stable")
        front.append(np.random.default_rng(len(fetched)).permutation(new))
    return links, len(seen), np.concatenate(fetched)


def test_one_link_in_nine_is_new_at_scale(record_property: pytest.RecordProperty) -> None:
    """A crawl of a hundredth of the web, as 10 M fetches are of the default one; traps would drown it in new pages."""
    web = Web(Params(pages_nominal=5_000_000, **NO_ENEMIES))
    links, found, fetched = crawl(web, 50_000)
    record_property("new_share", found / links)
    assert 1 / 11 < found / links < 1 / 7
    assert 45 < links / len(fetched) < 65


def test_many_hosts_on_one_address() -> None:
    hosts = BIG.host(homes(np.arange(BIG.good_sites)))
    count = np.sort(np.unique(BIG.address(hosts), return_counts=True)[1])
    assert count[-1] > 300 and count.mean() > 3
    enemy = np.arange(BIG.subdomain_start, BIG.subdomain_start + 1)
    many = BIG.host(page_number(np.repeat(enemy, 500), 0, np.arange(500)))
    assert len(np.unique(many)) > 200 and len(np.unique(BIG.address(many))) == 1


# What hosts do


def test_robots_are_drawn_like_real_ones() -> None:
    rules = BIG.robots(BIG.host(homes(np.arange(200_000))))
    files = rules["state"] == Robots.RULES
    delays = rules["crawl_delay"][files]
    assert (delays > 0).mean() == pytest.approx(0.137, abs=0.01)
    assert (delays[delays > 0] > 30).mean() == pytest.approx(0.2, abs=0.02)
    assert not rules["crawl_delay"][~files].any()
    assert rules["closed"][files].mean() == pytest.approx(BIG.params.robots_closed_share, abs=0.003)


def test_the_corpus_says_what_the_tables_say() -> None:
    """Of the real files: those whose rules for all agents set a delay, which delays, and which files close a site."""
    import tarfile

    import zstandard

    corpus = DATA / "robots-corpus-protego" / "protego-robots-4231.tar.zst"
    if not corpus.exists():
        pytest.skip(f"no {corpus}")
    delays, closed, files = [], 0, 0
    with (
        corpus.open("rb") as raw,
        tarfile.open(fileobj=zstandard.ZstdDecompressor().stream_reader(raw), mode="r|") as tar,
    ):
        for number, member in enumerate(tar):
            body = tar.extractfile(member)
            if body is None or number % 4:
                continue
            rules = Protego.parse(body.read(100_000).decode("utf-8", "replace"))
            files += 1
            closed += not rules.can_fetch("/", "irlcrawl")
            delay = rules.crawl_delay("irlcrawl")
            delays += [delay] if delay else []
    # 12.6% of all files, 18% for any agent; the 13.7% and 20% of the parameters are issue 4's, which are harder.
    assert len(delays) / files == pytest.approx(BIG.params.delay_share, abs=0.035)
    assert closed / files == pytest.approx(BIG.params.robots_closed_share, abs=0.01)
    hosts = BIG.host(homes(np.arange(300_000)))
    ours = BIG.robots(hosts)["crawl_delay"]
    ours = ours[(ours > 0) & (ours <= 30)]
    short = np.array([d for d in delays if d <= 30])
    for bound in (1, 5, 9, 10, 20):
        assert (ours <= bound).mean() == pytest.approx((short <= bound).mean(), abs=0.09)


def test_the_text_of_robots_says_what_the_columns_say() -> None:
    pages = np.concatenate([SMALL.links(SMALL.seeds(400)).targets[::5], BIG.links(good_pages(300)).targets[::40]])
    for web in (SMALL, BIG):
        mine = pages[web.exists(pages)]
        mine = mine[np.unique(web.host(mine), return_index=True)[1]][:400]
        more = web.links(mine).targets[::50]
        mine = np.concatenate([mine, more[:400]])
        rules, allowed = web.robots(web.host(mine)), web.allowed(mine)
        for row, url in enumerate(web.urls(mine).tolist()):
            if rules["state"][row] == Robots.RULES:
                parsed = Protego.parse(robots_text(rules, row).decode())
                assert parsed.can_fetch(url.decode(), "irlcrawl") == allowed[row]
                assert (parsed.crawl_delay("irlcrawl") or 0) == pytest.approx(rules["crawl_delay"][row])
            else:
                assert allowed[row] == (rules["state"][row] == Robots.ALLOW)


def test_faults_and_statuses() -> None:
    pages = good_pages(100_000)
    p = BIG.params
    share = np.bincount(BIG.fault(BIG.host(homes(np.arange(100_000)))), minlength=6) / 100_000
    expected = [p.dns_share, p.connect_share, p.timeout_share, p.error_share, p.flaky_share]
    assert share[1:] == pytest.approx(expected, abs=0.004)
    answers = BIG.answers(pages)
    assert 0.75 < (answers["status"] == 200).mean() < 0.92
    assert set(np.unique(answers["status"])) == {-4, -2, -1, 200, 301, 404, 500, 503}
    assert 10_000 < answers["bytes"][answers["status"] == 200].mean() < 40_000
    assert (answers["seconds"] > 5).mean() == pytest.approx(0.035, abs=0.03)
    assert not np.diff(BIG.links(pages[answers["status"] != 200]).offsets).any()


def test_a_flaky_host_answers_in_the_end() -> None:
    pages = good_pages(20_000)
    flaky = pages[BIG.fault(BIG.host(pages)) == Fault.FLAKY]
    busy = np.array([BIG.answers(flaky, attempt=attempt)["status"] == 503 for attempt in range(12)])
    assert busy.any(axis=1).all() and not busy.all(axis=0).any()


def test_redirects_end() -> None:
    pages = good_pages(20_000)
    for _ in range(40):
        answers = BIG.answers(pages)
        pages = answers["location"][answers["location"] != NOWHERE]
    assert len(pages) == 0


# Worth


def test_importance_is_a_share() -> None:
    sites = np.arange(SMALL.good_sites)
    assert SMALL.site_importance(sites).sum() == pytest.approx(1.0, abs=1e-9)
    pages = all_pages(SMALL, sites)
    good = SMALL.truth(pages) == Truth.GOOD
    worth = SMALL.importance(pages)
    assert 0.95 < worth.sum() <= 1.0 and (worth[good] > 0).all() and not worth[~good].any()


def test_importance_ranks_sites_as_pagerank_does() -> None:
    """PageRank over the links of all good pages between good sites, by power iteration, against what the API says."""
    sites = np.arange(SMALL.good_sites)
    sources = all_pages(SMALL, sites)
    links = SMALL.links(sources)
    out_of, into = site_of(sources)[links.sources()], site_of(links.targets)
    between = (out_of != into) & (into < SMALL.good_sites)
    out_of, into = out_of[between], into[between]
    out = np.maximum(np.bincount(out_of, minlength=len(sites)), 1)
    rank = np.full(len(sites), 1 / len(sites))
    for _ in range(40):
        rank = 0.15 / len(sites) + 0.85 * np.bincount(into, (rank / out)[out_of], minlength=len(sites))
    order = np.argsort(np.argsort(rank)), np.argsort(np.argsort(SMALL.site_importance(sites)))
    assert np.corrcoef(*order)[0, 1] > 0.8
    assert np.corrcoef(np.log(rank), np.log(SMALL.site_importance(sites)))[0, 1] > 0.8
