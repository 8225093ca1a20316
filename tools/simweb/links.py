"""The out-links of pages: a ragged column of page numbers, two million or more a CPU-second.

A page's kind of page decides who makes its links; every link is drawn from one hash of (page, position). Links of pages
that do not answer 200 do not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tools.simweb.answers import status
from tools.simweb.mix import (
    GOLDEN,
    Array,
    F8s,
    I8s,
    U8s,
    below,
    finish,
    lot,
    lots,
    mix,
    skewed,
    uniform,
)
from tools.simweb.params import MENU, NEAR
from tools.simweb.truth import (
    Kind,
    Section,
    Sites,
    host_pages,
    index_of,
    page_number,
    section_of,
    site_of,
)

FARM_MODE, SUBDOMAIN_MODE = 14, 15  # other modes are the page's section
TRAP_MOVES = 0.8  # of a trap page's links go on within the trap
THIS_MONTH = 2025 * 12
SESSION_PAGES = 4_096


@dataclass(frozen=True)
class Links:
    """Row i links to targets[offsets[i]:offsets[i+1]]: u8 page numbers, in the order of the page."""

    offsets: I8s
    targets: U8s

    def of(self, row: int) -> U8s:
        return self.targets[self.offsets[row] : self.offsets[row + 1]]

    def sources(self) -> I8s:
        """The row of each link."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(frozen=True)
class _From:
    """Links to be made: their hashes, one page's behind the other's, and how many each of the pages has."""

    web: Sites
    pages: U8s
    hash: U8s
    count: I8s

    def u(self) -> F8s:
        return uniform(self.hash)

    def spread(self, column: Array) -> Array:
        """A value of each page as one of each link."""
        return np.repeat(column, self.count)

    def begin(self) -> I8s:
        """Where each page's links begin."""
        return np.cumsum(self.count) - self.count

    def among(self, pages: I8s, most: int | None = None) -> tuple[I8s, I8s]:
        """(page, link) of the links of some pages, of each its first `most`: both by number, in order."""
        count = self.count[pages] if most is None else np.minimum(self.count[pages], most)
        first = self.begin()[pages] - (np.cumsum(count) - count)
        return np.repeat(pages, count), np.repeat(first, count) + np.arange(count.sum())


def degrees(web: Sites, pages: U8s) -> I8s:
    """Links each page has if it answers 200: a Lomax distribution with the mean and tail of the parameters."""
    p = web.params
    shape = p.degree_exponent - 1.0
    u = uniform(mix(web.salt("degree"), web.twin(pages)))
    # The + 0.5 puts back what rounding down takes.
    return np.minimum(p.degree_mean * (shape - 1.0) * ((1.0 - u) ** (-1.0 / shape) - 1.0) + 0.5, p.degree_max).astype(
        np.int64
    )


def links(web: Sites, pages: U8s, when: float = 0.0) -> Links:
    """What each page links to at a moment of the run."""
    count = np.where(status(web, pages) == 200, degrees(web, pages), 0)
    offsets = np.zeros(len(pages) + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], count)
    hashes = finish(np.repeat(mix(web.salt("links"), web.twin(pages)), count) + position.view(np.uint64) * GOLDEN)
    modes = _modes(web, pages, when)
    every = _From(web, pages, hashes, count)
    # Nearly all are ordinary as a rule: to make the others' links so too and then theirs costs less than to put the
    # ordinary ones together first.
    ordinary = 2 * np.count_nonzero(modes == Section.PAGES) > len(pages)
    targets = _ordinary(every) if ordinary else np.empty(len(hashes), np.uint64)
    for mode in np.unique(modes).tolist():  # at most nine
        if mode == Section.PAGES and ordinary:
            continue
        among = np.flatnonzero(modes == mode)
        _, mine = every.among(among)
        targets[mine] = _MAKERS[mode](_From(web, pages[among], hashes[mine], count[among]))
    return Links(offsets, targets)


def _modes(web: Sites, pages: U8s, when: float) -> Array:
    site, section = site_of(pages), section_of(pages)
    ordinary = np.where(
        web.behaves_good(site, when),
        Section.PAGES,
        np.where(web.kind(site) == Kind.SUBDOMAINS, SUBDOMAIN_MODE, FARM_MODE),
    )
    return np.where(section == Section.PAGES, ordinary, section)


