"""`python -m tests.fuzz [PARSER ...] --minutes N`: mutated seeds for N CPU-minutes a parser. What is found is kept in
tests/fuzz/found, one input for each line that raised, and is a test of the suite from then on (test_fuzz.py); then it
ends with 1. Also told: the slowest input."""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.mutate import mutated
from tests.fuzz.parsers import FOUND, PARSERS

SLOW_SECONDS = 0.5
"""CPU-seconds that no input of at most 64 KiB may take."""


class Finds:
    """What a parser was tried with: its faults, one input for each line that raised, and the slowest input."""

    def __init__(self, name: str, check: Callable[[bytes], None], slow_seconds: float = SLOW_SECONDS) -> None:
        self._name, self._check, self._slow = name, check, slow_seconds
        self._count, self._worst, self._worst_bytes = 0, 0.0, 0
        self.lines: set[str] = set()

    def tried(self, data: bytes) -> None:
        """Once with `data`, which is kept in FOUND if it found a fault of another line."""
        start = time.process_time()
        where = _fault(self._check, data)
        took = time.process_time() - start
        if took > self._worst:
            self._worst, self._worst_bytes = took, len(data)
        if not where and took > self._slow:
            where = f"more than {self._slow:g} CPU-s"
        line = where.partition(": ")[0]
        if where and line not in self.lines:
            self.lines.add(line)
            FOUND.mkdir(exist_ok=True)
            file = FOUND / f"{self._name}-{hashlib.sha1(data).hexdigest()[:12]}"
            file.write_bytes(data)
            print(f"{self._name}: {where}\n  {file.name}: {data[:300]!r}", flush=True)
        self._count += 1

    def told(self) -> None:
        slowest = f"the slowest {self._worst * 1000:.0f} ms for {self._worst_bytes} bytes"
        print(f"{self._name}: {self._count} inputs, {slowest}", flush=True)


def fuzz(name: str, seconds: float, seed: int) -> bool:
    """Whether nothing was found."""
    seeds, check = PARSERS[name]()
    pool, rng, finds = list(seeds), random.Random(seed), Finds(name, check)
    end = time.process_time() + seconds
    while time.process_time() < end:
        data = mutated(pool, rng)
        finds.tried(data)
        if rng.random() < 0.02:  # what was reached may lead further
            pool = [*seeds, *pool[len(seeds) :][-50:], data[:8192]]
    finds.told()
    return not finds.lines


def _fault(check: Callable[[bytes], None], data: bytes) -> str:
    """Where the check raised, and what; empty if it did not."""
    try:
        check(data)
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(line.filename).name}:{line.lineno}: {str(error)[:500]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("parser", nargs="*", metavar="PARSER", help=f"of {', '.join(PARSERS)}; without: all of them")
    parser.add_argument("--minutes", type=float, default=1.0, help="CPU-minutes a parser (default 1)")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations; without: another one each time")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    names = options.parser or list(PARSERS)
    fine = [fuzz(name, options.minutes * 60, seed) for name in names]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
