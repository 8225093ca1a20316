"""What tells that two pages say the same: a fingerprint of the body that numbers do not change.

Pages of a calendar, of a paginated list, or behind a session id differ in little else than digits. Markup and words are
left as they are: a fingerprint of the text alone (SimHash) costs as much as all the rest of a page.
"""

from __future__ import annotations

import xxhash

DIGITS = b"0123456789"


def fingerprint(body: bytes) -> int:
    """u8, never 0, of a decoded body."""
    return xxhash.xxh3_64_intdigest(body.translate(None, DIGITS)) or 1