def _ordinary(f: _From) -> U8s:
    """Links of pages as the good web has them."""
    p = f.web.params
    site = site_of(f.pages)
    size, hosts, trap = f.web.size(site), f.web.host_count(site), f.web.trap(site)
    host, page = f.web.place(f.pages)
    mine = host_pages(host, hosts, size)
    draw, u = lot(f.hash), f.u()
    nav, near = lots(p.nav_share), lots(p.nav_share + p.near_share)
    cross, trapped = lots(p.nav_share + p.near_share + p.cross_share), lots(1.0 - _external_share(f.web))
    rows = f.spread(np.arange(len(site)))

    to = (u * f.spread(np.minimum(mine, MENU).astype(np.float64))).astype(np.int64)
    some = np.flatnonzero((draw >= nav) & (draw < near))
    r = rows[some]
    step = ((f.hash[some] >> np.uint64(16)) & np.uint64(2 * NEAR - 1)).astype(np.int64) - NEAR
    to[some] = np.clip(page[r] + step, 0, mine[r] - 1)
    r, first = f.among(np.arange(len(site)), p.branching)
    child = p.branching * page[r] + 1 + first - f.begin()[r]
    there = child < mine[r]
    below_here = first[there]
    to[below_here] = child[there]
    draw[below_here] = 0
    targets = _on_host(f, site, host, hosts, to)

    away = np.flatnonzero(draw >= near)
    drawn = draw[away]
    some = away[drawn < cross]
    r = rows[some]
    several = hosts[r] > 1
    some, r = some[several], r[several]
    targets[some] = page_number(site[r], Section.PAGES, skewed(u[some], size[r], p.skew))
    some = away[(drawn >= cross) & (drawn < trapped)]
    some = some[trap[rows[some]] != Section.PAGES]
    r = rows[some]
    targets[some] = _entry(f.hash[some], site[r], trap[r], size[r])
    some = away[drawn >= trapped]
    targets[some] = _external(f.web, f.hash[some], site[rows[some]])
    r, some = f.among(np.flatnonzero(f.web.spammed(site)))
    down = np.zeros(len(targets), np.bool_)
    down[below_here] = True
    comments = ~down[some]
    r, some = r[comments], some[comments]
    spam = mix(f.web.salt("spam"), f.hash[some])
    chosen = lot(spam) < lots(p.spammed_link_share)
    r, some, spam = r[chosen], some[chosen], spam[chosen]
    targets[some] = _anywhere(f.web, _members(f.web, uniform(spam), site[r]), u[some])
    return targets


def _on_host(f: _From, site: I8s, host: I8s, hosts: I8s, to: I8s) -> U8s:
    """Pages `to` of the page's own host: truth.join_index, as a step and a start for all links of a page."""
    step = np.where(hosts == 1, 1, np.where(host == 0, 2, 2 * (hosts - 1)))
    start = np.where(host == 0, 0, 2 * host - 1)
    targets: U8s = f.spread(page_number(site, Section.PAGES, start))
    targets += (to * f.spread(step)).view(np.uint64)
    return targets


def _external_share(web: Sites) -> float:
    p = web.params
    return 1.0 - p.nav_share - p.near_share - p.cross_share - p.trap_share


def _external(web: Sites, hashes: U8s, sources: I8s) -> U8s:
    """Links of good pages to other sites: popular ones, of the own community more often; a few to enemies."""
    p = web.params
    second = mix(web.salt("external"), hashes)
    draw, u = lot(second), uniform(second)
    near = draw < lots(p.community_share)
    rank = np.empty(len(hashes), np.int64)
    rank[near] = sources[near] % web.communities + web.communities * web.community.rank(u[near])
    rank[~near] = web.popularity.rank(u[~near])
    third = mix(web.salt("external page"), second)
    draw = lot(third)
    enemy = draw >= 65536 - lots(p.enemy_link_share)
    others = web.subdomain_sites + web.mirror_sites
    if others:
        rank[enemy] = web.subdomain_start + below(u[enemy], others)
    return _anywhere(web, rank, uniform(third))


def _members(web: Sites, u: F8s, sources: I8s) -> I8s:
    """Domains of the farm that each source belongs or links to."""
    first = web.farm_start + web.farm(sources) * web.farm_sites
    return first + below(u, web.farm_sites)


def _anywhere(web: Sites, sites: I8s, u: F8s) -> U8s:
    return page_number(sites, Section.PAGES, skewed(u, web.size(sites), web.params.skew))


