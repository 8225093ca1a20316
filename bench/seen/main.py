"""How many links a CPU-second a seen-check takes: drum, and what people use today, on the same stream in the same run.

Every system is a process of its own with the same RAM setting, checks the same links (bench/seen/stream.py) by its best
batch interface, and is held to the right verdicts: the number of new keys and which they are. Bytes are what it asked
the file system for (`bytes_from` says where they were counted). Making the stream is outside the clocks; they stop when
the last verdict was delivered and the store is durable.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.options import share, whole, wholes


def main(argv: list[str]) -> int:
    """Exit codes: 0 measured, 1 the crawl could not be measured, 4 wrong usage. Wrong verdicts are a traceback."""
    from bench.seen import plan, table
    from bench.seen.register import register

    args = _arguments(argv, list(register()))
    systems = args.systems.split(",") if args.systems else list(register())
    unknown = [name for name in systems if name not in register()]
    if unknown:
        print(f"no system {unknown[0]!r}; there are: {', '.join(register())}", file=sys.stderr)
        return 4
    cases = _cases(args)
    if not cases and not args.beside_crawl:
        print("without --keys, --store is of 0, 2e7, 1e8 and 1e9", file=sys.stderr)
        return 4
    directory = Path(args.dir or tempfile.mkdtemp(prefix="bench-seen-"))
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"bench seen --dir: {error}", file=sys.stderr)
        return 4
    bench = plan.Bench(
        directory, args.ram_mib << 20, args.seed, args.duplicates, args.aux_bytes,
        say=lambda words: print(words, file=sys.stderr, flush=True), sites=args.sites, zipf=args.site_sizes == "zipf",
    )  # fmt: skip
    try:
        if args.beside_crawl:
            return _beside(directory, args)
        rows = table.medians(bench.rounds(cases, systems, args.rounds))
    finally:
        if args.dir is None:
            shutil.rmtree(directory)
    print("\n".join(map(json.dumps, rows)) if args.json else table.text(rows))
    return 0


def _beside(directory: Path, args: argparse.Namespace) -> int:
    from bench.seen import beside
    from tools.docsweb.sets import DocswebError

    try:
        store = args.store[0] if args.store else 100_000_000
        result = beside.measure(directory, store, args.keys or beside.LINKS, args.workers)
    except (DocswebError, RuntimeError) as error:
        print(f"bench seen --beside-crawl: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result) if args.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def _cases(args: argparse.Namespace) -> tuple[Any, ...]:
    from bench.seen.plan import DEFAULT, FULL, Case

    if args.keys is None:
        stores = set(args.store) if args.store else None
        planned = FULL if args.full or stores else DEFAULT
        return tuple(case for case in planned if stores is None or case.store in stores)
    return tuple(
        Case(f"{store:,} stored" + ", uniform repeats" * uniform, store, args.keys, args.keys, store, uniform)
        for store in args.store or [0]
        for uniform in (False, True)
        if args.repeats in ("both", ("skewed", "uniform")[uniform])
    )


def _arguments(argv: list[str], systems: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench seen", description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="stores of 100 M and 1 G keys, too: about 20 minutes, 40 GB"
    )
    parser.add_argument("--keys", type=whole(1), help="links, for every system; default: what each has time for")
    parser.add_argument(
        "--store", type=wholes(0), help="keys stored before, a list; without --keys, of 0, 2e7, 1e8, 1e9"
    )
    parser.add_argument("--duplicates", type=share(), default=0.9, help="share of repeats (default %(default)s)")
    parser.add_argument("--repeats", choices=("skewed", "uniform", "both"), default="skewed", help="with --keys")
    parser.add_argument(
        "--ram-mib", type=whole(1), default=256, help="RAM setting of every system (default %(default)s)"
    )
    parser.add_argument("--aux-bytes", type=whole(0), default=0, help="a URL of so many bytes waits with every link")
    parser.add_argument(
        "--sites", type=whole(0), default=0, help="keys go by site, as a crawl's, of so many; 0: they are uniform"
    )
    parser.add_argument("--site-sizes", choices=("equal", "zipf"), default="equal", help="with --sites")
    parser.add_argument("--systems", help=f"comma-separated (default {','.join(systems)})")
    parser.add_argument("--rounds", type=whole(1), default=1, help="alternating; with 5, ratios (default %(default)s)")
    parser.add_argument("--beside-crawl", action="store_true", help="what a crawl feels of a merge (of 100 M keys)")
    parser.add_argument("--workers", type=whole(0), default=0, help="of that crawl; 0 is one per core")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", help="keep seeded stores and every row (rows.jsonl) here (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="a JSON line for each system and store")
    return parser.parse_args(argv)
