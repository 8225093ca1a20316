"""`python -m tests.cluster [--runs N] [--first SEED]`: crawls with machines in virtual time, with a bad network and
some kills, at most three, all drawn from a seed each. Prints what failed, and ends with 1 if anything did."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest

from irlcrawl.base.exit_codes import ExitCode
from tests.cluster.test_cluster import HOSTS, KILLED, Anything, cluster, gaps, killed
from tests.cluster.virtual_cluster import Weather

KILLS_MAX = 3
TOLD = 50


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    kills = repeats = 0
    failed = list[int]()
    for seed in range(options.first, options.first + options.runs):
        try:
            more, again = run(seed)
            kills, repeats = kills + more, repeats + again
        except Exception:
            failed.append(seed)
            print(f"seed {seed}:\n{traceback.format_exc(limit=-3)}", flush=True)
        if (seed + 1 - options.first) % TOLD == 0:
            done = seed + 1 - options.first
            print(f"{done} runs, {kills} kills, {repeats} repeats, failed: {failed}", flush=True)
    return 1 if failed else 0


def run(seed: int) -> tuple[int, int]:
    """(kills, URLs asked again). AssertionError where a promise was broken."""
    rng = random.Random(seed)
    weather = Weather(rng.uniform(0, 0.5), rng.uniform(0, 0.5), rng.uniform(0, 3), seed)
    kinds = [rng.choice(KILLED) for _ in range(rng.randint(0, KILLS_MAX))]
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        crawl, urls = cluster(Path(directory), patched, weather)
        crawl.archived = Anything()

        async def kill(_: Any) -> None:
            for kind in kinds:
                await killed(crawl, kind, rng, rng.uniform(1.0, 12.0))
                if "machine" in kind:
                    await asyncio.sleep(6.0)  # it was started again

        assert crawl.run(kill) is ExitCode.DONE, (weather, kinds)
        assert sorted(crawl.outcomes()) == urls, (weather, kinds)
        repeats = sum(crawl.web.pages_asked.values()) - len(urls)
        assert repeats <= HOSTS * len(kinds), (repeats, weather, kinds)
        assert gaps(crawl) >= 1.0, (weather, kinds)
    return len(kinds), repeats


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
