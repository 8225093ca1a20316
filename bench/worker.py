"""`python -m bench worker`: what a page costs a fetch worker, the frontier aside, and where it goes.

Serves docsweb, leases every page of it to one real worker process, and prints what the process took per page (user and
system CPU time) and how many pages that is per CPU-second. Then it reads the pages back from the archive and times the
steps of a page one by one, on input made ready before; a step set in is part of the one above it. Sockets, event loop
and what passes objects on are in no step: they are the difference.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from drum import Files

from bench._page_steps import steps
from irlcrawl.base.clock import SystemClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import origin_of, priority_of
from irlcrawl.base.names import Names
from irlcrawl.base.rows import Carried, Robots, Source
from irlcrawl.base.url import split
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import load
from irlcrawl.worker.fetch.lease import Lease, urls_alike
from irlcrawl.worker.fetch.process import start_worker
from irlcrawl.worker.fetch.wire import Decoder, Message, encode
from tools.docsweb import oracle, serve
from tools.docsweb.sets import DocswebError
from tools.options import whole

SEED = 1
TICKS = os.sysconf("SC_CLK_TCK")
ALLOW = {"state": int(Robots.ALLOW), "until": 9e9, "rules": None, "crawl_delay": 0.0}
SETTINGS = (
    "crawl.user_agent=irlcrawl-bench/1.0 (+https://bench.test/; bench@bench.test)", "scope.kind=any",
    "page.links_max=1000000", "politeness.gap_host_factor=0",
)  # fmt: skip


def main(argv: list[str]) -> int:
    """Exit codes: 0 measured, 1 the web or the worker failed."""
    parser = argparse.ArgumentParser(prog="python -m bench worker", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--mirrors", type=whole(0), default=1, help="mirror hosts per set (default %(default)s)")
    parser.add_argument("--no-gzip", action="store_true", help="the web sends everything uncompressed")
    parser.add_argument("--https", action="store_true", help="over TLS")
    parser.add_argument("--lease", type=whole(1), default=64, help="URLs of a visit (default %(default)s)")
    parser.add_argument("--no-steps", action="store_true", help="only the worker as a whole")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("-s", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="configuration")
    options = parser.parse_args(argv)
    config = load(overrides=[*SETTINGS, *options.settings])
    directory = Path(tempfile.mkdtemp(prefix="irlcrawl-bench-"))
    try:
        with serve.running(
            directory / "web", options.sets, mirrors=options.mirrors, https=options.https, gzip=not options.no_gzip
        ) as web:
            addresses = {host.name: host.address for served in web.sets for host in served.hosts}
            urls = sorted(oracle.expected(web))
            result = crawl(directory / "job", config, urls, addresses, options.lease)
        if not options.no_steps:
            result["steps_us"] = steps(str(JobDir(directory / "job").warcs), config)
    except (DocswebError, EOFError) as error:
        print(f"bench worker: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory)
    if options.json:
        print(json.dumps(result))
    else:
        table = result.pop("steps_us", {})
        print("\n".join(f"{name}: {value}" for name, value in result.items()))
        print("\n".join(f"{microseconds:9.1f} us  {name}" for name, microseconds in table.items()))
    return 0


class Frontier:
    """Just enough of one: a lease at a time for each host, the next when it ends."""

    def __init__(self, job: Path, config: Config, lease: int) -> None:
        at = JobDir(job)
        for part in (at.state, at.warcs):
            part.mkdir(parents=True)
        self._lease = lease
        self._clock = SystemClock()
        self._decoder = Decoder()
        self._inbox: deque[Message] = deque()
        with at.lock_file.open("w") as lock:
            self.process, self._sock = start_worker(job, (lock.fileno(),))
        self._send({
            "t": "hello", "config": dataclasses.asdict(config), "seed": SEED, "scope_version": 1,
            "scope_entries": ["any"], "stream": 0, "crawl": "bench",
        })  # fmt: skip
        self._receive("ready")

    def crawl(self, urls: list[str], addresses: dict[str, str]) -> None:
        waiting: dict[bytes, deque[tuple[int, int, str]]] = defaultdict(deque)
        self._names = Names(SEED)
        for row, text in enumerate(urls):
            url = text.encode()
            waiting[origin_of(url)].append((row, self._names.url_key(url), text))
        hosts = enumerate(waiting.items())
        out = {self._visit(number, origin, rows, addresses): origin for number, (origin, rows) in hosts}
        while out:
            visit = self._receive("end")["visit"]
            origin = out.pop(visit)
            if waiting[origin]:
                out[self._visit(visit, origin, waiting[origin], addresses)] = origin

    def stop(self) -> None:
        self._send({"t": "stop"})
        self._receive("bye")

    def close(self) -> None:
        self._sock.close()
        self.process.wait()

    def _visit(self, number: int, origin: bytes, rows: deque[tuple[int, int, str]], addresses: dict[str, str]) -> int:
        scheme, host, port, _ = split(origin + b"/")
        leased = [rows.popleft() for _ in range(min(self._lease, len(rows)))]
        same = Carried(depth=1, source=Source.LINK, priority=priority_of(1, Source.LINK))
        keys, texts = [key for _, key, _ in leased], [text for _, _, text in leased]
        urls = urls_alike(0, leased[0][0], keys, texts, same)
        lease = Lease(
            visit=number, host=host, scheme=scheme, port=port, address=addresses[host],
            host_key=self._names.of_origin(origin)[1], gap=0.0, robots=ALLOW, scope=1, urls=urls,
            not_after=self._clock.now() + 3600.0,
        )  # fmt: skip
        self._send(lease.message())
        return number

    def _send(self, message: Message) -> None:
        self._sock.sendall(encode(message))

    def _receive(self, kind: str) -> Message:
        """The next message of a kind; others are dropped. EOFError when the worker is gone."""
        while True:
            while self._inbox:
                message = self._inbox.popleft()
                if message["t"] == kind:
                    return message
            data = self._sock.recv(1 << 20)
            if not data:
                raise EOFError(f"the worker ended with code {self.process.wait()}")
            self._inbox += self._decoder.feed(data)

    def cpu_seconds(self) -> tuple[float, float]:
        """User and system time of the worker until now."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def crawl(job: Path, config: Config, urls: list[str], addresses: dict[str, str], lease: int) -> dict[str, Any]:
    """Everything in `urls` through one worker, from its first lease until its last harvest is on the disk."""
    frontier = Frontier(job, config, lease)
    user, system = frontier.cpu_seconds()
    started = time.monotonic()
    frontier.crawl(urls, addresses)
    frontier.stop()
    seconds = time.monotonic() - started
    user, system = (after - before for after, before in zip(frontier.cpu_seconds(), (user, system), strict=True))
    frontier.close()
    return {
        "bench": "worker",
        "client": config.fetch.client,
        "pages": len(urls),
        "pages_per_cpu_s": round(len(urls) / (user + system), 1),
        "user_us": round(user / len(urls) * 1e6, 1),
        "system_us": round(system / len(urls) * 1e6, 1),
        "pages_per_s": round(len(urls) / seconds, 1),
        "archive_bytes_page": round(Files().total(JobDir(job).warcs) / len(urls)),
    }
