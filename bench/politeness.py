"""`python -m bench politeness`: what choosing the next visit costs among 100,000 active hosts, and their memory.

Simulated workers under virtual time: `--places` visits at once, each as long as its draw, each host asked again when
its clocks allow. Prints per shape of web (`--hosts-per-address`, and whether the workers or the clocks are what is
waited for): `pick_us_mean` and `pick_us_p99` of Politeness.pop, `end_us_mean` of visit_over, `bytes_per_host` of
everything Politeness holds beside the host entries, `entry_bytes_per_host` of the entries given to it (names, numbers,
addresses). With `--shared DIRECTORY` each visit takes its clocks from the table that crawls on one machine share
(politeness.machine_clocks), where no other crawl is.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import random
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.keys import name_key
from irlcrawl.config import keys as config
from irlcrawl.frontier.dispatch.machine_clocks import MachineClocks
from irlcrawl.frontier.politeness.clocks import Clocks
from irlcrawl.frontier.politeness.politeness import HostEntry, Politeness
from tools.options import directory, whole

FETCH_S = (0.05, 0.5)
POLITE_GAP_S, BUSY_GAP_S = 100.0, 1.0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench politeness", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=whole(1), default=100_000)
    parser.add_argument("--places", type=whole(1), default=512, help="visits that workers carry at once")
    parser.add_argument("--visits", type=whole(10), default=200_000, help="visits to time")
    parser.add_argument("--shared", type=directory, help="share the clocks in this directory, such as /dev/shm")
    parser.add_argument("--json", action="store_true", help="a JSON line per shape")
    options = parser.parse_args(argv)
    for hosts_per_address in (1, 20):
        for gap in (POLITE_GAP_S, BUSY_GAP_S):
            result = measure(options, hosts_per_address, gap)
            print(json.dumps(result) if options.json else "\n".join(f"{k}: {v}" for k, v in result.items()) + "\n")
            sys.stdout.flush()
    return 0


def measure(options: argparse.Namespace, hosts_per_address: int, gap: float) -> dict[str, Any]:
    gc.collect()
    tracemalloc.start()
    entries = make_entries(options.hosts, hosts_per_address)
    entry_bytes = tracemalloc.get_traced_memory()[0]
    world = Workers(entries, options.places, gap, options.shared)
    world.run(options.hosts + options.hosts // 4)  # every clock moved once
    world.polite.clocks.delta(world.clock.now())  # as at a commit
    gc.collect()
    bytes_held = tracemalloc.get_traced_memory()[0] - entry_bytes
    tracemalloc.stop()
    gc.freeze()
    world.run(options.visits // 10)
    picks, ends_s = world.run(options.visits)
    gc.unfreeze()
    picks.sort()
    return {
        "bench": "politeness",
        "hosts": options.hosts,
        "hosts_per_address": hosts_per_address,
        "waited_for": "clocks" if gap == POLITE_GAP_S else "workers",
        "pick_us_mean": round(sum(picks) / len(picks) * 1e6, 2),
        "pick_us_p99": round(picks[len(picks) * 99 // 100] * 1e6, 2),
        "end_us_mean": round(ends_s / len(picks) * 1e6, 2),
        "bytes_per_host": round(bytes_held / options.hosts),
        "entry_bytes_per_host": round(entry_bytes / options.hosts),
    }


def make_entries(hosts: int, hosts_per_address: int) -> list[HostEntry]:
    addresses = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(-(-hosts // hosts_per_address))]
    return [
        HostEntry(
            key=name_key(b"http://www.host%d.test" % n),
            name=f"www.host{n}.test",
            scheme="http",
            port=80,
            site=name_key(b"host%d.test" % n),
            address=addresses[n // hosts_per_address],
            address_until=1e12,
        )
        for n in range(hosts)
    ]


class Workers:
    """`places` visits at once under a virtual clock; only calls to Politeness are timed, in CPU seconds."""

    def __init__(self, entries: list[HostEntry], places: int, gap: float, shared: Path | None) -> None:
        self.clock = VirtualClock()
        machine = MachineClocks(str(shared), self.clock, "bench", 100.0) if shared else None
        params = config.Politeness(gap_host_seconds=gap, gap_host_factor=0.0)
        self.polite = Politeness(self.clock, params, Clocks(len(entries)), machine)
        self.polite.activate_many(entries)
        self._places = places
        self._random = random.Random(1)
        self._out: list[tuple[float, int, HostEntry]] = []
        self._number = 0

    def run(self, visits: int) -> tuple[list[float], float]:
        """Until so many visits were leased: (seconds of each pick that found one, seconds of all ends)."""
        picks: list[float] = []
        ends_s = 0.0
        while len(picks) < visits:
            while len(self._out) < self._places:
                began = time.thread_time()
                entry = self.polite.pop()
                took = time.thread_time() - began
                if entry is None:
                    break
                picks.append(took)
                self._number += 1
                end = self.clock.now() + self._random.uniform(*FETCH_S)
                heapq.heappush(self._out, (end, self._number, entry))
            due = self.polite.next_due() if len(self._out) < self._places else None
            times = [self._out[0][0]] if self._out else []
            self.clock.set(min(times if due is None else [*times, due]))
            while self._out and self._out[0][0] <= self.clock.now():
                entry = heapq.heappop(self._out)[2]
                began = time.thread_time()
                self.polite.visit_over(entry, ended=self.clock.now(), fetch_s=0.1, again=True)
                ends_s += time.thread_time() - began
            self.polite.clocks.news(self.clock.now())  # as the frontier does, once per tick
            began = time.thread_time()
            self.polite.share()
            ends_s += time.thread_time() - began
        return picks, ends_s
