"""`python -m tests.crash [--jobs N] [--every K] [--seed S]`: the whole crash matrix.

Every change to the disk that the reference crawl makes, three disk outcomes each: crash, reopen, finish, check; and as
many times again with recoveries that are cut off themselves. A failure names what repeats it:
`python -m tests.crash --only AT OUTCOME CRASHES`.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import random
import sys
import time
import traceback
from typing import get_args

from tests.crash import crawl
from tests.crash.disk import Disk, Outcome

RECOVERIES = 10
"""One in so many is cut off again while it recovers, up to three times."""
PART = 40
"""Moments that one process takes at once."""
SHOWN_MAX = 10


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
        _, disk = next(crawl.disks(told, lambda n: n == at))
        crawl.resume(told, crawl.crashed(told, disk, at, outcome, options.seed), at, outcome, options.seed, crashes)
        return 0
    began = time.monotonic()
    told = crawl.reference()
    moments = [at for at in range(len(told.changes) + 1) if at % options.every == options.seed % options.every]
    parts = [(moments[first : first + PART], options.seed) for first in range(0, len(moments), PART)]
    random.Random(options.seed).shuffle(parts)  # so that a run that is stopped has seen some of everything
    crashes, failures = 0, list[str]()
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for number, results in enumerate(pool.imap_unordered(_part, parts), 1):
            crashes += len(results)
            failures += [failure for failure in results if failure]
            print(
                f"{number} of {len(parts)} parts of {len(told.changes)} changes ({told.commits} commits, "
                f"{told.ledger['discovered']} URLs): {crashes} crashes, {len(failures)} failures, "
                f"{time.monotonic() - began:.0f} s", flush=True,
            )  # fmt: skip
            for failure in failures[:SHOWN_MAX] if any(results) else ():
                print(failure)
    return 1 if failures else 0


@functools.cache
def _told() -> crawl.Reference:
    return crawl.reference()


def _part(work: tuple[list[int], int]) -> list[str]:
    """How each crash at these moments failed; nothing where it did not."""
    moments, seed = work
    told, found = _told(), []
    for at, disk in crawl.disks(told, set(moments).__contains__):
        for number, outcome in enumerate(get_args(Outcome)):
            found.append(_one(told, at, disk, outcome, seed, 0))
            if (at + number) % RECOVERIES == 0:
                found.append(_one(told, at, disk, outcome, seed, 1 + at % 3))
    return found


def _one(told: crawl.Reference, at: int, disk: Disk, outcome: Outcome, seed: int, crashes: int) -> str:
    """How it failed, with what repeats it, or nothing."""
    name = f"--only {at} {outcome} {crashes} --seed {seed}"
    try:
        crawl.resume(told, crawl.crashed(told, disk, at, outcome, seed), at, outcome, seed, crashes)
        return ""
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-4:])
        last = told.changes[at - 1][:2] if at else "nothing"
        return f"{type(error).__name__}: {error}\n  {name} after {last}\n{where}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
