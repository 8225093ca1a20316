"""The arguments and results of plug-ins, for authors of plug-ins (docs/plugins.md).

All are pure functions: what they return depends on nothing but their arguments and the options they were made with.
After a crash pages are read again from the archive, and then they have to say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drum import Batch

LINKS = {"url": "bytes", "source": "u1", "depth": "u2"}
"""Columns of the batch of links: the URL in stored form, base/rows.py: Source, links from a seed."""


@dataclass(frozen=True, slots=True)
class PageSeen:
    """A response that is read: the page on which links were found, or a redirect."""

    url: bytes
    """In stored form."""
    status: int
    depth: int
    """Links from a seed."""
    headers: Sequence[tuple[bytes, bytes]]
    """(name in lower case, value), as they came; empty where a list of a site's own is read (a robots.txt)."""
    body: bytes = b""
    """Its content coding undone, as much of it as is read (fetch.decoded_bytes_max); empty but for a page handler."""


@dataclass(frozen=True, slots=True)
class Handled:
    """The result of a page handler."""

    links: Sequence[str | bytes] = ()
    """More links, absolute or relative to the page; they take the way of all links."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the page's line in the crawl log: `irlcrawl urls JOB --with NAME` finds them."""


def each(call: Callable[[bytes], Any]) -> Callable[[Batch, PageSeen], list[Any]]:
    """A filter, priority or normaliser that looks at one URL at a time, as a plug-in that takes a batch of them."""

    def many(links: Batch, page: PageSeen) -> list[Any]:
        return [call(url) for url in links["url"].tolist()]

    return many
