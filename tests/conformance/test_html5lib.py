"""html5lib's tests, as far as a reader of links and charsets can be held to them: trees by the links in them, which
Lexbor's tree has as well, and encodings by the prescan."""

from __future__ import annotations

import re
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from irlcrawl.base.url import canonical
from irlcrawl.config.keys import Page
from irlcrawl.worker.page import charset, links
from tests.conformance.conftest import Told
from tests.conformance.vectors import path_of

BASE = b"http://h.test/b/"
PRESCAN_BYTES = 1024
LATE = 7
"""Declarations behind so many bytes, or written by a script: a browser begins anew when it meets one, and we do not."""


def cases(directory: str) -> list[bytes]:
    files: list[Path] = sorted(path_of(f"html5lib-tests/{directory}").glob("*.dat"))
    return [case for file in files for case in re.split(rb"^#data\n", file.read_bytes(), flags=re.MULTILINE)[1:]]


def test_links_of_trees(told: Told) -> None:
    wrong, seen = [], 0
    for case in cases("tree-construction"):
        if b"#document-fragment" in case or b"#script-on" in case:
            continue
        data = re.split(rb"\n#(?:errors|new-errors|document)", case, maxsplit=1)[0]
        seen += 1
        ours = {url for url, _ in links.extract(data, "text/html; charset=utf-8", BASE, Page(nofollow=False)).links}
        hrefs = [node.attributes["href"] or "" for node in LexborHTMLParser(data).css("a[href],area[href]")]
        theirs = {url for href in hrefs if (url := canonical(href, BASE)) and url != BASE}
        if b"href" in data.lower() and ours != theirs:  # other elements have links of which Lexbor's tree says nothing
            wrong.append((data, ours, theirs))
    assert not wrong and seen > 1500
    told("html5lib-tests/tree-construction (links)", seen)


def test_encodings(told: Told) -> None:
    late, seen = 0, 0
    for case in cases("encoding"):
        data, _, rest = case.partition(b"\n#encoding\n")
        want, got = charset.codec_of(rest.split(b"\n")[0].decode().strip()), charset.sniff(data, "text/html")
        seen += 1
        if want == got or (data.isascii() and got == "utf-8" and want == "whatwg-1252"):  # none declared: the same text
            continue
        assert len(data) > PRESCAN_BYTES or b"<script" in data, data
        late += 1
    assert late == LATE and seen > 80
    told("html5lib-tests/encoding", seen)
