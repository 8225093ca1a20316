"""Which systems run on which stores, each run in its own process, seeded stores made once and copied for every run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.seen.register import register
from bench.seen.run import Order
from bench.seen.stream import BATCH
from bench.seen.systems import clone

SLOW = ("rocksdb", "lmdb", "sqlite", "set", "bloom")  # too slow for the whole stream
RUN_SECONDS_MAX = 3600
ROWS = "rows.jsonl"

Row = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A store and the links it is asked. A slow system gets a piece of the same stream: fewer links, after some that
    warm its caches, and where the store grows from nothing, from the middle on. `keys_of` overrides."""

    title: str
    store: int
    keys: int
    slow_keys: int
    slow_store: int
    uniform: bool = False
    only: tuple[str, ...] = ()  # the systems that have a chance here
    left_out: tuple[tuple[str, str], ...] = ()  # those that might have one, and why they are not tried
    keys_of: tuple[tuple[str, int], ...] = ()

    def order(self, system: str) -> Order:
        slow = system in SLOW
        keys = dict(self.keys_of).get(system, self.slow_keys if slow else self.keys)
        store = self.slow_store if slow else self.store
        warm = 4 * BATCH if slow and keys != self.keys else 0
        return Order(system, "", store, keys, 0, warm=warm, uniform=self.uniform)


DEFAULT = (  # at least three merges everywhere
    Case("0 → 20 M stored", 0, 200_000_000, 4_000_000, 10_000_000, keys_of=(("mercator-b+cache", 320_000_000),)),
    Case(
        "20 M stored",
        20_000_000,
        48_000_000,
        2_500_000,
        20_000_000,
        keys_of=(("duckdb", 24_000_000), ("mercator-b+cache", 150_000_000)),
    ),
    Case(
        "20 M stored, uniform repeats",
        20_000_000,
        20_000_000,
        1_000_000,
        20_000_000,
        uniform=True,
        keys_of=(("duckdb", 12_000_000), ("mercator-b", 48_000_000), ("mercator-b+cache", 68_000_000)),
    ),
)
FULL = (  # likewise but at 1 G, where drum makes one
    *DEFAULT,
    Case(
        "100 M stored", 100_000_000, 240_000_000, 6_000_000, 100_000_000,
        only=("drum", "mercator-b", "mercator-b+cache", "rocksdb", "lmdb", "sqlite", "duckdb", "bloom"),
        keys_of=(("duckdb", 30_000_000), ("mercator-b", 67_000_000)),
    ),
    Case(
        "100 M stored, uniform repeats", 100_000_000, 60_000_000, 5_000_000, 100_000_000, uniform=True,
        only=("drum", "mercator-b", "mercator-b+cache", "lmdb"), keys_of=(("mercator-b+cache", 72_000_000),),
    ),
    Case(
        "1 G stored", 1_000_000_000, 400_000_000, 5_000_000, 1_000_000_000,
        only=("drum", "mercator-b", "mercator-b+cache"), keys_of=(("mercator-b", 50_000_000),),
        left_out=(("lmdb", "40 bytes a key (as at 100 M) are 40 GB, twice on the disk while it runs, and it reads by "
                   "page faults what no page cache here would hold"),),
    ),
)  # fmt: skip


class Failed(Exception):
    """A run that gave no result; carries what it said."""


@dataclass
class Bench:
    """Runs orders below `directory`, where seeded stores stay for the next run."""

    directory: Path
    ram_bytes: int
    seed: int
    duplicates: float
    aux_bytes: int
    say: Say
    sites: int = 0
    zipf: bool = False

    def rounds(self, cases: tuple[Case, ...], systems: list[str], rounds: int) -> Iterator[Row]:
        """A row for each round, case and system, systems alternating; those that cannot are named once and left out."""
        out: set[tuple[str, str]] = set()
        for case in cases:
            for system, why in case.left_out:
                if system in systems:
                    self.say(f"LEFT OUT {system} on {case.title}: {why}")
        for number in range(rounds):
            for case in cases:
                for system in systems:
                    never = system in dict(case.left_out) or (case.only and system not in case.only)
                    if never or (case.title, system) in out:
                        continue
                    row = self._row(case, system)
                    if row is None:
                        out.add((case.title, system))
                    else:
                        row = {**row, "case": case.title, "round": number}
                        with (self.directory / ROWS).open("a") as file:  # hours may follow, and an interruption
                            print(json.dumps(row), file=file)
                        yield row

    def _row(self, case: Case, system: str) -> Row | None:
        order = replace(
            case.order(system), ram_bytes=self.ram_bytes, seed=self.seed, duplicates=self.duplicates,
            aux_bytes=self.aux_bytes, sites=self.sites, zipf=self.zipf,
        )  # fmt: skip
        self.say(f"{case.title}: {system}, {order.keys:,} links")
        try:
            return self.run(order)
        except Failed as error:
            self.say(f"SKIPPED {system} on {case.title}: {error}")
            return None

    def run(self, order: Order) -> Row:
        """One measurement on a copy of its store. Raises Failed; RuntimeError for wrong verdicts."""
        kind = register()[order.system]
        path = self.directory / f"run-{order.system}"
        shutil.rmtree(path, ignore_errors=True)
        try:
            if order.store and kind.on_disk:
                clone(self.seeded(order), path, kind.immutable)
            said = _process(replace(order, path=str(path)), only_seed=False)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        row: Row = json.loads(said)
        return row

    def seeded(self, order: Order) -> Path:
        """The store that an order starts from, made when it is not there yet. Copy it (`systems.clone`)."""
        order = replace(order, system=register()[order.system].seeded_as or order.system)
        kind = f"-{order.sites}{'zipf' * order.zipf}" if order.sites else ""
        path = self.directory / f"seeded-{order.system}-{order.store}{kind}"
        done = self.directory / f"{path.name}.done"
        if not done.exists():
            shutil.rmtree(path, ignore_errors=True)
            self.say(f"  making a store of {order.store:,} keys for {order.system}")
            _process(replace(order, path=str(path), aux_bytes=0), only_seed=True)
            done.touch()
        return path


def _process(order: Order, only_seed: bool) -> str:
    command = [sys.executable, "-m", "bench.seen.run", json.dumps({**asdict(order), "only_seed": only_seed})]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"not done after {RUN_SECONDS_MAX:,} seconds") from error
    if ended.returncode == 4:
        raise Failed(ended.stderr.strip())
    if ended.returncode:
        raise RuntimeError(f"{order.system} ended with exit code {ended.returncode}:\n{ended.stderr[-2000:]}")
    return ended.stdout
