"""What tells that two pages say the same: a fingerprint of the body that numbers do not change.

Pages of a calendar, of a paginated list, or behind a session id differ in little else than digits. Markup and words are
left as they are: a fingerprint of the text alone (SimHash) costs as much as all the rest of a page.
"""

from __future__ import annotations

import xxhash

DIGITS = b"0123456789"
PIECE = 64 << 10
"""Of a page at a time: a copy of all of a large one would be new pages of memory each time (base/memory.py)."""


def fingerprint(body: bytes) -> int:
    """u8, never 0, of a decoded body."""
    hasher = xxhash.xxh3_64()
    for start in range(0, len(body), PIECE):
        hasher.update(body[start : start + PIECE].translate(None, DIGITS))
    return hasher.intdigest() or 1