def _farm(f: _From) -> U8s:
    """Links of a farm's page: the farm, deep pages of its own domain, and popular sites for camouflage."""
    p = f.web.params
    site = site_of(f.pages)
    size = f.web.size(site)
    draw, u = lot(f.hash), f.u()
    sites = f.spread(site)
    targets = page_number(sites, Section.PAGES, below(u, f.spread(size)))
    second = mix(f.web.salt("farm link"), f.hash)
    some = np.flatnonzero(draw < lots(p.farm_member_share))
    targets[some] = _anywhere(f.web, _members(f.web, u[some], sites[some]), uniform(second[some]))
    some = np.flatnonzero(draw >= 65536 - lots(p.farm_camouflage_share))
    targets[some] = _anywhere(f.web, f.web.popularity.rank(u[some]), uniform(second[some]))
    return targets


def _subdomains(f: _From) -> U8s:
    """Links of a host that was made up when it was asked for: to more such hosts."""
    p = f.web.params
    targets = page_number(f.spread(site_of(f.pages)), Section.PAGES, (f.hash >> np.uint64(31)) & np.uint64(0xFFFFFFFF))
    some = np.flatnonzero(lot(f.hash) < lots(p.farm_camouflage_share))
    second = mix(f.web.salt("farm link"), f.hash[some])
    targets[some] = _anywhere(f.web, f.web.popularity.rank(uniform(f.hash[some])), uniform(second))
    return targets


def _entry(hashes: U8s, site: I8s, trap: Array, size: I8s) -> U8s:
    """A first page of a site's trap."""
    h = (hashes >> np.uint64(16)).astype(np.int64)
    full = (hashes >> np.uint64(32)).astype(np.int64)
    per_trap = [
        np.zeros(len(h), np.int64),
        THIS_MONTH + h % 12,
        (h % 16 << 20) + 1,
        (h % np.minimum(size, SESSION_PAGES) << 20) | (full & 0xFFFFF),
        (1 + h % 15) << (4 * ((h >> 4) % 8)),
        full,
        4 + h % 4,
    ]
    return page_number(site, trap, np.choose(trap, per_trap))


def _trap(move: Callable[[I8s, I8s, I8s], I8s]) -> Callable[[_From], U8s]:
    """Links of a trap page: most by `move`, from (index, 48 random bits, pages of the site) to another index of the
    trap, the rest to the site's ordinary pages."""

    def make(f: _From) -> U8s:
        site = site_of(f.pages)
        size = f.spread(f.web.size(site))
        on = move(f.spread(index_of(f.pages)), (f.hash >> np.uint64(16)).astype(np.int64), size)
        home = skewed(f.u(), size, f.web.params.skew)
        moved = lot(f.hash) < lots(TRAP_MOVES)
        section = np.where(moved, f.spread(section_of(f.pages)), Section.PAGES)
        return page_number(f.spread(site), section, np.where(moved, on, home))

    return make


def _month(index: I8s, h: I8s, _: I8s) -> I8s:
    return np.clip(index + h % 25 - 12, 0, 9999 * 12 - 1)


def _next_pages(index: I8s, h: I8s, _: I8s) -> I8s:
    return (index & ~0xFFFFF) | np.minimum((index & 0xFFFFF) + 1 + h % 10, 0xFFFFF)


def _new_session(_: I8s, h: I8s, size: I8s) -> I8s:
    return (h % np.minimum(size, SESSION_PAGES) << 20) | (h >> 28 & 0xFFFFF)


def _other_facet(index: I8s, h: I8s, _: I8s) -> I8s:
    shift = 4 * (h % 8)
    return np.maximum((index & ~(15 << shift)) | ((h >> 8 & 15) << shift), 1)


def _any_private(_: I8s, h: I8s, __: I8s) -> I8s:
    return h & 0xFFFFFFFF


def _deeper(index: I8s, h: I8s, _: I8s) -> I8s:
    return np.where(index < 1 << 28, index * 4 + (h & 3), 4 + (h & 3))


_MAKERS: dict[int, Callable[[_From], U8s]] = {
    Section.PAGES: _ordinary,
    Section.CALENDAR: _trap(_month),
    Section.PAGINATION: _trap(_next_pages),
    Section.SESSION: _trap(_new_session),
    Section.PARAMETERS: _trap(_other_facet),
    Section.HONEYPOT: _trap(_any_private),
    Section.SOFT404: _trap(_deeper),
    FARM_MODE: _farm,
    SUBDOMAIN_MODE: _subdomains,
}
