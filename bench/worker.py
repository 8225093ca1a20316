"""`python -m bench worker`: what a page costs a fetch worker, the frontier aside, and where it goes.

Serves docsweb, leases every page of it to one real worker process, and prints what the process took per page (user and
system CPU time) and how many pages that is per CPU-second. Then it reads the pages back from the archive and times the
steps of a page one by one, on input made ready before; a step set in is part of the one above it. Sockets, event loop
and what passes objects on are in no step: they are the difference.

`--again N` measures visits to pages that did not change instead: another worker is leased all pages with an ETag or a
Last-Modified N times more, with what the harvest of the first says of them, and asks for each conditionally. The web
answers 304.
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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from drum import Files, Segment

from bench._page_steps import steps
from irlcrawl.base.clock import SystemClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import parse_harvest
from irlcrawl.base.keys import origin_of, priority_of
from irlcrawl.base.names import Names
from irlcrawl.base.rows import VISIT, Carried, Change, PageFlag, Robots, Source
from irlcrawl.base.url import split
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import load
from irlcrawl.worker.archive.known import COLUMNS, Known
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
AGAIN = ("revisit.enabled=true", "revisit.unconditional_every=0")


def main(argv: list[str]) -> int:
    """Exit codes: 0 measured, 1 the web or the worker failed."""
    parser = argparse.ArgumentParser(prog="python -m bench worker", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--mirrors", type=whole(0), default=1, help="mirror hosts per set (default %(default)s)")
    parser.add_argument("--no-gzip", action="store_true", help="the web sends everything uncompressed")
    parser.add_argument("--https", action="store_true", help="over TLS")
    parser.add_argument("--lease", type=whole(1), default=64, help="URLs of a visit (default %(default)s)")
    parser.add_argument("--again", type=whole(1), metavar="N", help="visit all pages N times more: what a 304 costs")
    parser.add_argument("--no-steps", action="store_true", help="only the worker as a whole")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("-s", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="configuration")
    options = parser.parse_args(argv)
    config = load(overrides=[*SETTINGS, *(AGAIN if options.again else ()), *options.settings])
    directory = Path(tempfile.mkdtemp(prefix="irlcrawl-bench-"))
    try:
        with serve.running(
            directory / "web", options.sets, mirrors=options.mirrors, https=options.https, gzip=not options.no_gzip
        ) as web:
            addresses = {host.name: host.address for served in web.sets for host in served.hosts}
            urls = sorted(oracle.expected(web))
            result = crawl(directory / "job", config, urls, addresses, options.lease)
            if options.again:
                result = again(directory / "job", config, urls, addresses, options.lease, options.again)
        if not (options.no_steps or options.again):
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

    def __init__(self, job: Path, config: Config, lease: int, stream: int = 0) -> None:
        at = JobDir(job)
        for part in (at.state, at.warcs):
            part.mkdir(parents=True, exist_ok=True)
        self._lease = lease
        self._clock = SystemClock()
        self._decoder = Decoder()
        self._inbox: deque[Message] = deque()
        with at.lock_file.open("w") as lock:
            self.process, self._sock = start_worker(job, (lock.fileno(),))
        self._send({
            "t": "hello", "config": dataclasses.asdict(config), "seed": SEED, "scope_version": 1,
            "scope_entries": ["any"], "stream": stream, "crawl": "bench",
        })  # fmt: skip
        self._receive("ready")

    def crawl(self, urls: list[str], addresses: dict[str, str], known: Mapping[int, Known] | None = None) -> None:
        """known: of pages by their number in `urls`, if they were visited before."""
        self._known = known
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
        known = None if self._known is None else [self._known.get(row, Known()) for row, _, _ in leased]
        urls = urls_alike(0, leased[0][0], keys, texts, same, known)
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


def again(
    job: Path, config: Config, urls: list[str], addresses: dict[str, str], lease: int, rounds: int
) -> dict[str, Any]:
    """What of `urls` has validators again, through another worker that knows what the one before found."""
    found = {urls[visit["row"]]: Known(1, *(visit[name] for name in COLUMNS[1:])) for visit in _visits(job)}
    urls = [url for url in urls if url in found and found[url].flags & PageFlag.VALIDATOR]
    known = {row: found[url] for row, url in enumerate(urls)}
    frontier = Frontier(job, config, lease, stream=1)
    began = Files().total(JobDir(job).warcs)

    def work() -> None:
        for _ in range(rounds):
            frontier.crawl(urls, addresses, known)

    spent = _spent(frontier, work, rounds * len(urls))
    changes = [visit["change"] for visit in _visits(job, stream=1)]
    return {
        "bench": "worker again", "client": config.fetch.client, **spent,
        "not_modified": changes.count(Change.NOT_MODIFIED), "visits": len(changes),
        "archive_bytes_visit": round((Files().total(JobDir(job).warcs) - began) / len(changes)),
    }  # fmt: skip


def _visits(job: Path, stream: int = 0) -> Iterator[dict[str, Any]]:
    """Rows of VISIT of a worker's harvests."""
    state = JobDir(job).state
    for name in sorted(os.listdir(state)):
        told = parse_harvest(name)
        if told is None or told[0] != stream:
            continue
        section = Segment.open(Files(), state / name).sections["visits"]
        for batch in section.scan():
            columns = [batch[column].tolist() for column in VISIT]
            for row in zip(*columns, strict=True):
                yield dict(zip(VISIT, row, strict=True))


def crawl(job: Path, config: Config, urls: list[str], addresses: dict[str, str], lease: int) -> dict[str, Any]:
    """Everything in `urls` through one worker, from its first lease until its last harvest is on the disk."""
    frontier = Frontier(job, config, lease)
    spent = _spent(frontier, lambda: frontier.crawl(urls, addresses), len(urls))
    return {
        "bench": "worker", "client": config.fetch.client, "pages": len(urls), **spent,
        "archive_bytes_page": round(Files().total(JobDir(job).warcs) / len(urls)),
    }  # fmt: skip


def _spent(frontier: Frontier, work: Callable[[], None], pages: int) -> dict[str, float]:
    """What the worker took for so many pages, until its last harvest is on the disk."""
    user, system = frontier.cpu_seconds()
    started = time.monotonic()
    work()
    frontier.stop()
    seconds = time.monotonic() - started
    user, system = (after - before for after, before in zip(frontier.cpu_seconds(), (user, system), strict=True))
    frontier.close()
    return {
        "pages_per_cpu_s": round(pages / (user + system), 1),
        "user_us": round(user / pages * 1e6, 1),
        "system_us": round(system / pages * 1e6, 1),
        "pages_per_s": round(pages / seconds, 1),
    }
