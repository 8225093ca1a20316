"""The fingerprint of a page's content, digits apart: two pages with the same fingerprint say the same.

Pages of a calendar, of a paginated list, or behind a session id differ in little but digits. Markup and words are left
as they are: a fingerprint of the text alone (SimHash) costs as much as all other work on a page.
"""

from __future__ import annotations

import xxhash

DIGITS = b"0123456789"


def fingerprint(body: bytes) -> int:
    """The fingerprint of a decoded body: u8, never 0."""
    return xxhash.xxh3_64_intdigest(body.translate(None, DIGITS)) or 1
