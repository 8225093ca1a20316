"""The `<meta>` elements of a page's head that have one of some names: where pages say what may be done with them.

Most heads have none, and one pass of an automaton over the head says so. Looked at are the head and a little of what is
behind it: a browser takes a `<meta>` behind `</head>` into the head (WHATWG HTML 13.2.6.4.6), and a `</head` may stand
in an attribute.
"""

from __future__ import annotations

from functools import lru_cache

import re2

from irlcrawl.base.steps import Steps
from irlcrawl.worker.page import scan

HEAD_BYTES_MAX = 256 << 10
"""Bytes looked at of a page whose head is longer, or ends by no `</head`."""
FALSE_ENDS_MAX = 8
BEHIND_BYTES = 4 << 10
"""Looked at behind a head."""
_HIDING = ((b"<script", b"</script"), (b"<!--", b"-->"), (b"<style", b"</style"), (b"<title", b"</title"))


def named(body: bytes, names: tuple[str, ...]) -> Steps[list[tuple[str, str]]]:
    """(name in lower case, content) of each in `body` (content-decoded HTML), in order. names: in lower case."""
    found: list[tuple[str, str]] = []
    end = min(_end_of_head(body) + BEHIND_BYTES, HEAD_BYTES_MAX)
    if _with_one_of(names).search(body, 0, end) is None:
        return found
    for element in scan.elements(body[:end]):
        if element is None:
            yield
        elif isinstance(element, scan.Element) and element.tag == "meta":
            name = (element.attrs.get("name") or "").strip().lower()
            if name in names:
                found.append((name, element.attrs.get("content") or ""))
    return found


def _end_of_head(body: bytes) -> int:
    """Where the head ends: a `</head` in a script, say, does not end it."""
    end = body.find(b"</head", 0, HEAD_BYTES_MAX)
    for _ in range(FALSE_ENDS_MAX):
        if end < 0 or not any(body.rfind(opens, 0, end) > body.rfind(ends, 0, end) for opens, ends in _HIDING):
            break
        end = body.find(b"</head", end + 1, HEAD_BYTES_MAX)
    return end if end >= 0 else min(len(body), HEAD_BYTES_MAX)


@lru_cache(maxsize=8)
def _with_one_of(names: tuple[str, ...]) -> re2._Regexp[bytes]:
    """Finds what may be such an element. It begins with letters, which RE2 looks for at four times the speed."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(rf"(?i)meta[\s/][^<>]*(?:{'|'.join(map(re2.escape, names))})".encode(), options)
