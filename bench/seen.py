"""How many links a CPU-second the seen-check takes: a crawl's stream of keys against a store that outgrows its RAM.

The stream: link i is a new URL with probability 0.1, else a repeat of URL number ⌊count·u¹⁰⌋ of those so far, u
uniform in [0, 1): a few URLs are everywhere and most are rare, as on the web. Keys are splitmix64 of the URL's number.
The store is filled first, through the same code and not counted; neither is the time of making the stream.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from drum import Batch, Drum, Files
from drum.files import Data, Handle, Path

BATCH = 1 << 18
NEW_SHARE = 0.1


class CountingFiles(Files):
    """The file system, with what went through it in bytes."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.bytes_written = 0

    def write(self, handle: Handle, data: Data) -> None:
        super().write(handle, data)
        self.bytes_written += len(data)

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        data = super().pread(handle, length, offset)
        self.bytes_read += len(data)
        return data

    def read(self, path: Path) -> bytes:
        return super().read(path)  # through pread


def splitmix64(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 output function: a bijection of u8[n]."""
    z = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def stream(links: int, count: int, seed: int) -> Iterator[NDArray[np.uint64]]:
    """Batches of keys of a stream that starts with `count` URLs known."""
    random = np.random.default_rng(seed)
    for start in range(0, links, BATCH):
        size = min(BATCH, links - start)
        new = random.random(size) < NEW_SHARE
        counts = count + np.cumsum(new)
        power = random.random(size)
        power = (power * power) ** 2 * power  # u^5
        numbers = np.where(new, counts - 1, (np.maximum(counts, 1) * (power * power)).astype(np.int64))
        count = int(counts[-1])
        yield splitmix64(numbers.astype(np.uint64))


def fill(drum: Drum, rows: int) -> None:
    for start in range(0, rows, BATCH):
        drum.add(splitmix64(np.arange(start, min(start + BATCH, rows), dtype=np.uint64)))
    drum.merge()


def measure(path: str, links: int, store: int, ram_bytes: int, merge_rows: int, seed: int) -> dict[str, object]:
    files = CountingFiles()
    verdicts = [0]

    def emit(batch: Batch) -> None:
        verdicts[0] += batch.rows

    with Drum(path, emit=emit, ram_bytes=ram_bytes, files=files) as drum:
        fill(drum, store)
    expected = 0
    cpu = wall = 0.0
    verdicts[0] = files.bytes_read = files.bytes_written = 0
    drum = Drum(path, emit=emit, ram_bytes=ram_bytes, merge_rows=merge_rows, files=files)
    for keys in stream(links, store, seed):
        expected += len(keys)
        cpu -= time.process_time()
        wall -= time.perf_counter()
        drum.add(keys)
        cpu += time.process_time()
        wall += time.perf_counter()
    cpu -= time.process_time()
    wall -= time.perf_counter()
    drum.merge()
    cpu += time.process_time()
    wall += time.perf_counter()
    new = drum.rows - store
    if verdicts[0] != new:
        raise AssertionError(f"{verdicts[0]} verdicts for {new} new keys")
    assert drum.recent is not None
    drum.close()
    return {
        "bench": "seen", "links": links, "store_keys_before": store, "store_keys_after": store + new,
        "keys_per_cpu_s": round(links / cpu), "keys_per_s": round(links / wall), "merges": drum.merges,
        "links_per_verdict_delay": round(links / max(drum.merges, 1)),
        "surviving_share": round(drum.merged_rows / links, 4), "new_share": round(new / links, 4),
        "bytes_read_per_link": round(files.bytes_read / links, 2),
        "bytes_written_per_link": round(files.bytes_written / links, 2), "ram_bytes": ram_bytes,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench seen", description=__doc__)
    parser.add_argument("--links", type=float, default=60e6, help="length of the stream (default %(default)g)")
    parser.add_argument("--store", type=float, default=20e6, help="keys stored before it (default %(default)g)")
    parser.add_argument("--ram-mib", type=int, default=256, help="bound for the whole process (default %(default)d)")
    parser.add_argument("--merge-rows", type=float, default=4e6, help="rows in a merge (default %(default)g)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", help="where to make the store (default: a temporary directory)")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    args = parser.parse_args(argv)
    path = tempfile.mkdtemp(prefix="bench-seen-", dir=args.dir)
    python_bytes = 64 << 20  # interpreter, numpy and the stream's own arrays
    try:
        found = measure(
            path, int(args.links), int(args.store), (args.ram_mib << 20) - python_bytes, int(args.merge_rows), args.seed
        )
    finally:
        shutil.rmtree(path)
    print(json.dumps(found) if args.json else "\n".join(f"{name:24} {value}" for name, value in found.items()))
    return 0
