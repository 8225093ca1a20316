"""`python -m tests.crash [--jobs N] [--every K] [--seed S]`: the whole crash matrix.

Every change to the disk that the reference crawl makes, three disk outcomes each: crash, reopen, finish, check; and as
many times again with recoveries that are cut off themselves. A failure names what repeats it:
`python -m tests.crash --only AT OUTCOME CRASHES`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from typing import get_args

from tests.crash import crawl
from tests.crash.disk import Disk, Outcome

RECOVERIES = 10
"""One in so many is cut off again while it recovers, up to three times."""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", type=int, default=1, help="only every K-th change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs=3, metavar=("AT", "OUTCOME", "CRASHES"))
    options = parser.parse_args(argv)
    if options.only:
        at, outcome, crashes = int(options.only[0]), options.only[1], int(options.only[2])
        told = crawl.reference()
        ((_, disk),) = crawl.disks(told, lambda n: n == at)
        crawl.resume(told, crawl.crashed(told, disk, at, outcome, options.seed), at, outcome, options.seed, crashes)
        return 0
    began = time.monotonic()
    context = multiprocessing.get_context("fork")
    with context.Pool(options.jobs) as pool:
        parts = [(part, options.jobs, options.every, options.seed) for part in range(options.jobs)]
        results = [result for part in pool.map(_part, parts, chunksize=1) for result in part]
    failures = [failure for _, failure in results if failure]
    told = crawl.reference()
    print(
        f"{len(told.changes)} changes to the disk, {told.commits} commits, {told.ledger['discovered']} URLs: "
        f"{len(results)} crashes, {len(failures)} failures, {time.monotonic() - began:.0f} s"
    )
    for reason, count in Counter(failure.split("\n")[0][:150] for failure in failures).most_common():
        print(f"{count} x {reason}")
    for failure in failures[:10]:
        print(failure)
    return 1 if failures else 0


def _part(work: tuple[int, int, int, int]) -> list[tuple[str, str]]:
    part, parts, every, seed = work
    told = crawl.reference()
    found = []
    for at, disk in crawl.disks(told, lambda n: n % every == seed % every and n // every % parts == part):
        for number, outcome in enumerate(get_args(Outcome)):
            found.append(_one(told, at, disk, outcome, seed, 0))
            if (at // every + number) % RECOVERIES == 0:
                found.append(_one(told, at, disk, outcome, seed, 1 + at % 3))
    return found


def _one(
    told: crawl.Reference, at: int, disk: Disk, outcome: Outcome, seed: int, crashes: int
) -> tuple[str, str]:
    """(what repeats it, how it failed or nothing)."""
    name = f"--only {at} {outcome} {crashes} --seed {seed}"
    try:
        crawl.resume(told, crawl.crashed(told, disk, at, outcome, seed), at, outcome, seed, crashes)
        return name, ""
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-4:])
        last = told.changes[at - 1][:2] if at else "nothing"
        return name, f"{type(error).__name__}: {error}\n  {name} after {last}\n{where}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
