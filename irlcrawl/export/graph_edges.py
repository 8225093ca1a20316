"""The edges of the graph of sites (or hosts) that the pages of an archive show: lines `from TAB to`, names reversed.

Reversed names (`com.example`) put a domain beside its neighbours, as in Common Crawl's graphs. A page that was fetched
is a vertex though nothing links to or from it: its line has no `to`. Between sites, each host that was met has a line,
too: `site TAB TAB host`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from irlcrawl.base.url import SiteOf, host_of
from irlcrawl.export.archives import Capture
from irlcrawl.export.hostname import reversed_name
from irlcrawl.export.links import rows_of
from irlcrawl.export.originals import Originals
from irlcrawl.export.sorted_lines import SortedLines

DISTINCT_MAX = 1 << 20
"""Edges that are remembered so as not to be sorted again; more are sorted, and told apart then."""


def edge_lines(
    captures: Iterable[Capture], hosts: bool, directory: str, originals: Originals | None = None
) -> Iterator[bytes]:
    """Distinct lines in order; `directory` is for temporary files. originals: as in links.rows_of."""
    site_of = SiteOf(names_max=1 << 16)
    lines = SortedLines(directory)
    met: set[tuple[str, str]] = set()
    names: dict[str, str] = {}

    def vertex(url: str) -> str:
        host = host_of(url.encode())
        name = names.get(host)
        if name is None:
            if len(names) > DISTINCT_MAX:
                names.clear()
            name = names[host] = reversed_name(host.rstrip(".") if hosts else site_of(host))
            if not hosts:
                lines.add(f"{name}\t\t{reversed_name(host.rstrip('.'))}\n".encode())
        return name

    for capture in captures:
        if not capture.url.startswith("http"):
            continue
        start = vertex(capture.url)
        ends = {vertex(row[1]) for row in rows_of(capture, originals=originals)} - {start}
        for end in ends or {""}:
            if (start, end) not in met:
                if len(met) >= DISTINCT_MAX:
                    met.clear()
                met.add((start, end))
                lines.add(f"{start}\t{end}\n".encode())
    yield from lines
