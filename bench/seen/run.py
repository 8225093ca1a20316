"""One measurement in a process of its own: `python -m bench.seen.run JSON`, one JSON line on stdout.

Its own process, so that resident memory, CPU time (all threads) and bytes are one system's. The clocks run over the
whole stream, and what making the stream took is subtracted; they stop when the last verdict was delivered.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.seen.register import register
from bench.seen.stream import BATCH, Keys, by_site, checksum, stream
from bench.seen.systems import Missing, Refused, System, disk_bytes, process_io

SORTED_KEYS = 1 << 22


@dataclass(frozen=True)
class Order:
    """What to measure. store: URLs known before; warm: links before the clock runs."""

    system: str
    path: str
    store: int
    keys: int
    ram_bytes: int
    warm: int = 0
    seed: int = 1
    duplicates: float = 0.9
    uniform: bool = False
    aux_bytes: int = 0
    sites: int = 0
    zipf: bool = False


class Wrong(Exception):
    """A system gave verdicts that are not those of the stream."""


class Verdicts:
    """What was delivered: how many new keys, and which (by checksum)."""

    def __init__(self) -> None:
        self.new = self.checksum = 0

    def deliver(self, keys: Keys) -> None:
        self.new += len(keys)
        self.checksum ^= checksum(keys)


class Clock:
    """CPU and wall seconds since it was made, less what `pause` … `resume` took in this thread."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        self._thread = self._began = 0.0

    def pause(self) -> None:
        self._thread, self._began = time.thread_time(), time.perf_counter()

    def resume(self) -> None:
        self._cpu += time.thread_time() - self._thread
        self._wall += time.perf_counter() - self._began

    def read(self) -> tuple[float, float]:
        return time.process_time() - self._cpu, time.perf_counter() - self._wall


class Delay:
    """The most links that came before the verdict of one, in batches of the stream."""

    def __init__(self, system: System) -> None:
        self._system, self._rounds = system, system.rounds
        self._waiting = self.keys_max = 0

    def fed(self, keys: int) -> None:
        self._waiting += keys
        self.keys_max = max(self.keys_max, self._waiting)
        if self._system.rounds != self._rounds:
            self._rounds, self._waiting = self._system.rounds, 0


def measure(order: Order) -> dict[str, object]:
    """A system on its stream. Raises Wrong, Refused, Missing, and whatever the system raises."""
    verdicts = Verdicts()
    system = open_system(order, verdicts)
    if not system.on_disk:
        system.seed(order.store)
    new = xor = 0
    links = stream(
        order.warm + order.keys, order.store, order.seed, duplicates=order.duplicates, uniform=order.uniform,
        aux_bytes=order.aux_bytes, keys_of=system.keys_of,
    )  # fmt: skip
    for _ in range(order.warm // BATCH):
        batch = next(links)
        system.add(batch)
        new, xor = new + batch.new, xor ^ batch.checksum
    clock, delay, io, traffic, merges = Clock(), Delay(system), process_io(), system.traffic(), system.merges
    clock.pause()
    for batch in links:
        new, xor = new + batch.new, xor ^ batch.checksum
        clock.resume()
        system.add(batch)
        clock.pause()
        delay.fed(len(batch.keys))
    clock.resume()
    system.finish()
    cpu_s, wall_s = clock.read()
    read, written = (after - before for after, before in zip(system.traffic(), traffic))
    device = {name: (value - io[name]) / order.keys for name, value in process_io().items() if name.endswith("_bytes")}
    system.close()
    falsely_seen = verify(system, verdicts, new, xor, order.aux_bytes)
    stored = order.store + new
    aux = {"aux_bytes": order.aux_bytes, "aux_bytes_emitted": system.aux_emitted_bytes} if order.aux_bytes else {}
    return {
        "system": order.system, "store_keys": order.store, "keys": order.keys,
        "keys_per_cpu_s": round(order.keys / cpu_s), "keys_per_s": round(order.keys / wall_s),
        "read_bytes_per_key": round(read / order.keys, 2), "write_bytes_per_key": round(written / order.keys, 2),
        "disk_bytes_per_stored_key": round(disk_bytes(system.path) / stored, 2), "peak_rss_bytes": peak_rss_bytes(),
        "verdict_delay_keys_max": delay.keys_max, "np_sort_ns": round(np_sort_ns(), 1),
        "repeats": "uniform" if order.uniform else "skewed", "new_keys": new, "merges": system.merges - merges,
        "falsely_seen": falsely_seen, "ram_bytes": order.ram_bytes, "bytes_from": system.bytes_from,
        "device_read_bytes_per_key": round(device["read_bytes"], 2),
        "sites": order.sites and f"{order.sites}{' zipf' * order.zipf}",
        "device_write_bytes_per_key": round(device["write_bytes"], 2), **aux,
    }  # fmt: skip


def open_system(order: Order, verdicts: Verdicts) -> System:
    path = Path(order.path)
    path.mkdir(parents=True, exist_ok=True)
    kind = register()[order.system]
    if order.aux_bytes and not kind.takes_aux:
        raise Refused("does not take aux")
    system = kind(path, order.ram_bytes, verdicts.deliver)
    system.keys_of = by_site(order.sites, order.zipf)
    return system


def verify(system: System, verdicts: Verdicts, new: int, xor: int, aux_bytes: int) -> int:
    """How many new keys were taken for seen: none but by a filter. Raises Wrong."""
    if system.aux_emitted_bytes != verdicts.new * aux_bytes:
        raise Wrong(f"{system.name} handed on {system.aux_emitted_bytes:,} bytes beside {verdicts.new:,} new keys")
    if not system.exact:
        if verdicts.new > new:
            raise Wrong(f"{system.name} found {verdicts.new:,} new keys where there are {new:,}")
    elif (verdicts.new, verdicts.checksum) != (new, xor):
        raise Wrong(f"{system.name} found {verdicts.new:,} new keys, not the {new:,} that there are")
    return new - verdicts.new


def main(text: str) -> int:
    """Exit codes: 0 measured, 1 wrong verdicts, 4 the system cannot do it or is not installed (stderr says why)."""
    fields = json.loads(text)
    only_seed = fields.pop("only_seed")
    order = Order(**fields)
    try:
        if only_seed:
            system = open_system(order, Verdicts())
            system.seed(order.store)
            system.close()
        else:
            print(json.dumps(measure(order)))
    except Wrong as error:
        print(error, file=sys.stderr)
        return 1
    except (Missing, Refused) as error:
        print(error, file=sys.stderr)
        return 4
    return 0


def np_sort_ns() -> float:
    """Nanoseconds a key of np.sort on random 64-bit keys, median of five: compares machines."""
    keys = np.random.default_rng(0).integers(0, 2**64, SORTED_KEYS, dtype=np.uint64)
    seconds = []
    for _ in range(5):
        unsorted = keys.copy()
        began = time.process_time()
        unsorted.sort()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds) / SORTED_KEYS * 1e9


def peak_rss_bytes() -> int:
    """Most that this process held since its program started (ru_maxrss remembers who started it)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
