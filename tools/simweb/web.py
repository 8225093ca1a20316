"""One simulated web: everything that can be asked of it, in one object. README.md defines what the answers are."""

from __future__ import annotations

from drum.ragged import Batch, Ragged

import numpy as np

from tools.simweb import answers as _answers
from tools.simweb import robots as _robots
from tools.simweb.links import Links, links
from tools.simweb.mix import Array, Bools, F8s, I8s, U8s, below, finish52, mix, take_prefix, unfinish52, uniform
from tools.simweb.names import Names
from tools.simweb.params import Params
from tools.simweb.truth import INDEX_MASK, LOCAL_MASK, SITE_SHIFT, Section, Sites, page_number, site_of


class Web(Sites):
    """A web. Pages and hosts are columns of numbers (u8; truth.py), `when` a moment of the run from 0 to 1."""

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params or Params())
        self.names = Names(self)

    def links(self, pages: U8s, when: float = 0.0) -> Links:
        """The out-links of each page: a ragged column of pages."""
        return links(self, pages, when)

    def urls(self, pages: U8s, place: tuple[I8s, I8s] | None = None) -> Ragged:
        """The canonical URL of each page. place: that of the pages (`Sites.place`), for callers who have it."""
        return self.names.urls(pages, place)

    def pages(self, urls: Ragged) -> U8s:
        """The page of each URL; NOWHERE where no page has it."""
        return self.names.pages(urls)

    # Keys for simulators that have no use for the text of URLs; made as the crawler's are (irlcrawl/base/keys.py): the
    # first 12 bits are the site's. As good as a hash, without collisions.

    def keys(self, pages: U8s) -> U8s:
        """A 64-bit key for each page."""
        return self._keys("key", site_of(pages), pages & LOCAL_MASK)

    def keyed(self, keys: U8s) -> U8s:
        """The pages of keys that `keys` gave."""
        sites, own = self._keyed("key", keys)
        return sites.astype(np.uint64) << SITE_SHIFT | own

    def site_keys(self, sites: I8s) -> U8s:
        """A key for each site, as `keys` gives them for pages."""
        return self._keys("site key", sites, np.uint64(0))

    def keyed_sites(self, keys: U8s) -> I8s:
        """The sites of keys that `site_keys` gave."""
        return self._keyed("site key", keys)[0]

    def host_keys(self, hosts: U8s) -> U8s:
        """A key for each host, as `keys` gives them for pages."""
        return self._keys("host key", (hosts >> np.uint64(32)).astype(np.int64), hosts & INDEX_MASK)

    def keyed_hosts(self, keys: U8s) -> U8s:
        """The hosts of keys that `host_keys` gave."""
        sites, own = self._keyed("host key", keys)
        return sites.astype(np.uint64) << np.uint64(32) | own

    def pair_keys(self, origin: I8s, target: I8s) -> U8s:
        """A key for each pair of sites; these may collide."""
        return take_prefix(self.site_keys(target), mix(self.salt("pair"), origin, target))

    def _keys(self, purpose: str, sites: I8s, own: U8s | np.uint64) -> U8s:
        """own: below 2^36."""
        salt = np.uint64(self.salt(purpose) & (1 << 36) - 1)
        return finish52(self.names.shuffled(sites) << SITE_SHIFT | (own ^ salt))

    def _keyed(self, purpose: str, keys: U8s) -> tuple[I8s, U8s]:
        whole = unfinish52(keys)
        return self.names.unshuffled(whole >> SITE_SHIFT), (whole & LOCAL_MASK) ^ np.uint64(
            self.salt(purpose) & (1 << 36) - 1
        )

    def answers(self, pages: U8s, when: float | Array = 0.0, attempt: int | Array = 0) -> Batch:
        """Status, seconds, bytes, location and content of each: see answers.answers."""
        return _answers.answers(self, pages, when, attempt)

    def replies(self, pages: U8s, attempt: Array, faults: Array, hosts: U8s, of: I8s) -> tuple[Array, F8s]:
        """(status, seconds) of pages of a few hosts, page i being of hosts[of[i]], of which `faults` are known."""
        code = _answers.status(self, pages, attempt, faults[of])
        return code, _answers.latency(self, pages, code, _answers.pace(self, hosts)[of])

    def fault(self, hosts: U8s) -> Array:
        """answers.Fault of each host, u1."""
        return _answers.fault(self, hosts)

    def robots(self, hosts: U8s) -> Batch:
        """robots.txt of each host: see robots.robots."""
        return _robots.robots(self, hosts)

    def allowed(self, pages: U8s) -> Bools:
        """Whether robots.txt lets everybody fetch each page."""
        return _robots.allowed(self, pages)

    def permitted(self, pages: U8s, rules: Batch) -> Bools:
        """The same where the rules of each page's host (a row of `robots` each) are at hand."""
        return _robots.permitted(self, pages, rules)

    def seeds(self, count: int) -> U8s:
        """Home pages of up to `count` different good sites, popular and unknown alike, that answer and may be
        fetched."""
        drawn = below(uniform(mix(self.salt("seeds"), np.arange(4 * count))), self.good_sites)
        _, first = np.unique(drawn, return_index=True)
        homes = page_number(drawn[np.sort(first)], Section.PAGES, np.zeros(len(first), np.int64))
        good = (self.fault(self.host(homes)) == _answers.Fault.NONE) & self.allowed(homes)
        return homes[good][:count]
