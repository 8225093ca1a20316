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


def fuzz(name: str, seconds: float, seed: int) -> bool:
    """Whether nothing was found."""
    seeds, check = PARSERS[name]()
    pool, rng = list(seeds), random.Random(seed)
    began, count, worst, worst_data = time.process_time(), 0, 0.0, b""
    found: set[str] = set()
    while time.process_time() - began < seconds:
        data = mutated(pool, rng)
        start = time.process_time()
        where = _fault(check, data)
        took = time.process_time() - start
        if took > worst:
            worst, worst_data = took, data
        if not where and took > SLOW_SECONDS:
            where = f"more than {SLOW_SECONDS:g} CPU-s"
        if where and where.partition(": ")[0] not in found:
            found.add(where.partition(": ")[0])
            FOUND.mkdir(exist_ok=True)
            file = FOUND / f"{name}-{hashlib.sha1(data).hexdigest()[:12]}"
            file.write_bytes(data)
            print(f"{name}: {where}\n  {file.name}: {data[:300]!r}", flush=True)
        count += 1
        if rng.random() < 0.02:  # what was reached may lead further
            pool = [*seeds, *pool[len(seeds) :][-50:], data[:8192]]
    print(f"{name}: {count} inputs, the slowest {worst * 1000:.0f} ms for {len(worst_data)} bytes", flush=True)
    return not found


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
