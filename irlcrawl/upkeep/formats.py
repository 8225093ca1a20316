"""Which formats of JOB this program opens, and what becomes of older ones.

Every file says what it is: segments and the catalogue carry magic, version and key function (drum/FORMAT.md), the logs
beside them theirs (irlcrawl/ruleslog.py, frontier/leases.py); the catalogue entry `crawl` has the version of JOB as a
whole and how its keys are made. Older versions open and become the present one by being opened; later ones are refused.

  1   the first
  2   packed keys in segments; a header on robots logs; the crawl log in parts with a checksum
  3   the key function in robots logs and leases.log, too
  4   numbers in segments in as few bytes as they need; dates at rest where the clock was set (frontier/clockset.py)
"""

from __future__ import annotations

from typing import Any

from drum import Catalog, Edits, UnknownVersion

FORMAT = 4
KEYS = "xxh3-64, seeded per crawl for URLs"


def identity(crawl_id: str, seed: int, now: float) -> dict[str, Any]:
    """The entry `crawl` of a new crawl."""
    return {"id": crawl_id, "seed": seed, "created": now, "format": FORMAT, "keys": KEYS}


def check(catalog: Catalog) -> None:
    """UnknownVersion when a later program made the crawl, or one that makes other keys."""
    crawl = catalog.get("crawl")
    if crawl is None:
        return
    if crawl["format"] > FORMAT:
        raise UnknownVersion(catalog.root, crawl["format"], f"1 to {FORMAT}")
    if crawl.get("keys", KEYS) != KEYS:
        raise UnknownVersion(catalog.root, f"{crawl['format']} with keys by {crawl['keys']}", f"keys by {KEYS}")


def migrate(catalog: Catalog, edits: Edits) -> None:
    """An older crawl is of this version from the next commit on: whatever it has is read as it is."""
    crawl = catalog.get("crawl")
    if crawl is not None and crawl["format"] < FORMAT:
        edits.set("crawl", {**crawl, "format": FORMAT, "keys": KEYS})
