"""URL text and numbers of the simulated web: each is the other's inverse, and nothing else is taken for a page."""

from __future__ import annotations

from drum.ragged import Ragged

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.url import SiteOf, canonical, split
from tools.simweb import writing
from tools.simweb.params import Params
from tools.simweb.truth import NOWHERE, Kind, Section, join_index, page_number, split_index
from tools.simweb.web import Web

WEBS = [Web(Params(seed=1)), Web(Params(seed=2, pages_nominal=50_000, port=8080, https_share=0.0))]


@st.composite
def some_pages(draw: st.DrawFn) -> tuple[Web, np.ndarray]:
    """Pages of a web, of any kind of site and section; those that do not exist are left out."""
    web = draw(st.sampled_from(WEBS))
    starts = [0, web.farm_start, web.subdomain_start, web.mirror_start, web.sites]
    index = st.integers(0, 2**32 - 1) | st.integers(0, 100)
    share = st.floats(0, 1, exclude_max=True)
    kinds = draw(st.lists(st.tuples(st.sampled_from(Kind), share, st.sampled_from(Section), index), min_size=1))
    rows = [(starts[k] + int(u * (starts[k + 1] - starts[k])), s, i) for k, u, s, i in kinds]
    sites, sections, numbers = (np.array(column) for column in zip(*rows))
    traps = web.trap(sites)
    sections = np.where((sections > 0) & (traps > 0), traps, Section.PAGES)
    numbers = np.where(sections == Section.PAGES, numbers % web.size(sites), numbers)
    pages = page_number(sites, sections, numbers)
    return web, pages[web.exists(pages)]


@given(some_pages())
def test_text_and_back(drawn: tuple[Web, np.ndarray]) -> None:
    web, pages = drawn
    urls = web.urls(pages)
    assert web.pages(urls).tolist() == pages.tolist()
    hosts = web.host(pages)
    assert web.names.hosts(web.names.host_names(hosts)).tolist() == hosts.tolist()


@given(some_pages(), st.integers(1, 5))
def test_a_text_is_the_same_whatever_is_written_beside_it(drawn: tuple[Web, np.ndarray], chunk: int) -> None:
    """Parts are written with padding, which must never stay where another text is."""
    web, pages = drawn
    alone = [text for row in range(len(pages)) for text in web.urls(pages[row : row + 1]).tolist()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "CHUNK_ROWS", chunk)
        assert web.urls(pages).tolist() == alone
    assert web.urls(pages).tolist() == alone


@given(some_pages())
def test_urls_are_canonical_and_belong_to_their_host_and_site(drawn: tuple[Web, np.ndarray]) -> None:
    web, pages = drawn
    site_of_name = SiteOf(False)
    hosts = web.host(pages)
    names, origins = web.names.host_names(hosts), web.names.origins(hosts)
    sites = web.names.site_names((hosts >> np.uint64(32)).astype(np.int64))
    for url, name, origin, site in zip(web.urls(pages).tolist(), names.tolist(), origins.tolist(), sites.tolist()):
        assert canonical(url) == url
        assert url.startswith(origin + b"/")
        assert split(url)[1] == name.decode()
        assert site_of_name(name.decode()) == site.decode()


@pytest.mark.parametrize("section", list(Section)[1:])
def test_every_trap_section_goes_there_and_back(section: Section) -> None:
    web = WEBS[0]
    sites = np.arange(20_000)
    sites = sites[web.trap(sites) == section]
    assert len(sites) > 50
    index = np.random.default_rng(3).integers(0, 2**32, (40, len(sites)))
    index >>= np.arange(40)[:, None] % 31
    pages = page_number(np.tile(sites, 40), section, index.ravel())
    pages = pages[web.exists(pages)]
    assert len(pages) > len(sites)
    assert (web.pages(web.urls(pages)) == pages).all()


@given(some_pages(), st.data())
def test_text_that_was_changed_is_another_page_or_none(drawn: tuple[Web, np.ndarray], data: st.DataObject) -> None:
    web, pages = drawn
    texts = web.urls(pages[:5]).tolist()
    texts = [text[:cut] + change + text[cut + 1 :] for text in texts
             for cut, change in [(data.draw(st.integers(0, len(text))), data.draw(st.binary(max_size=2)))]]  # fmt: skip
    found = web.pages(Ragged.from_list(texts))
    real = found != NOWHERE
    assert web.urls(found[real]).tolist() == [text for text, r in zip(texts, real) if r]


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_nonsense_is_no_page_and_no_host(texts: list[bytes]) -> None:
    rows = Ragged.from_list(texts)
    assert (WEBS[0].pages(rows) == NOWHERE).all()
    assert (WEBS[0].names.hosts(rows) == NOWHERE).all()


def test_names_differ_and_no_two_pages_share_a_url() -> None:
    web = WEBS[1]
    assert len(set(web.names.site_names(np.arange(web.sites)).tolist())) == web.sites
    pages = np.unique(web.links(web.seeds(20)).targets)
    assert len(set(web.urls(pages).tolist())) == len(pages)


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**28))
def test_index_and_place(index: int, hosts: int) -> None:
    host, page = split_index(np.array([index]), np.array([hosts]))
    assert 0 <= host[0] < hosts
    assert join_index(host, page, np.array([hosts])).tolist() == [index]
