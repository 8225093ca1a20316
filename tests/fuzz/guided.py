"""`python -m tests.fuzz.guided PARSER --minutes N --corpus DIR`: one parser for N CPU-minutes, where inputs that reach
new code are kept in DIR and changed further (atheris; `pip install atheris` beside the project).

The mutations of mutate.py alone stay near the seeds: guided ones go on from where a change has led to. A process of its
own for each parser, since atheris instruments what is imported and never returns.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["irlcrawl", "drum"]):
    from tests.fuzz.__main__ import SLOW_SECONDS, Finds
    from tests.fuzz.mutate import BYTES_MAX, mutated
    from tests.fuzz.parsers import PARSERS

SLOWER = 4
"""How many times as long as other code instrumented code may take."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("parser", choices=list(PARSERS))
    parser.add_argument("--minutes", type=float, default=1.0, help="CPU-minutes (default 1)")
    parser.add_argument("--corpus", required=True, help="directory of the inputs that reached new code; made if absent")
    options = parser.parse_args()
    seeds, check = PARSERS[options.parser]()
    corpus = Path(options.corpus)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(data)
    finds = Finds(options.parser, check, SLOW_SECONDS * SLOWER)
    end = time.process_time() + options.minutes * 60

    def one(data: bytes) -> None:
        finds.tried(data)
        if time.process_time() > end:
            finds.told()
            os._exit(1 if finds.lines else 0)

    def mutator(data: bytes, bytes_max: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return mutated([data, *seeds] if rng.random() < 0.1 else [data], rng)[:bytes_max]
        return bytes(atheris.Mutate(data, bytes_max))

    arguments = [f"-max_len={BYTES_MAX}", "-rss_limit_mb=4096", "-timeout=36000", "-verbosity=0", "-len_control=20"]
    atheris.Setup(["fuzz", *arguments, str(corpus)], one, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
