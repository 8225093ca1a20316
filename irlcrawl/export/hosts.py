"""The table of hosts: what came of the URLs of each, by the crawl log as far as it is committed."""

from __future__ import annotations

import time
from collections.abc import Iterator

from irlcrawl.ask.outcomes import last_words
from irlcrawl.base.job import JobDir
from irlcrawl.base.url import host_of
from irlcrawl.export.hostname import host_columns
from irlcrawl.export.sorted_lines import SortedLines
from irlcrawl.export.table import Row
from irlcrawl.frontier.state import formats
from irlcrawl.terminal.progress import Bar, urls
from irlcrawl.worker.archive.crawl_log import LogEntry

URLS_BETWEEN = 10_000
"""So often a bar is moved; with fewer URLs there is none."""
HOSTS_MAX = 200_000
"""Hosts summed up in memory; then their sums are sorted, and added up when all are read."""

_FETCHED, _CLASSES, _FAILED, _EXCLUDED, _BYTES, _FIRST, _LAST = 0, 1, 5, 6, 7, 8, 9
_FIELDS = 10
Sums = list[int]
"""fetched; 2xx, 3xx, 4xx, 5xx; failed; excluded; bytes; first and last fetch (unix milliseconds, 0: none)."""


def rows(job: JobDir, directory: str, bar: Bar | None = None) -> Iterator[Row]:
    """Rows of table.HOSTS, by reversed name; `directory` is for temporary files; bar: shows how many URLs are counted.
    Damaged, OSError."""
    lines, sums, parts = SortedLines(directory), dict[str, Sums](), 0
    for entry in _shown(last_words(job), job, bar):
        host = host_of(entry.url)
        found = sums.get(host)
        if found is None:
            if len(sums) >= HOSTS_MAX:
                _let_go(lines, sums, parts)
                parts += 1
            found = sums[host] = [0] * _FIELDS
        _count(entry, found)
    _let_go(lines, sums, parts)
    last, total = "", [0] * _FIELDS
    for line in lines:
        _, host, _, numbers = line.decode().split("\t")
        values = [int(number) for number in numbers.split()]
        if host != last:
            if last:
                yield _row(last, total)
            last, total = host, values
        else:
            total = _added(total, values)
    if last:
        yield _row(last, total)


def _shown(entries: Iterator[LogEntry], job: JobDir, bar: Bar | None) -> Iterator[LogEntry]:
    ledger = (formats.look(job.state).get("ledger") if bar is not None and job.has_catalogue() else None) or {}
    total = sum(ledger.get(name, 0) for name in ("fetched", "failed", "gone")) + sum(
        ledger.get("excluded", {}).values()
    )
    if bar is None or total < URLS_BETWEEN:
        yield from entries
        return
    bar.stage("hosts", total, urls)
    for number, entry in enumerate(entries, 1):
        yield entry
        if number % URLS_BETWEEN == 0:
            bar.read(URLS_BETWEEN)


def _count(entry: LogEntry, sums: Sums) -> None:
    if entry.outcome == "fetched":
        sums[_FETCHED] += 1
        if 200 <= entry.status < 600:
            sums[_CLASSES + entry.status // 100 - 2] += 1
        sums[_BYTES] += entry.size or 0
        at = entry.start_ms if entry.start_ms is not None else entry.logged_ms
        sums[_FIRST] = min(sums[_FIRST] or at, at)
        sums[_LAST] = max(sums[_LAST], at)
    elif entry.outcome == "failed":
        sums[_FAILED] += 1
    else:
        sums[_EXCLUDED] += 1


def _let_go(lines: SortedLines, sums: dict[str, Sums], part: int) -> None:
    """Sums of a host that are let go at different times are lines of their own."""
    for host, values in sums.items():
        name = host_columns(host)[-1]
        lines.add(f"{name}\t{host}\t{part}\t{' '.join(map(str, values))}\n".encode())
    sums.clear()


def _added(one: Sums, other: Sums) -> Sums:
    total = [a + b for a, b in zip(one, other)]
    firsts = [at for at in (one[_FIRST], other[_FIRST]) if at]
    total[_FIRST], total[_LAST] = min(firsts, default=0), max(one[_LAST], other[_LAST])
    return total


def _row(host: str, sums: Sums) -> Row:
    return (*host_columns(host), *sums[:_FIRST], _moment(sums[_FIRST]), _moment(sums[_LAST]))


def _moment(unix_ms: int) -> str | None:
    if not unix_ms:
        return None
    seconds, ms = divmod(unix_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z"
