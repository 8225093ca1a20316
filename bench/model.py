"""What checking URLs costs on disk: the paper's model, this library's, and this library as it is.

For each crawl size: alpha(n, R) of Mercator-B and DRUM by the paper's formulas, and bytes per link of this library by
`drum.cost.Seen` at the same share of new URLs, with the RAM given, merging when a quarter of the store waits. Then a
short real run whose bytes are counted, beside what the model says of it.
"""

from __future__ import annotations

import argparse
import json
import tempfile

import numpy as np

from bench.seen import CountingFiles, splitmix64
from drum import Batch, Drum
from drum.cost import Paper, Seen, Traffic

SIZES = (1e8, 1e9, 1e10)


def predicted(links: float, ram_bytes: float, surviving: float, aux_bytes: float) -> dict[str, float]:
    """Both models for a crawl that starts empty and parses so many links, one in nine of them new."""
    paper = Paper(R=ram_bytes, U=0)
    merge_rows = max(1e6, ram_bytes / 4 / 8)
    seen, total, stored, done = Seen([], aux_bytes), Traffic(), 0.0, 0.0
    while done < links * surviving:
        rows = max(merge_rows, stored / 4)
        new = rows * paper.p / surviving
        total += seen.merge(int(rows), int(new), spilled=True)
        stored += new
        done += rows
    scale = links * surviving / done
    return {
        "links": links, "alpha_mercator_b": round(paper.mercator_b(links), 2),
        "alpha_drum": round(paper.drum(links), 3),
        "alpha_here": round((total.read + total.written) * scale / (links * paper.b), 3),
        "bytes_read_per_link": round(total.read * scale / links, 1),
        "bytes_written_per_link": round(total.written * scale / links, 1), "slices": len(seen.slices),
    }  # fmt: skip


def measured(rows: int, merges: int, seed: int) -> dict[str, float]:
    """A store built by merges of distinct and repeated keys, all in RAM before each."""
    files = CountingFiles()
    model, traffic = Seen([]), Traffic()
    random = np.random.default_rng(seed)
    handed = [0]

    def emit(batch: Batch) -> None:
        handed[0] += batch.rows

    with (
        tempfile.TemporaryDirectory(prefix="bench-model-") as path,
        Drum(path, emit=emit, ram_bytes=1 << 30, merge_rows=1 << 62, files=files) as drum,
    ):
        drum.recent = None  # every row counts
        for _ in range(merges):
            known = drum.rows
            repeats = random.integers(0, max(known, 1), rows // 2 if known else 0)
            fresh = np.arange(known, known + rows - len(repeats))
            drum.add(splitmix64(np.concatenate([repeats, fresh]).astype(np.uint64)))
            drum.merge()
            distinct = len(fresh) + len(np.unique(repeats))
            traffic += model.merge(rows, len(fresh), spilled=False, distinct=distinct)
    links = rows * merges
    return {
        "links": links, "bytes_read_per_link": round(files.bytes_read / links, 2),
        "bytes_read_per_link_model": round(traffic.read / links, 2),
        "bytes_written_per_link": round(files.bytes_written / links, 2),
        "bytes_written_per_link_model": round(traffic.written / links, 2),
    }  # fmt: skip


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ram-mib", type=int, default=256)
    parser.add_argument("--surviving", type=float, default=0.4, help="share of links past the cache (default 0.4)")
    parser.add_argument("--aux-bytes", type=float, default=110, help="stored with a waiting key (default 110)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    args = parser.parse_args(argv)
    rows = [predicted(n, args.ram_mib << 20, args.surviving, args.aux_bytes) for n in SIZES]
    real = measured(500_000, 12, args.seed)
    if args.json:
        print(json.dumps({"bench": "model", "predicted": rows, "measured": real}))
    else:
        for row in (*rows, real):
            print("  ".join(f"{name}={value:g}" for name, value in row.items()))
    return 0
