"""The sitemaps and feeds that crawler-commons is tested with, held against what an XML parser (expat) sees in them.
`crawler-commons` is the directory src/test/resources of its repository."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from xml.etree import ElementTree

from irlcrawl.base.url import canonical
from irlcrawl.worker.page import entries
from tests.conformance.conftest import Told
from tests.conformance.vectors import path_of

ENTRIES = ("url", "sitemap", "item", "entry")
PARTLY = {"feed.rss": 1}
"""Of a link that is partly text and partly CDATA only the text is seen."""


def of_xml(body: bytes, url: bytes) -> Iterator[bytes | None]:
    """The address of each entry that has one."""
    for entry in ElementTree.fromstring(body).iter():
        children = {_name(child): child for child in reversed(entry)}
        address = children.get("loc", children.get("link"))
        if _name(entry) in ENTRIES and address is not None:
            yield canonical((address.get("href") or address.text or "").strip().encode(), url)


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def test_entries_of_lists(told: Told) -> None:
    seen, missed = 0, {}
    for path in sorted([*path_of("crawler-commons").glob("sitemaps/**/*"), *path_of("crawler-commons").glob("rss/*")]):
        if path.is_dir() or ".txt" in path.name:  # text is no list unless it is called one
            continue
        url, body = b"http://h.test/" + path.name.encode(), path.read_bytes()
        ours = [entry.url for entry in entries.of_list(body, "application/xml", url, 1 << 25)]
        theirs = list(of_xml(gzip.decompress(body) if path.suffix == ".gz" else body, url))
        seen += len(theirs)
        if wrong := sum(one != other for one, other in zip(ours, theirs, strict=True)):
            missed[path.name] = wrong
    assert missed == PARTLY and seen > 100
    told("crawler-commons (entries of sitemaps and feeds)", seen)
