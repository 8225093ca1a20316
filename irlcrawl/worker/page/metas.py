"""The `<meta>` elements of a page's head that have one of some names: where pages say what may be done with them.

Most heads have none, and one pass of an automaton over the head says so. Only the head is looked at: behind it a
`<meta name=…>` is no valid HTML.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import re2

from irlcrawl.worker.page import scan

HEAD_BYTES_MAX = 128 << 10
"""Bytes looked at of a page whose head is longer, or ends by no `</head`."""


def named(body: bytes, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(name in lower case, content) of each in `body` (content-decoded HTML), in order. names: in lower case."""
    end = body.find(b"</head", 0, HEAD_BYTES_MAX)
    if end < 0:
        end = min(len(body), HEAD_BYTES_MAX)
    if _with_one_of(names).search(body, 0, end) is None:
        return
    for element in scan.elements(body[:end]):
        if not isinstance(element, bytes) and element.tag == "meta":
            name = (element.attrs.get("name") or "").strip().lower()
            if name in names:
                yield name, element.attrs.get("content") or ""


@lru_cache(maxsize=8)
def _with_one_of(names: tuple[str, ...]) -> re2._Regexp[bytes]:
    """Finds what may be such an element. It begins with letters, which RE2 looks for at four times the speed."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(rf"(?i)meta[\s/][^<>]*(?:{'|'.join(map(re2.escape, names))})".encode(), options)
