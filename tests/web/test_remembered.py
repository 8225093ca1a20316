"""I4: what a worker remembers of the hosts and pages it met is soon as large as it gets."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from drum import Files

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.url import HOSTS_CACHED
from irlcrawl.worker.harvest.builder import HarvestBuilder
from irlcrawl.worker.harvest.process import process
from tests.worker.harvest.test_process import LOCATION, context, exchange, unit

LINKS = 200
GROWTH_BYTES_MAX = 1 << 20
"""Sixteen thousand hosts more took 11 MB once."""


def test_i4_hosts_and_pages_met_later_take_no_more_memory(tmp_path: Path) -> None:
    pages = context((b"site a.test",))
    builder = HarvestBuilder(Files(), str(tmp_path), 0, VirtualClock())

    def meet(first: int, hosts: int) -> int:
        """Reads pages that link to so many new hosts; how much is held after it."""
        for start in range(first, first + hosts, LINKS):
            links = "".join(f'<a href="https://www.{n}.co.uk/">{n}</a>' for n in range(start, start + LINKS))
            body = f"{chr(97 + start // LINKS % 26) * (start // LINKS)} {links}".encode()
            builder.add(process(unit(f"http://a.test/{start}"), exchange(body), LOCATION, pages))
        builder.take((0, 0))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = meet(0, 2 * HOSTS_CACHED)
        assert meet(2 * HOSTS_CACHED, 4 * HOSTS_CACHED) - before < GROWTH_BYTES_MAX
    finally:
        tracemalloc.stop()
