"""A crawl reduced to its sites: turns, commits and reopening around `Sites`, with the model of the rules alongside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from drum import Batch, Catalog, Edits, Files, Ragged, SegmentPool, SegmentWriter

import numpy as np
from beast_model import Model, Record

from budgets import RECORD, BudgetParams, Histogram, Sites, Worth
from irlcrawl.base.keys import pair_key

SITE_STEP = 0x9E3779B97F4A7C15


def key_of(site: int) -> int:
    """Keys of sites 0, 1, 2, … spread over the key space."""
    return (site + 1) * SITE_STEP % 2**64


def urls_of(sites: Iterable[int], first: int) -> Batch:
    """One URL for each of `sites`, numbered from `first`: the number is its key, its URL and (mod) its depth."""
    keys = [key_of(site) for site in sites]
    numbers = np.arange(first, first + len(keys), dtype="u8")
    return Batch({
        "key": numbers, "site": np.array(keys, "u8"), "host": np.array(keys, "u8"),
        "depth": (numbers % 1000).astype("u2"), "url": Ragged.from_list(b"u%d" % n for n in numbers.tolist()),
    })  # fmt: skip


def freeze(params: BudgetParams) -> Callable[[list[int]], Callable[[int], int]]:
    """Budgets from a list of all in-degrees, for the model (test_star.py tests them against a ranking)."""

    def budgets(degrees: list[int]) -> Callable[[int], int]:
        histogram = Histogram()
        after = np.array(degrees, "u4")
        histogram.change(np.zeros_like(after), after)
        star = histogram.star(params)
        return lambda degree: int(star.budgets(np.array([degree], "u4"))[0])

    return budgets


class Crawl:
    """`sites` under test in directory `root`. Every method may be called in any order; a turn's writer stays open over
    several of them until `commit`."""

    def __init__(
        self, root: Path, params: BudgetParams, ram_bytes: int = 4 << 20, quota: int = 0,
        limits: dict[int, int] | None = None, worth: Worth | None = None,
    ) -> None:  # fmt: skip
        self.worth = worth
        self.root, self.params, self.ram_bytes, self.quota, self.limits = root, params, ram_bytes, quota, limits or {}
        self.files = Files()
        self.number = 0
        self.arrived = 0
        self.drained: list[tuple[int, int]] = []
        self.excluded: list[int] = []
        self.seen: list[bytes] = []
        self.lows: list[list[int]] = []  # of the buckets, after each merge of the sites drum
        self.writer: SegmentWriter | None = None
        self.edits = Edits()
        self.open()

    def open(self) -> None:
        self.catalog = Catalog.open(self.root, self.files)
        self.catalog.sweep()
        self.pool = SegmentPool(self.files, self.root)
        self.sites = Sites(
            catalog=self.catalog, pool=self.pool, params=self.params, ram_bytes=self.ram_bytes,
            site_pages_max=self.quota, site_limits=self.limits, worth=self.worth,
        )  # fmt: skip
        merge = self.sites._sites.merge

        def logged(*args: object, **kwargs: object) -> object:
            stats = merge(*args, **kwargs)  # type: ignore[arg-type]
            self.lows.append([bucket.lo for bucket in self.sites._sites.buckets])
            return stats

        self.sites._sites.merge = logged  # type: ignore[method-assign, assignment]

    def turn(self) -> SegmentWriter:
        if self.writer is None:
            self.number += 1
            self.writer = SegmentWriter(self.files, self.root / f"turn-{self.number:06d}.seg")
        return self.writer

    def pairs(self, pairs: list[tuple[int, int]]) -> None:
        """Links from site to site, as a harvest brings them."""
        keys = np.array([a * 1000 + b for a, b in pairs], "u8") * np.uint64(SITE_STEP)
        self._pend(keys, [(key_of(a), key_of(b)) for a, b in pairs])

    def named_pairs(self, pairs: list[tuple[int, int]]) -> None:
        """The same, of keys of sites."""
        self._pend(np.array([pair_key(a, b) for a, b in pairs], "u8"), pairs)

    def yields(self, rows: list[tuple[int, int]]) -> None:
        """(site, novel) of fetches, as a harvest brings them."""
        self.number += 1
        name = f"harvest-{self.number:06d}.seg"
        keys, novel = np.array([key_of(a) for a, _ in rows], "u8"), np.array([n for _, n in rows], "u1")
        with SegmentWriter(self.files, self.root / name) as writer:
            writer.section("yields", {"key": "u8", "novel": "u1"}).append(Batch({"key": keys, "novel": novel}))
        self.sites.pend_yields(self.edits, self.number, name, "yields")

    def _pend(self, keys: np.ndarray, pairs: list[tuple[int, int]]) -> None:
        self.number += 1
        name = f"harvest-{self.number:06d}.seg"
        source, target = (np.array(column, "u8") for column in zip(*pairs, strict=True))
        columns = {"key": keys, "site": target, "from": source}
        with SegmentWriter(self.files, self.root / name) as writer:
            writer.section("pairs", {"key": "u8", "site": "u8", "from": "u8"}).append(Batch(columns))
        self.sites.pend_pairs(self.edits, self.number, name, "pairs")

    def urls(self, sites: list[int]) -> None:
        self.sites.pend_urls(urls_of(sites, self.arrived))
        self.arrived += len(sites)

    def exclude(self, batch: Batch) -> None:
        self.excluded += batch["key"].tolist()

    def merge(self) -> None:
        self.sites.merge(self.turn(), self.edits, self.exclude)

    def rotate(self, rows: int) -> list[tuple[int, int]]:
        """The (site key, URL number) drained; every column must be as it came."""
        out: list[tuple[int, int]] = []

        def emit(batch: Batch) -> None:
            assert list(batch.columns) == ["key", "site", "host", "depth", "url"]
            assert batch["url"].tolist() == [b"u%d" % n for n in batch["key"].tolist()]
            assert (batch["depth"] == batch["key"] % 1000).all() and (batch["host"] == batch["site"]).all()
            out.extend(zip(batch["site"].tolist(), batch["key"].tolist(), strict=True))

        done = self.sites.rotate(self.turn(), self.edits, rows, emit, self.exclude)
        assert done.rows == len(out)
        self.drained += out
        return out

    def commit(self) -> None:
        self.sites.spill(self.turn(), self.edits)
        self.turn().finish()
        self.catalog.commit(self.edits)
        self.pool.forget(self.catalog.collect())
        self.writer, self.edits = None, Edits()

    def reopen(self) -> None:
        self.commit()
        self.catalog.close()
        self.pool.close()
        self.open()

    def balance(self) -> None:
        """Conservation, from outside: every URL that came is in one place."""
        sites = self.sites
        where = (sites.queued_rows, sites.deferred_rows, sites.pending_rows, len(self.drained), len(self.excluded))
        assert sum(where) == self.arrived, where
        assert sites.discovered == self.arrived - sites.pending_rows
        assert sites.rereads <= 2 * sites.discovered
        sites.check()


def record_of(sites: Sites, key: int) -> Record:
    found = sites.site(key)
    if found is None:
        return Record()
    return Record(*(getattr(found, name) for name in RECORD))


def model_of(crawl: Crawl) -> Model:
    frozen = freeze(crawl.params)
    return Model(frozen([]), lambda site: crawl.quota, frozen)
