"""What is so, whoever asks: the sites, hosts and pages of the web, and what each of them really is.

A page is a number: site (28 bits), section (4 bits), index (32 bits). A host is site (32 bits), host number (32 bits).
Sites are numbered by kind: good ones by falling popularity, then the farms, then sites of infinite subdomains, then
mirrors. Names do not show it (`names.py` permutes the numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tools.simweb.mix import (
    Array,
    Bools,
    F8s,
    I8s,
    U8s,
    Zipf,
    below,
    lot,
    lots,
    mix,
    salted,
    skewed_probability,
    uniform,
)
from tools.simweb.params import Params

SITE_SHIFT, SECTION_SHIFT = np.uint64(36), np.uint64(32)
LOCAL_MASK = np.uint64((1 << 36) - 1)
INDEX_MASK = np.uint64(0xFFFFFFFF)
SITES_MAX = 1 << 28
SUBDOMAIN_HOSTS = 1 << 28
NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""The number of what is no page of this web."""
NEVER = np.inf


class Section(IntEnum):
    """Where on its site a page lies. Trap sections have no end; a site has at most one of them."""

    PAGES = 0
    CALENDAR = 1
    PAGINATION = 2
    SESSION = 3
    PARAMETERS = 4
    HONEYPOT = 5
    SOFT404 = 6


class Kind(IntEnum):
    """What a site is."""

    GOOD = 0
    FARM = 1
    SUBDOMAINS = 2
    MIRROR = 3


class Truth(IntEnum):
    """What a page is. Everything but GOOD is enemy: a fetch spent on it is wasted."""

    GOOD = 0
    CALENDAR = 1  # 1..6 are the numbers of the trap sections
    PAGINATION = 2
    SESSION = 3
    PARAMETERS = 4
    HONEYPOT = 5
    SOFT404 = 6
    FARM = 7
    SUBDOMAINS = 8
    MIRROR = 9
    TURNED = 10  # a page of a good site that turned


def page_number(site: Array, section: Array | int, index: Array) -> U8s:
    area: U8s = np.asarray(section, np.uint64)
    high: U8s = site.astype(np.uint64) << SITE_SHIFT
    low: U8s = index.astype(np.uint64)
    return high | (area << SECTION_SHIFT) | low


def site_of(pages: U8s) -> I8s:
    return (pages >> SITE_SHIFT).astype(np.int64)


def section_of(pages: U8s) -> I8s:
    return ((pages >> SECTION_SHIFT) & np.uint64(15)).astype(np.int64)


def index_of(pages: U8s) -> I8s:
    return (pages & INDEX_MASK).astype(np.int64)


class PerSite:
    """A whole number of each site that arithmetic gives: looked up in a table once it was asked for as often as there
    are sites, at a tenth of the cost."""

    CHUNK = 1 << 16

    def __init__(self, made: Callable[[I8s], I8s], sites: int) -> None:
        """`made`: values of 1 to 2^32, a row per site; `sites`: how many there are."""
        self._made, self._sites, self._asked = made, sites, 0
        self._table: NDArray[np.uint32] | None = None  # of values less 1

    def __call__(self, sites: I8s) -> I8s:
        if self._table is None:
            self._asked += len(sites)
            if self._asked < self._sites:
                return self._made(sites)
            self._table = np.empty(self._sites, np.uint32)
            for start in range(0, self._sites, self.CHUNK):
                some = np.arange(start, min(start + self.CHUNK, self._sites))
                self._table[some] = self._made(some) - 1
        return self._table[sites].astype(np.int64) + 1


