"""What checking URLs costs on disk: the paper's model, this library's, and this library as it is.

First alpha(n, R) by the paper's formulas. Then what they give, for RAM from 10 MB to 16 GB, for the often-quoted claim
that at IRLbot's size (375 billion links) Mercator-B would be 3,075 times slower, at 1.4 pages/s. Then bytes per link of
this library by `drum.cost.Seen`, as its own rules size merges and buckets. Last, real runs whose bytes are counted,
beside what the model says of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from drum import Batch, Drum, Ragged, cost
from drum.cost import Paper, Seen, Traffic
from drum.library.drum import KEYS_EIGHTHS

import numpy as np

from bench.seen.counting import CountingFiles
from bench.seen.stream import splitmix64
from tools.options import share, whole

PAGES = (800e6, 8e9, 80e9, 800e9)
LINKS_PER_PAGE = 59
IRLBOT_LINKS = 3.75e11
CLAIM_TIMES, CLAIM_PAGES_PER_S = 3075, 1.4
RAM = (10e6, 30e6, 100e6, 300e6, 1e9, 2e9, 4e9, 8e9, 16e9)
SIZES = (1e8, 1e9, 1e10)
DISK = 4.39e12

Row = dict[str, float]


def paper_table() -> list[Row]:
    """alpha of each method with 1 GB of RAM, by pages crawled."""
    rows = []
    for pages in PAGES:
        n = pages * LINKS_PER_PAGE
        rows.append({
            "pages": pages, "mercator_b": round(Paper().mercator_b(n), 2), "polybot": round(Paper().polybot(n)),
            "drum_4tb": round(Paper(D=DISK).drum(n), 3), "drum": round(Paper().drum(n), 3),
        })  # fmt: skip
    return rows


def claim() -> list[Row]:
    """At IRLbot's size: alpha of both with the same RAM, their ratio, Mercator-B against DRUM with 1 GB, and what
    Mercator-B would crawl where DRUM with 1 GB crawls as much as the claim says."""
    best = Paper(U=0, D=DISK, R=1e9).drum(IRLBOT_LINKS)
    rows = []
    for ram in RAM:
        paper = Paper(U=0, D=DISK, R=ram)
        mercator, drum = paper.mercator_b(IRLBOT_LINKS), paper.drum(IRLBOT_LINKS)
        rows.append({
            "ram_bytes": ram, "mercator_b": round(mercator, 1), "drum": round(drum, 2),
            "times_same_ram": round(mercator / drum, 1), "times_drum_1gb": round(mercator / best, 1),
            "mercator_b_pages_per_s": round(CLAIM_TIMES * CLAIM_PAGES_PER_S * best / mercator, 1),
        })  # fmt: skip
    return rows


def ram_of_the_claim() -> float:
    """Bytes of RAM with which Mercator-B is as slow as claimed against DRUM with 1 GB (alpha falls with 1/R)."""
    best = Paper(U=0, D=DISK, R=1e9).drum(IRLBOT_LINKS)
    beyond = Paper(U=0, R=1.0).mercator_b(IRLBOT_LINKS) - Paper(U=0, R=2.0).mercator_b(IRLBOT_LINKS)
    return 2 * beyond / (CLAIM_TIMES * best - 2 - Paper().p)


def predicted(links: float, ram_bytes: int, surviving: float, aux_bytes: float) -> Row:
    """This library from an empty store: one link in nine is new, `surviving` of them pass the cache."""
    paper = Paper(R=ram_bytes, U=0)
    row_bytes = cost.KEY_BYTES + aux_bytes
    ram_rows = int(ram_bytes // 4 / row_bytes) if aux_bytes else ram_bytes // 8 * KEYS_EIGHTHS // cost.KEY_BYTES
    bucket, buckets, total, stored, done = Seen([], aux_bytes), 1, Traffic(), 0.0, 0.0
    while done < links * surviving:
        rows = cost.merge_rows(int(stored), ram_rows, row_bytes)
        while stored * cost.KEY_BYTES / buckets > ram_bytes / 2:
            bucket.halve()
            buckets *= 2
        new = rows * paper.p / surviving
        packed = cost.packed_bytes(min(rows, ram_rows))
        here = bucket.merge(int(rows / buckets), int(new / buckets), rows > ram_rows, key_bytes=packed)
        total += Traffic(here.read * buckets, here.written * buckets)
        stored += new
        done += rows
    scale = links * surviving / done
    return {
        "links": links, "alpha_mercator_b": round(paper.mercator_b(links), 2),
        "alpha_drum": round(paper.drum(links), 3),
        "alpha_here": round((total.read + total.written) * scale / (links * paper.b), 3),
        "read_bytes_per_link": round(total.read * scale / links, 1),
        "written_bytes_per_link": round(total.written * scale / links, 1),
        "disk_bytes_per_key": round(cost.store_bytes(int(stored)) / stored, 2), "buckets": buckets,
        "slices": buckets * len(bucket.slices),
    }  # fmt: skip


def measured(rows: int, merges: int, spilled: bool, aux_bytes: int, seed: int, ram_bytes: int = 1 << 30) -> Row:
    """A store built by merges of distinct and repeated keys, and what the model says of the same merges; with little
    RAM in as many buckets as there were."""
    files = CountingFiles()
    model, buckets, traffic = Seen([], aux_bytes), 1, Traffic()
    random = np.random.default_rng(seed)
    with (
        tempfile.TemporaryDirectory(prefix="bench-model-") as path,
        Drum(Path(path) / "drum", emit=_nothing, ram_bytes=ram_bytes, merge_rows=1 << 62, files=files) as drum,
    ):
        drum.recent = None  # every row counts
        for _ in range(merges):
            known = drum.rows
            repeats = np.unique(random.integers(0, max(known, 1), rows // 2 if known else 0))
            fresh = np.arange(known, known + rows - len(repeats))
            keys = splitmix64(np.concatenate([repeats, fresh]).astype(np.uint64))
            if aux_bytes:  # random bytes: nothing for the compressor
                blob = np.frombuffer(random.bytes(rows * (aux_bytes - 4)), np.uint8)
                drum.add(keys, url=Ragged.from_lengths(blob, np.full(rows, aux_bytes - 4)))
            else:
                drum.add(keys)
            if spilled:
                drum.spill()
            merged = drum.merge()
            while buckets < merged.buckets:
                model.halve()
                buckets *= 2
            packed = cost.KEY_BYTES if aux_bytes else cost.packed_bytes(rows)
            one = model.merge(rows // buckets, len(fresh) // buckets, spilled, key_bytes=packed)
            traffic += Traffic(one.read * buckets, one.written * buckets)
    links = rows * merges
    return {
        "links": links, "buckets": buckets, "spilled": spilled, "aux_bytes": aux_bytes,
        "read_bytes_per_link": round(files.bytes_read / links, 2),
        "read_bytes_per_link_model": round(traffic.read / links, 2),
        "written_bytes_per_link": round(files.bytes_written / links, 2),
        "written_bytes_per_link_model": round(traffic.written / links, 2),
        "read_times_model": round(files.bytes_read / traffic.read, 3),
        "written_times_model": round(files.bytes_written / traffic.written, 3),
    }  # fmt: skip


def _nothing(batch: Batch) -> None:
    pass


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ram-mib", type=whole(1), default=256, help="of this library (default 256)")
    parser.add_argument(
        "--surviving", type=share(zero=False), default=0.4, help="share of links past the cache (default 0.4)"
    )
    parser.add_argument("--aux-bytes", type=whole(0), default=0, help="stored with a waiting key (default 0)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    args = parser.parse_args(argv)
    tables = {
        "alpha by the paper, 1 GB of RAM": paper_table(),
        f"IRLbot's {IRLBOT_LINKS:.3g} links: Mercator-B against DRUM": claim(),
        f"this library, {args.ram_mib} MiB": [
            predicted(n, args.ram_mib << 20, args.surviving, args.aux_bytes) for n in SIZES
        ],
        "measured beside the model": [
            measured(500_000, 12, False, 0, args.seed),
            measured(300_000, 8, True, 0, args.seed),
            measured(100_000, 6, True, 70, args.seed),
            measured(300_000, 14, False, 0, args.seed, ram_bytes=16 << 20),
            measured(300_000, 14, True, 0, args.seed, ram_bytes=16 << 20),
        ],
    }
    if args.json:
        print(json.dumps({"bench": "model", "ram_of_the_claim": ram_of_the_claim(), **tables}))
        return 0
    for title, rows in tables.items():
        names = list(rows[0])
        print(f"\n{title}\n" + "  ".join(f"{name:>{max(len(name), 8)}}" for name in names))
        for row in rows:
            print("  ".join(f"{row[name]:>{max(len(name), 8)}g}" for name in names))
    print(
        f"\n{CLAIM_TIMES:,} times slower at {CLAIM_PAGES_PER_S} pages/s is what the formulas give for Mercator-B with "
        f"{ram_of_the_claim() / 1e6:.1f} MB of RAM against DRUM with 1 GB."
    )
    return 0
