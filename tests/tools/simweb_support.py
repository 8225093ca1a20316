"""The simulated web by its defaults, and pages of one to ask about."""

from __future__ import annotations

import numpy as np

from tools.simweb.truth import Section, page_number
from tools.simweb.web import Web

BIG = Web()


def homes(sites: np.ndarray) -> np.ndarray:
    return page_number(sites, Section.PAGES, np.zeros(len(sites), np.int64))


def all_pages(web: Web, sites: np.ndarray) -> np.ndarray:
    """Every page of the section PAGES of these sites."""
    size = web.size(sites)
    index = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    return page_number(np.repeat(sites, size), Section.PAGES, index)


def good_pages(count: int, web: Web = BIG) -> np.ndarray:
    sites = np.random.default_rng(1).integers(0, web.good_sites, count)
    return page_number(sites, Section.PAGES, np.random.default_rng(2).integers(0, web.size(sites)))
