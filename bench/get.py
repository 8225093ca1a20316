"""`python -m bench get`: how long a question takes that is looked up in the crawl log of a large crawl.

Makes a crawl log of --urls lines, as long as real ones, over many hosts and some large ones, and an archive with some
of its pages. The first question makes the index of the log. Then, in this process: `get` of pages evenly out of all,
with the files in the page cache and without (`cold`), and with as much of the log behind the index as may be there
before more of it is made (`behind`); `urls --host` and `urls --site` of hosts and sites of several sizes. At last the
command `irlcrawl get`, which has to start first. Milliseconds on the clock, median and most; of the command of CPU
time, too.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from drum import Catalog, Edits, Files

from bench import _jobs
from irlcrawl.ask import outcomes
from irlcrawl.ask.get import get
from irlcrawl.ask.log_index_build import LOG_BYTES_LEAST
from irlcrawl.base.clock import SystemClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Carried
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.state.formats import identity
from irlcrawl.worker.archive import crawl_log
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.archive.warc import WarcWriter, warcinfo_values
from tools.options import whole

PAGES = 200
"""In the archive; `get` is asked for each."""
PAGE_BYTES = 30_000
HOST_URLS, SITE_HOSTS = 200, 4
LARGE = {f"large{part}.test": part for part in (100, 10_000, 1_000_000)}
"""Hosts that each have one of so many lines."""
START = 1_700_000_000.0
DIGESTS = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""A number times this looks drawn."""
CHILDREN = resource.RUSAGE_CHILDREN
HEADER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def main(argv: list[str]) -> int:
    parser = _jobs.parser("get", __doc__)
    parser.add_argument("--urls", type=whole(PAGES), default=10_000_000, help="lines of the log (default %(default)g)")
    return _jobs.run(measure, parser.parse_args(argv), "get")


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    job, lines = JobDir(directory / "job"), int(options.urls)
    pages = _made(job, lines)
    told: dict[str, Any] = {"bench": "get", "urls": lines, "log_bytes": job.crawl_log.stat().st_size}
    began = time.process_time()
    get(job.path, pages[0])
    told["index_cpu_s"] = round(time.process_time() - began, 1)
    told["index_bytes"] = sum(path.stat().st_size for path in job.indexes.iterdir())
    os.sync()
    told["get_ms"] = _ms(lambda url: get(job.path, url), pages)
    told["get_cold_ms"] = _ms(lambda url: get(job.path, url), pages, lambda: _forget(job))
    for host, site in (*((name, None) for name in LARGE), ("h7.s1.test", None), (None, "s1.test")):

        def ask(_: object, host: str | None = host, site: str | None = site) -> int:
            return sum(1 for _ in outcomes.last_words(job, host=host, site=site))

        told[f"urls_ms {host or site}: {ask(None)} lines"] = _ms(ask, range(5))
    with job.crawl_log.open("ab") as log:
        size = log.tell()
        for line in _lines(lines, lines + (LOG_BYTES_LEAST - 4096) // 300, {}):
            if log.tell() - size + len(line) < LOG_BYTES_LEAST:
                log.write(line)
    _commit(job)
    told["get_behind_ms"] = _ms(lambda url: get(job.path, url), pages[:50])
    command, before = [sys.executable, "-m", "irlcrawl", "get", str(job.path)], resource.getrusage(CHILDREN)
    told["command_ms"] = _ms(lambda url: subprocess.run([*command, url], check=True, capture_output=True), pages[:10])
    after = resource.getrusage(CHILDREN)
    told["command_cpu_ms"] = round((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 100)
    return told


def _ms(
    ask: Callable[[Any], object], questions: Iterable[Any], before: Callable[[], None] = lambda: None
) -> list[float]:
    """Median and most."""
    spent = []
    for question in questions:
        before()
        began = time.perf_counter()
        ask(question)
        spent.append((time.perf_counter() - began) * 1e3)
    return [round(median(spent), 1), round(max(spent), 1)]


def _forget(job: JobDir) -> None:
    """Have the kernel drop what it has of the files that a question reads."""
    files = Files()
    for directory in (job.indexes, job.warcs, job.logs, job.state):
        for path in directory.iterdir():
            if path.is_file():
                handle = files.open(path)
                files.forget(handle)
                files.close(handle)


def _made(job: JobDir, lines: int) -> list[str]:
    """A crawl as far as questions look at it; the URLs of its pages."""
    with job:
        job.write_config(to_toml(Config()))
        records = _archived(job)
        step = lines // PAGES
        at = {step * number + step // 2: line for number, line in enumerate(records)}
        with job.crawl_log.open("wb", buffering=1 << 20) as log:
            for line in _lines(0, lines, at):
                log.write(line)
        _commit(job)
    return [f"http://pages.test/{number}" for number in range(PAGES)]


def _archived(job: JobDir) -> list[bytes]:
    """Pages in an archive, and their lines."""
    info = warcinfo_values(software="bench", user_agent="bench", operator="", is_part_of="bench")
    writer = WarcWriter(
        Files(), job.warcs, "irlcrawl", 1, info=info, roll_bytes=1 << 30, gzip_level=1, clock=SystemClock()
    )
    found = []
    for number in range(PAGES):
        url, draw = f"http://pages.test/{number}".encode(), random.Random(number)
        body = b"<p>" + bytes(draw.choices(b"abcdefghijkl <>", k=PAGE_BYTES))
        unit = Unit(
            url=url, segment=0, row=number, key=number + 1, host=1, carried=Carried(), cls=int(Class.FETCHED),
            reason=int(Reason.OK), status=200, start=START + number,
        )  # fmt: skip
        exchange = Exchange(url, "192.0.2.1", b"GET / HTTP/1.1\r\n\r\n", HEADER, body, start=unit.start)
        found.append(crawl_log.line(unit, exchange, writer.append(unit, exchange)) + b"\n")
    writer.close()
    return found


def _lines(begin: int, end: int, own: dict[int, bytes]) -> Iterator[bytes]:
    """Lines of fetched pages, over hosts in no order; those in `own` at their places."""
    hosts = max(end // HOST_URLS, SITE_HOSTS)
    for number in range(begin, end):
        if number in own:
            yield own[number]
            continue
        drawn = number * 2654435761 % hosts
        host = f"h{drawn}.s{drawn // SITE_HOSTS}.test"
        for name, each in LARGE.items():
            host = name if number % int(each) == int(each) // 2 else host
        yield (
            b"2026-11-24T00:36:15.%03dZ 200 6712 http://%b/documents/of/this/site/page-%d.html L "
            b"http://%b/documents/of/this/ text/html #001 20261124003615097+33 "
            b"sha1:%032X - outcome=fetched,reason=ok,address=192.0.2.7,gap_address=0.5,"
            b"warc=irlcrawl-20261124003615070-00000-s0001.warc.gz@%d+%d\n"
        ) % (
            number % 1000,
            host.encode(),
            number,
            host.encode(),
            number * DIGESTS % 2**128,
            number * 7000,
            6000 + number % 999,
        )


def _commit(job: JobDir) -> None:
    """All that is in the log now."""
    edits = Edits()
    edits.set("crawl", identity("bench", 1, START))
    edits.set("log", {"part": 0, "bytes": job.crawl_log.stat().st_size})
    catalog = Catalog.open(job.state)
    catalog.commit(edits)
    catalog.close()