class Sites:
    """The web's sites, hosts and pages as functions of their numbers. `when` is a moment of the run, 0 to 1."""

    def __init__(self, params: Params) -> None:
        self.params = p = params
        scale = p.pages_nominal / 10**9
        self.good_sites = max(8, round(p.pages_nominal * p.good_share / p.site_pages_mean))
        self.farms = p.farms
        self.farm_sites = max(2, round(p.farm_sites * scale)) if p.farms else 0
        self.subdomain_sites = _count(self.good_sites * p.subdomain_sites_share)
        self.mirror_sites = _count(self.good_sites * p.mirror_sites_share)
        self.farm_start = self.good_sites
        self.subdomain_start = self.farm_start + self.farms * self.farm_sites
        self.mirror_start = self.subdomain_start + self.subdomain_sites
        self.sites = self.mirror_start + self.mirror_sites
        if self.sites > SITES_MAX:
            raise ValueError(f"{self.sites} sites are more than {SITES_MAX}: lower pages_nominal")
        self.popularity = Zipf(self.good_sites, p.popularity_exponent)
        members = min(p.community_sites, self.good_sites)
        self.communities = self.good_sites // members
        self.community = Zipf(members, p.popularity_exponent)
        self.address_count = max(4, round(self.sites * p.addresses_per_site))
        self._hosting = Zipf(self.address_count, p.address_exponent)
        traps = (p.calendar_share, p.pagination_share, p.session_share, p.parameter_share, p.honeypot_share,
                 p.soft404_share)  # fmt: skip
        self._trap_bounds = np.cumsum(traps)
        self._size, self._host_count = PerSite(self._sizes, self.sites), PerSite(self._host_counts, self.sites)

    def salt(self, purpose: str) -> int:
        return salted(self.params.seed, purpose)

    # Sites: columns of site numbers, i8

    def kind(self, sites: I8s) -> Array:
        """Kind, u1."""
        found = (sites >= self.farm_start).view(np.uint8)
        found += (sites >= self.subdomain_start).view(np.uint8)
        found += (sites >= self.mirror_start).view(np.uint8)
        return found

    def original(self, sites: I8s) -> I8s:
        """The site a mirror copies; every other site itself."""
        found = sites.copy()
        mirrors = np.flatnonzero(sites >= self.mirror_start)
        found[mirrors] = below(uniform(mix(self.salt("mirror"), sites[mirrors])), self.good_sites)
        return found

    def size(self, sites: I8s) -> I8s:
        """Pages in section PAGES."""
        return self._size(sites)

    def _sizes(self, sites: I8s) -> I8s:
        p = self.params
        rank = self.original(sites) + 1.0
        noise = p.site_size_noise ** (2.0 * uniform(mix(self.salt("size"), self.original(sites))) - 1.0)
        noise /= (p.site_size_noise - 1.0 / p.site_size_noise) / (2.0 * np.log(p.site_size_noise))  # its mean
        smallest = p.site_pages_mean * (1.0 - p.site_size_exponent)
        good = smallest * (rank / self.good_sites) ** -p.site_size_exponent * noise
        kind = self.kind(sites)
        pages = np.where(kind == Kind.FARM, p.farm_pages, np.where(kind == Kind.SUBDOMAINS, 1 << 32, good))
        return np.clip(pages, 1, 1 << 32).astype(np.int64)

    def host_count(self, sites: I8s) -> I8s:
        """Hosts of a site: thousands for a subdomain service, 2^28 for the enemies that imitate one."""
        return self._host_count(sites)

    def _host_counts(self, sites: I8s) -> I8s:
        p = self.params
        size = self.size(sites)
        kind = self.kind(sites)
        h = mix(self.salt("hosts"), self.original(sites))
        some = 2 + below(uniform(h), p.plural_hosts_max - 1)
        service = (size >= p.service_pages_min) & ((h & np.uint64(1023)) < p.service_share * 1024)
        plain = (size < p.plural_pages_min) | (kind == Kind.FARM)
        hosts = np.where(plain, 1, np.where(service, 1 + size // 2 // p.service_host_pages, some))
        return np.where(kind == Kind.SUBDOMAINS, SUBDOMAIN_HOSTS, np.minimum(hosts, 1 + size // 2))

    def trap(self, sites: I8s) -> Array:
        """The trap section of a site, u1; PAGES where it has none."""
        drawn = np.searchsorted(self._trap_bounds, uniform(mix(self.salt("trap"), self.original(sites))), side="right")
        none = (drawn >= len(self._trap_bounds)) | (self.kind(sites) != Kind.GOOD)
        return np.where(none, Section.PAGES, drawn + 1).astype(np.uint8)

    def spammed(self, sites: I8s) -> Bools:
        """Good sites whose comments link to the farms."""
        drawn = uniform(mix(self.salt("spammed"), sites)) < self.params.spammed_share
        return np.asarray(drawn & (sites < self.good_sites) & (self.farms > 0))

    def farm(self, sites: I8s) -> I8s:
        """The farm a farm's site belongs to, and that any other site would link to."""
        member = (sites - self.farm_start) // max(1, self.farm_sites)
        other = (mix(self.salt("farm"), sites) % np.uint64(max(1, self.farms))).astype(np.int64)
        return np.where(self.kind(sites) == Kind.FARM, member, other)

    def turn(self, sites: I8s) -> F8s:
        """When a site turns, from good to farm or from farm to good; NEVER for most. Other enemies never do."""
        h = mix(self.salt("turn"), sites)
        may = (self.kind(sites) <= Kind.FARM) & (self.farms > 0)
        turns = may & (uniform(finish_again(h)) < self.params.turning_share)
        return np.where(turns, uniform(h), NEVER)

    def behaves_good(self, sites: I8s, when: float | Array = 0.0) -> Bools:
        """Whether pages of the section PAGES are those of an ordinary site (mirrors are, in all but their worth)."""
        turned = self.turn(sites) <= when
        kind = self.kind(sites)
        return np.where(kind == Kind.FARM, turned, (kind != Kind.SUBDOMAINS) & ~turned)

    def site_importance(self, sites: I8s) -> F8s:
        """The expected share of all links between good sites that lead to this site: what the oracle knows. Sums to 1
        over good sites; 0 for all others."""
        c = self.params.community_share
        members = self.communities * self.community.n
        within = np.where(sites < members, self.community.probability(sites // self.communities) / self.communities, 0)
        share = (1.0 - c) * self.popularity.probability(np.minimum(sites, self.good_sites - 1)) + c * within
        return np.where(sites < self.good_sites, share, 0.0)

    # Pages: columns of page numbers, u8

    def twin(self, pages: U8s) -> U8s:
        """The page a mirror's page copies; every other page itself. What a page is like is drawn for its twin."""
        return (self.original(site_of(pages)).astype(np.uint64) << SITE_SHIFT) | (pages & LOCAL_MASK)

    def directory(self, pages: U8s, page: I8s) -> I8s:
        """The directory, 0..31, an ordinary page lies in, `page` being its number on its host; robots.txt speaks of
        them."""
        return (mix(self.salt("directory"), self.original(site_of(pages)), page >> 4) & np.uint64(31)).astype(np.int64)

    def may_fail(self, pages: U8s) -> Bools:
        """Pages that may be missing, moved or broken: ordinary ones but the hosts' home pages."""
        _, page = self.place(pages)
        subdomains = self.kind(site_of(pages)) == Kind.SUBDOMAINS
        return np.asarray((section_of(pages) == Section.PAGES) & (page > 0) & ~subdomains)

    def status_lot(self, pages: U8s) -> Array:
        """The lot that decides what a page that may fail answers."""
        return lot(mix(self.salt("status"), self.twin(pages)))

    def missing(self, pages: U8s) -> Bools:
        """Pages that are linked to and not there. A soft-404 site answers 200 for them all the same."""
        return np.asarray(self.may_fail(pages) & (self.status_lot(pages) < lots(self.params.page_missing_share)))

    def exists(self, pages: U8s) -> Bools:
        site, section, index = site_of(pages), section_of(pages), index_of(pages)
        known = site < self.sites
        site = np.where(known, site, 0)
        inside = np.where(section == Section.PAGES, index < self.size(site), section == self.trap(site))
        valid = (section != Section.SESSION) | ((index >> 20) < self.size(site))
        valid &= (section != Section.PARAMETERS) | (index > 0)
        bits = np.frexp(index.astype(np.float64))[1]
        valid &= (section != Section.SOFT404) | (index >= 4) & (bits % 2 == 1)
        return np.asarray(known & inside & valid)

    def host_exists(self, hosts: U8s) -> Bools:
        site, number = (hosts >> np.uint64(32)).astype(np.int64), (hosts & INDEX_MASK).astype(np.int64)
        known = site < self.sites
        site = np.where(known, site, 0)
        count = self.host_count(site)
        return np.asarray(known & (number < count) & (host_pages(number, count, self.size(site)) > 0))

    def place(self, pages: U8s) -> tuple[I8s, I8s]:
        """(host number on its site, page number on its host)."""
        hosts = self.host_count(site_of(pages))
        index = np.where(section_of(pages) == Section.PAGES, index_of(pages), 0)
        return split_index(index, hosts)

    def host(self, pages: U8s) -> U8s:
        """The host's number: site << 32 | number on its site."""
        return host_number(pages, self.place(pages)[0])

    def homes(self, pages: U8s, place: tuple[I8s, I8s] | None = None) -> Bools:
        """Which are home pages of their hosts. place: that of the pages, for callers who have it."""
        _, page = self.place(pages) if place is None else place
        return np.asarray((section_of(pages) == Section.PAGES) & (page == 0))

    def truth(self, pages: U8s, when: float | Array = 0.0) -> Array:
        """Truth, u1. On a soft-404 site, ordinary pages that are missing are SOFT404 too."""
        site, section = site_of(pages), section_of(pages)
        kind = self.kind(site)
        turned = self.turn(site) <= when
        of_kind = np.array([Truth.GOOD, Truth.FARM, Truth.SUBDOMAINS, Truth.MIRROR], np.uint8)[kind]
        found = np.where(section == Section.PAGES, of_kind, section).astype(np.uint8)
        found[(kind == Kind.FARM) & turned] = Truth.GOOD
        found[(kind == Kind.GOOD) & turned] = Truth.TURNED
        lies = (self.trap(site) == Section.SOFT404) & (found == Truth.GOOD)
        found[lies & self.missing(pages)] = Truth.SOFT404
        return found

    def importance(self, pages: U8s, when: float | Array = 0.0) -> F8s:
        """What a good page is worth: its site's importance times the chance that a link to the site is a link to it.
        0 for enemies. Sums to 1 over the good web but for its soft 404s and turned sites; a farm's site that turned
        good is worth nothing to anybody."""
        site, index = site_of(pages), index_of(pages)
        within = skewed_probability(index, self.size(site), self.params.skew)
        return np.where(self.truth(pages, when) == Truth.GOOD, self.site_importance(site) * within, 0.0)

    # Hosts: columns of host numbers, u8

    def address(self, hosts: U8s) -> I8s:
        """The number of its address, 0..address_count-1. A site's hosts share up to four; popular addresses carry many
        sites; infinite subdomains all have one."""
        site = hosts >> np.uint64(32)
        spread = np.where(self.kind(site.astype(np.int64)) == Kind.SUBDOMAINS, 0, hosts & np.uint64(3))
        return self._hosting.rank(uniform(mix(self.salt("address"), site, spread)))


def finish_again(h: U8s) -> U8s:
    """A second, independent hash out of a first."""
    return mix(0x5851F42D4C957F2D, h)


def host_number(pages: U8s, number: I8s) -> U8s:
    """The hosts of pages that are on host `number` of their site each."""
    return ((pages >> SITE_SHIFT) << np.uint64(32)) | number.astype(np.uint64)


def split_index(index: I8s, hosts: I8s) -> tuple[I8s, I8s]:
    """(host, page on it): the even half of a site of several hosts is its host 0, the odd half is dealt out to the
    others."""
    host, page = np.zeros(len(index), np.int64), index.copy()
    several = np.flatnonzero(hosts > 1)
    page[several] >>= 1
    odd = several[(index[several] & 1) == 1]
    page[odd], host[odd] = np.divmod(page[odd], hosts[odd] - 1)
    host[odd] += 1
    return host, page


def join_index(host: I8s, page: I8s, hosts: I8s) -> I8s:
    """The inverse of split_index."""
    index = page.copy()
    several = np.flatnonzero(hosts > 1)
    index[several] <<= 1
    odd = several[host[several] > 0]
    index[odd] = 2 * (page[odd] * (hosts[odd] - 1) + host[odd]) - 1
    return index


def host_pages(host: I8s, hosts: I8s, size: I8s) -> I8s:
    """How many of a site's pages are on a host."""
    half = size // 2
    dealt = (half - host + hosts - 1) // np.maximum(hosts - 1, 1)
    return np.where(hosts == 1, size, np.where(host == 0, size - half, dealt))


def _count(n: float) -> int:
    return max(1, round(n)) if n else 0
