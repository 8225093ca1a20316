"""`python -m tests.fuzz [PARSER ...] --minutes N`: mutated seeds for N CPU-minutes a parser. Ends with 1 at the first
finding, and prints its bytes; keep them in test_fuzz.py. Also told: the slowest input, in CPU-seconds a MB."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.mutate import mutated
from tests.fuzz.parsers import PARSERS

SLOW_SECONDS = 0.5
"""CPU-seconds that no input of at most 64 KiB may take."""


def fuzz(name: str, seconds: float, seed: int) -> bool:
    """Whether nothing was found."""
    seeds, check = PARSERS[name]()
    pool, rng = list(seeds), random.Random(seed)
    began, count, worst, worst_data = time.process_time(), 0, 0.0, b""
    while time.process_time() - began < seconds:
        data = mutated(pool, rng)
        start = time.process_time()
        try:
            check(data)
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(line.filename).name}:{line.lineno}"
            print(f"{name}: {type(error).__name__} at {where}: {str(error)[:500]}\n  {data!r}"[:20_000], flush=True)
            return False
        took = time.process_time() - start
        if took > worst:
            worst, worst_data = took, data
        if took > SLOW_SECONDS:
            print(f"{name}: {took:.2f} CPU-s for {len(data)} bytes\n  {data[:300]!r}", flush=True)
            return False
        count += 1
        if rng.random() < 0.02:  # what was reached may lead further
            pool = [*seeds, *pool[len(seeds) :][-50:], data[:8192]]
    print(f"{name}: {count} inputs, the slowest {worst * 1000:.0f} ms for {len(worst_data)} bytes", flush=True)
    return True


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
