"""The steps of a page in a worker, each timed alone on pages read back from an archive (python -m bench worker)."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from drum import Files

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.keys import url_keys
from irlcrawl.base.url import Base
from irlcrawl.config.keys import Config
from irlcrawl.web.coding import decode
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import crawl_log, record, redo, zstd
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.fetch.response import ResponseReader
from irlcrawl.worker.harvest.builder import HarvestBuilder, UnitRows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.process import process
from irlcrawl.worker.page import charset, links
from irlcrawl.worker.page.fingerprint import fingerprint

PAGES_MAX = 4000
ROUNDS = 3


class Page:
    """One archived HTML page, and what each step is given of it."""

    def __init__(self, unit: Unit, exchange: Exchange, location: Location, config: Config) -> None:
        self.unit, self.exchange, self.location = unit, exchange, location
        self.wire = exchange.header.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(exchange.body))
        self.wire += exchange.body
        self.encoding = (exchange.value(b"content-encoding") or b"").decode("latin-1")
        self.type = (exchange.value(b"content-type") or b"").decode("latin-1")
        self.body = decode(exchange.body, self.encoding, config.fetch.decoded_bytes_max)[0]
        self.references = list(links.read(self.body, "utf-8", self.type, config.page).references)
        self.links = [url for url, _ in links.extract(self.body, self.type, unit.url, config.page).links]
        self.records = record.request_and_response(unit, exchange, record.new_id(), location.digest)


def steps(warcs: str, config: Config) -> dict[str, float]:
    """Microseconds per page and step, the least of ROUNDS, over at most PAGES_MAX pages, and what they had on average
    in bytes and links. Keys in the order of a page's way."""
    pages = list(islice(_pages(warcs, config), PAGES_MAX))
    state = tempfile.mkdtemp(prefix="irlcrawl-bench-")
    try:
        return _timed(pages, config, state)
    finally:
        shutil.rmtree(state)


def _pages(warcs: str, config: Config) -> Iterable[Page]:
    for unit, exchange, location in redo.units(Files(), warcs, 0):
        if exchange is not None and exchange.status == 200 and exchange.mime in links.HTML_TYPES:
            yield Page(unit, exchange, location, config)


def _timed(pages: list[Page], config: Config, state: str) -> dict[str, float]:
    context = Context(config, 1, Scope(config.scope, config.site, [b"any"]))
    reader = ResponseReader(config.fetch.header_bytes_max)
    archive = config.archive
    member: Callable[..., bytes] = partial(record.member, level=archive.gzip_level)
    if archive.compression == "zstd":
        member = zstd.packer(archive.zstd_level)
    sink = os.open(os.path.join(state, "sink"), os.O_WRONLY | os.O_CREAT)

    def read(page: Page) -> None:
        reader.begin(config.fetch.body_bytes_max)
        reader.feed(page.wire)

    def compress(page: Page) -> None:
        request, response = page.records
        body = page.exchange.body
        member(request)
        member(response, packed=len(body) + len(record.END) if record.is_packed(body) else 0)

    def harvest(batch: list[UnitRows]) -> None:
        builder = HarvestBuilder(Files(), state, 0, SystemClock())
        for found in batch:
            builder.add(found)
        taken = builder.take((0, 0))
        assert taken is not None
        taken.write()

    def join(page: Page) -> None:
        resolve = Base(page.unit.url).join
        for reference in page.references:
            resolve(reference)

    table: dict[str, Callable[[Page], Any]] = {
        "response read (llhttp)": read,
        "records formatted, SHA-1 twice": lambda p: record.request_and_response(
            p.unit, p.exchange, "<urn:uuid:0>", record.digest(p.exchange.body)
        ),
        "  the unit as JSON": lambda p: p.unit.to_json(),
        "  digests": lambda p: (record.digest(p.exchange.body), record.digest(p.exchange.header, p.exchange.body)),
        f"records compressed ({archive.compression})": compress,
        "records appended (page cache)": lambda p: os.write(sink, p.exchange.body),
        "process, all of it": lambda p: process(p.unit, p.exchange, p.location, context),
        "  crawl log line": lambda p: crawl_log.line(p.unit, p.exchange, p.location),
        "  content coding undone": lambda p: decode(p.exchange.body, p.encoding, config.fetch.decoded_bytes_max),
        "  fingerprint": lambda p: fingerprint(p.body),
        "  links extracted": lambda p: links.extract(p.body, p.type, p.unit.url, config.page),
        "    charset": lambda p: charset.sniff(p.body, p.type),
        "    references read": lambda p: links.read(p.body, "utf-8", p.type, config.page),
        "    references resolved": join,
        "  scope": lambda p: [context.scope.contains(url, 1, 0) for url in p.links],
        "  keys": lambda p: url_keys(p.links, 1, [context.names(url)[0] for url in p.links]),
    }
    gc.disable()
    try:
        timed = {name: _best(partial(_each, step, pages)) for name, step in table.items()}
        yields = [process(page.unit, page.exchange, page.location, context) for page in pages]
        timed["harvest packed and written"] = _best(lambda: harvest(yields))
    finally:
        gc.enable()
        os.close(sink)
    count = len(pages)
    means = {
        "(bytes on the wire)": sum(len(page.exchange.body) for page in pages) / count,
        "(bytes decoded)": sum(len(page.body) for page in pages) / count,
        "(references)": sum(len(page.references) for page in pages) / count,
        "(links)": sum(len(page.links) for page in pages) / count,
    }
    return {name: round(value, 1) for name, value in means.items()} | {
        name: round(seconds / count * 1e6, 1) for name, seconds in timed.items()
    }


def _each(step: Callable[[Page], Any], pages: list[Page]) -> None:
    for page in pages:
        step(page)


def _best(work: Callable[[], Any]) -> float:
    """CPU seconds."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)
