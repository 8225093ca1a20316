"""Making the indexes of the crawl log: when a question could use one, for as much of the log as is committed then.

Lines are taken RUN_BYTES at a time and sorted; runs are merged with the indexes before them that are not much larger.
So there are few indexes, and each line is written a few times in the life of a crawl. The crawl itself makes none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from drum import Batch, Catalog, Damaged, Files, Ragged, SegmentWriter
from drum.sectors import Sectors
from drum.segment import Section

import numpy as np
import xxhash

from irlcrawl.ask.log_index import SCHEMA, SECTION, LogIndex, of_host, opened, url_bits
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import LOCK, log_index_name, parse_log_index, temporary
from irlcrawl.base.url import host_of
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import url_of
from irlcrawl.worker.archive.log_parts import PLACE_BITS, Piece, lines_of

LOG_BYTES_LEAST = 16 << 20
"""A log with less that no index covers is read as it is."""
RUN_BYTES = 128 << 20
BLOCK_ROWS = 1024
MERGED_BLOCKS = 256
"""Blocks that are merged at a time."""
HOSTS_CACHED = 1 << 18


def indexed(job: JobDir, catalog: Catalog, bar_of: Callable[[], Bar] = Bar) -> LogIndex | None:
    """The indexes, brought up to date if much is missing; None if there are none, and none is needed or can be made.
    `bar_of`: makes what shows the progress. Damaged, OSError."""
    files = Sectors()
    found = opened(job, catalog, files)
    missing = _missing(files, job, catalog, found.until)
    if missing < LOG_BYTES_LEAST or job.is_snapshot():  # which stays as it is
        return found if found.sections else None
    try:
        files.mkdir(job.indexes)
        lock = files.lock(os.path.join(job.indexes, LOCK))
    except OSError:  # another question is at it, or JOB cannot be written
        return found if found.sections else None
    bar = bar_of()
    try:
        bar.stage("index of the log", missing)
        _extend(files, job, catalog, opened(job, catalog, files).until, bar)
    finally:
        bar.close()
        files.close(lock)
    return opened(job, catalog, files)


def _missing(files: Files, job: JobDir, catalog: Catalog, until: int) -> int:
    """About how many bytes of the committed log lie behind a place (of compressed parts their bytes on the disk). A
    part that was rolled away before its end was indexed is much: reading on in it means unpacking all of it."""
    log, path = catalog.get("log") or {}, os.fspath(job.crawl_log)
    if not log or not job.logs.is_dir():
        return 0
    part, at = until >> PLACE_BITS, until & ((1 << PLACE_BITS) - 1)
    newest, size = log.get("part", 0) + 1, int(log.get("bytes", 0))
    if part == newest:
        return size - at
    if part:
        return LOG_BYTES_LEAST
    for one in log_parts.rolled_parts(files, path).values():
        try:
            size += files.size(one)
        except FileNotFoundError:  # compressed meanwhile
            continue
    return size


def _extend(files: Files, job: JobDir, catalog: Catalog, until: int, bar: Bar) -> None:
    """Runs for the lines behind `until`, and few indexes of all."""
    directory = os.fspath(job.indexes)
    for name in files.listdir(directory):  # what does not fit the log, and what was not finished
        span = parse_log_index(name.removesuffix(temporary("")))
        if span is not None and (span[0] >= until or name.endswith(temporary(""))):
            files.unlink(os.path.join(directory, name), missing_ok=True)
    crawl, log, path = (catalog.get("crawl") or {}).get("id"), catalog.get("log") or {}, os.fspath(job.crawl_log)
    begin, final = until, (log.get("part", 0) + 1 << PLACE_BITS) + log.get("bytes", 0)
    for texts, places, end in _runs(log_parts.pieces(files, path, log, since=until), final):
        bar.read(sum(map(len, texts)))
        last = texts[-1] + b"\n"
        meta = {"crawl": crawl, "last": (len(last), xxhash.xxh3_64_intdigest(last))}
        rows = _sorted(path, texts, places)
        with SegmentWriter(files, os.path.join(directory, log_index_name(begin, end))) as writer:
            writer.section(SECTION, SCHEMA, meta, sorted_by="key", block_rows=BLOCK_ROWS).append(rows)
        begin = end
    _merge_few(files, job, catalog)


def _runs(pieces: Iterator[Piece], final: int) -> Iterator[tuple[list[bytes], list[int], int]]:
    """(lines, their places, the place behind them), about RUN_BYTES at a time. The last run ends at `final`: where the
    log goes on, perhaps in another file."""
    texts: list[bytes] = []
    places: list[int] = []
    size = end = 0
    for piece in pieces:
        if size >= RUN_BYTES:
            yield texts, places, end
            texts, places, size = [], [], 0
        at = piece.place(0)
        for text in lines_of(piece.text):
            texts.append(text)
            places.append(at)
            at += len(text) + 1
        size, end = size + len(piece.text), at
    if texts:
        yield texts, places, final


def _sorted(path: str, texts: list[bytes], places: list[int]) -> Batch:
    """Lines by their keys. A Python loop per line: each URL is a piece of text of its own."""
    hosts: dict[bytes, int] = {}
    keys = []
    for text, place in zip(texts, places):
        try:
            url = url_of(text)
            start = url.index(b"//") + 2
            authority = url[start : url.index(b"/", start)]
        except ValueError as error:
            raise Damaged(path, place & ((1 << PLACE_BITS) - 1), str(error)) from None
        host = hosts.get(authority)
        if host is None:
            if len(hosts) >= HOSTS_CACHED:
                hosts.clear()
            host = hosts[authority] = of_host(host_of(url)).lo
        keys.append(host | url_bits(url))
    column = np.array(keys, np.uint64)
    order = np.argsort(column, kind="stable")
    rows = Batch({"key": column, "place": np.array(places, np.uint64), "line": Ragged.from_list(texts)})
    return rows.pick(order)


def _merge_few(files: Files, job: JobDir, catalog: Catalog) -> None:
    """Merge the newest indexes with those before them, as long as one is not twice as large as all behind it."""
    sections = opened(job, catalog, files).sections
    first, size = len(sections) - 1, sections[-1].nbytes if sections else 0
    while first > 0 and sections[first - 1].nbytes < 2 * size:
        first -= 1
        size += sections[first].nbytes
    merged = sections[first:]
    if len(merged) < 2:
        return
    spans = [span for one in merged if (span := parse_log_index(os.path.basename(one.path))) is not None]
    path = os.path.join(job.indexes, log_index_name(spans[0][0], spans[-1][1]))
    with SegmentWriter(files, path) as writer:
        target = writer.section(SECTION, SCHEMA, merged[-1].meta, sorted_by="key", block_rows=BLOCK_ROWS)
        for rows in _merged(merged):
            target.append(rows)
    for one in merged:
        files.unlink(one.path, missing_ok=True)


def _merged(sections: list[Section]) -> Iterator[Batch]:
    """The rows of all in order, of equal keys those of earlier sections first, some blocks at a time."""
    starts = np.sort(np.concatenate([one.blocks["label_lo"] for one in sections]))
    cuts = np.unique(starts[::MERGED_BLOCKS]).tolist()
    for lo, following in zip(cuts, [*cuts[1:], 1 << 64]):
        parts = []
        for one in sections:
            for rows in one.between(lo, following - 1):
                keys = rows["key"]
                begin = int(np.searchsorted(keys, np.uint64(lo), "left"))
                end = int(np.searchsorted(keys, np.uint64(following - 1), "right"))
                if begin < end:
                    parts.append(rows.slice(begin, end))
        if parts:
            together = Batch.concat(parts)
            yield together.pick(np.argsort(together["key"], kind="stable"))
