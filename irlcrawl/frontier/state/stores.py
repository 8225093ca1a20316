"""The stores that a catalogue names, opened: for the crawl that writes them and for readers beside it."""

from __future__ import annotations

from dataclasses import dataclass

from drum import Catalog, Repository, SegmentPool

from budgets import BudgetParams, Sites, Worth
from irlcrawl.base.keys import name_key
from irlcrawl.config.keys import Config
from irlcrawl.config.lists import ranked_floors
from irlcrawl.config.overrides import Overrides
from irlcrawl.frontier.state.calendar import Calendar, Pages
from irlcrawl.frontier.state.hosts import OPS_OF_URLS, RECORD
from irlcrawl.frontier.state.known_pages import KNOWN
from irlcrawl.frontier.state.near import NearDuplicates
from irlcrawl.frontier.state.runs import Runs


@dataclass(frozen=True, slots=True)
class Stores:
    seen: Repository
    sites: Sites
    hosts: Repository
    calendar: Calendar
    rests: Calendar
    pages: Pages
    known: Repository  # the drum `pages`
    runs: Runs
    near: NearDuplicates

    def live(self) -> dict[str, int]:
        """URLs that are not done for good, by where they are (I1); leased ones are among those in runs. `resting`:
        pages between two visits, which wait for nothing else."""
        by_op = self.hosts.pending_by_op()
        return {
            "pending": self.sites.pending_rows + sum(by_op.get(op, 0) for op in OPS_OF_URLS),
            "queued": self.sites.queued_rows,
            "deferred": self.sites.deferred_rows,
            "calendar": self.calendar.rows,
            "rests": self.rests.rows,
            "resting": self.pages.rows,
            "runs": self.runs.rows,
        }


def open_stores(catalog: Catalog, pool: SegmentPool, config: Config, ram_bytes: int, floors: dict[int, int]) -> Stores:
    """ram_bytes: what the merge of one drum may use; floors: of budgets, by site. Damaged, OSError."""
    return Stores(
        seen=Repository("seen", catalog=catalog, pool=pool, values={}, ram_bytes=ram_bytes),
        sites=open_sites(catalog, pool, config, ram_bytes, floors),
        hosts=Repository("hosts", catalog=catalog, pool=pool, values=RECORD, ram_bytes=ram_bytes),
        calendar=Calendar(catalog, pool, "calendar"),
        rests=Calendar(catalog, pool, "rests"),
        pages=Pages.open(catalog, pool),
        known=Repository("pages", catalog=catalog, pool=pool, values=KNOWN, ram_bytes=ram_bytes),
        runs=Runs(catalog, pool),
        near=NearDuplicates(catalog, pool, ram_bytes),
    )


def budget_floors(config: Config) -> dict[int, int]:
    """Site key -> the least budget that the operator gives it: budget_min, else by its rank. ConfigError."""
    ranked = {name_key(site.encode()): floor for site, floor in ranked_floors(config).items()}
    return ranked | Overrides(config.site).budget_min_by_site()


def open_sites(catalog: Catalog, pool: SegmentPool, config: Config, ram_bytes: int, floors: dict[int, int]) -> Sites:
    """The budgets, as the configuration has them."""
    budgets = config.budgets
    return Sites(
        catalog=catalog,
        pool=pool,
        params=BudgetParams(budgets.base, budgets.top_sites, budgets.top_budget, budgets.curve),
        ram_bytes=ram_bytes,
        site_pages_max=config.limits.pages_per_site,
        site_limits=Overrides(config.site).pages_max_by_site(),
        worth=Worth(
            weight=budgets.yield_weight,
            unsupported=budgets.unsupported,
            seed_floor=budgets.seed_floor,
            hops=budgets.hops,
            nearness=budgets.home_nearness,
            floors=floors,
        ),
        ordered=True,
    )
