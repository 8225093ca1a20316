"""`python -m bench cluster`: what it costs to carry harvests and leases between machines, over TCP on loopback.

Both ends are in this process, so its CPU time (kernel included) is that of both sides: a file from the disk of one into
pieces, through channel and socket, onto the disk of the other, synced. A link counts as 40 bytes of a harvest, about
what simweb's links take. A visit is one lease of ten URLs to a node and one end of a visit back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

from drum import Files

import uvloop

from irlcrawl.base.job_files import harvest_name
from irlcrawl.base.rows import Carried
from irlcrawl.cluster.channel import Channel, Message
from irlcrawl.cluster.shipping import pieces, write_piece
from irlcrawl.cluster.tcp import Listener, TcpCarrier
from irlcrawl.worker.fetch.lease import Lease, urls_alike

LINK_BYTES = 40
VISIT_URLS = 10


def cpu_s() -> float:
    """Of this process, in user and kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Ends:
    """Two channels over one session."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._files = str(directory), Files()
        self._wanted, self._done = 0, asyncio.Event()
        self.frontier: Channel | None = None
        self.node: Channel | None = None
        self._room = asyncio.Event()

    async def open(self) -> None:
        secret, clock = secrets.token_bytes(32), time.monotonic
        accepted = asyncio.Event()

        def accept(carrier: TcpCarrier) -> None:
            self.frontier = Channel(carrier, clock, self._came)
            accepted.set()

        self._listener = Listener(secret, accept)
        port = await self._listener.listen(("127.0.0.1", 0), None)
        carrier = TcpCarrier().keep(("127.0.0.1", port), None, secret, secrets.token_bytes(16))
        self.node = Channel(carrier, clock, self._came)
        self.node.on_room = self._room.set
        await accepted.wait()

    async def close(self) -> None:
        assert self.node is not None
        self.node.close()
        await self._listener.close()

    def _came(self, message: Message, data: memoryview) -> None:
        if message["t"] == "piece":
            write_piece(self._files, self._directory, message["file"], message["at"], data, message["last"])
        assert self.frontier is not None and self.node is not None
        self.frontier.beat()
        self._wanted -= 1
        if not self._wanted:
            self._done.set()

    async def _all_came(self) -> None:
        await self._done.wait()
        self._done.clear()

    async def ship(self, source: Path, files: int) -> None:
        assert self.node is not None
        for number in range(files):
            for at, data, last in pieces(os.fspath(source)):
                while not self.node.room:
                    self._room.clear()
                    await self._room.wait()
                self._wanted += 1
                message = {"t": "piece", "file": harvest_name(1, number), "at": at, "last": last}
                self.node.send(message, data)
                await asyncio.sleep(0)
        if self._wanted:
            await self._all_came()

    async def visits(self, count: int) -> None:
        assert self.frontier is not None and self.node is not None
        texts = [f"https://www.example.test/some/path/to/page-{number}.html" for number in range(VISIT_URLS)]
        lease = Lease(
            visit=1, host="www.example.test", scheme="https", port=443, address="192.0.2.1", host_key=1 << 63, gap=1.0,
            robots={"state": 2, "until": 1e9, "rules": None, "crawl_delay": 0.0},
            urls=urls_alike(1, 1, [1 << 63] * VISIT_URLS, texts, Carried(via=texts[0].encode())), not_after=1e9,
        ).message()  # fmt: skip
        end = {
            "t": "end", "visit": 1, "reached": VISIT_URLS, "started": 1e9, "ended": 1e9, "fetch_s": 0.1, "requests": 10,
            "bytes": 300_000, "answered": True, "outcome": "ok", "reason": 0, "retry_after": None, "robots": None,
            "proxy_down": None,
        }  # fmt: skip
        for _ in range(count // 100):
            self._wanted = 200
            for _ in range(100):
                self.frontier.send({"t": "say", "stream": 1, "m": lease})
                self.node.send({"t": "say", "stream": 1, "m": end})
            await self._all_came()


async def measure(megabytes: int, visits: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="irlcrawl-bench-") as directory:
        path = Path(directory)
        (path / "source").mkdir()
        (path / "there").mkdir()
        source = path / "source" / "harvest"
        source.write_bytes(os.urandom(16 << 20))
        ends = Ends(path / "there")
        await ends.open()
        began, cpu = time.monotonic(), cpu_s()
        files = max(megabytes // 16, 1)
        await ends.ship(source, files)
        took, used = time.monotonic() - began, cpu_s() - cpu
        links = files * (16 << 20) / LINK_BYTES
        assert ends.frontier is not None and ends.node is not None
        before, cpu_before = ends.frontier.bytes_sent + ends.node.bytes_sent, cpu_s()
        await ends.visits(visits)
        per_visit = (cpu_s() - cpu_before) / visits
        wire = (ends.frontier.bytes_sent + ends.node.bytes_sent - before) / visits
        await ends.close()
        return {
            "megabytes": files * 16, "cpu_ns_a_link": used / links * 1e9, "mb_a_s": files * 16.8 / took,
            "cpu_us_a_visit": per_visit * 1e6, "bytes_a_visit": wire, "bytes_a_page_of_messages": wire / VISIT_URLS,
        }  # fmt: skip


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench cluster", description=__doc__.split("\n\n")[0])
    parser.add_argument("--megabytes", type=int, default=512, help="of harvests to ship")
    parser.add_argument("--visits", type=int, default=20_000)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args(argv)
    found = uvloop.run(measure(args.megabytes, args.visits))
    if args.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:<26}{value:,.1f}")
    return 0
