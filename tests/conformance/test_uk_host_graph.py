"""STAR on the real web: in-degrees of the 1996 UK host graph, site by site, against a count with sets."""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from budgets import BudgetParams
from irlcrawl.base.keys import name_key
from irlcrawl.base.url import SiteOf

from .vectors import path_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "budgets"))
from budget_crawl import Crawl

HARVEST_PAIRS = 40_000


@pytest.fixture(scope="module")
def links() -> list[tuple[str, str]]:
    """Every link between two different registrable domains, as often as two hosts of them have one."""
    site_of = SiteOf()
    found = []
    with gzip.open(path_of("webgraph-uk-1996-hosts/1996-uk-web-hosts.tsv.gz"), "rt") as rows:
        for row in rows:
            _, source, target = row.split("\t")[0].split("|")
            a, b = site_of(source), site_of(target)
            if a != b:
                found.append((a, b))
    return found


def test_in_degrees_of_every_site_are_those_of_a_count(tmp_path: Path, links: list[tuple[str, str]]) -> None:
    sources: dict[str, set[str]] = defaultdict(set)
    for a, b in links:
        sources[b].add(a)
    crawl = Crawl(tmp_path, BudgetParams(), ram_bytes=4 << 20)
    for start in range(0, len(links), HARVEST_PAIRS):
        part = links[start : start + HARVEST_PAIRS]
        crawl.named_pairs([(name_key(a.encode()), name_key(b.encode())) for a, b in part])
        crawl.merge()
        crawl.commit()
    keys = np.array([name_key(site.encode()) for site in sources], np.uint64)
    records = crawl.sites.records(keys)
    assert {site: records[name_key(site.encode())].in_degree for site in sources} == {
        site: len(linking) for site, linking in sources.items()
    }
    assert crawl.sites.sites == len(sources) > 10_000
    top = crawl.sites.top(1)[0]
    assert (top.in_degree, top.budget) == (max(map(len, sources.values())), 10_000)
