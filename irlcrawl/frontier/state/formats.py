"""Which format of JOB this program opens: a JOB of any other format is refused before anything in it is touched.

Every file says what it is: segments and the catalogue carry magic, version and key function (drum/FORMAT.md), the logs
beside them theirs (worker/harvest/rules_log.py, lease_log.py); the catalogue entry `crawl` has the version of JOB as a
whole and how its keys are made.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from drum import Catalog, Damaged, Files, UnknownVersion

FORMAT = 2
KEYS = "site-12"
"""How keys are made: 12 bits of the site's key, then 52 bits of xxh3, seeded per crawl for URLs (base/keys.py)."""


def identity(crawl_id: str, seed: int, now: float) -> dict[str, Any]:
    """The entry `crawl` of a new crawl."""
    return {"id": crawl_id, "seed": seed, "created": now, "format": FORMAT, "keys": KEYS}


def look(state: str | Path, files: Files | None = None) -> Catalog:
    """The catalogue of a crawl, read-only, as every verb that is no start reads it. FileNotFoundError before the first
    commit, UnknownVersion, Damaged."""
    catalog = Catalog.open(state, files, readonly=True)
    check(catalog.root, catalog.get("crawl"))
    return catalog


def check(state: str, crawl: dict[str, Any] | None) -> None:
    """UnknownVersion when a program of another format made the crawl, or one that makes other keys. crawl: that
    entry."""
    if crawl is None:
        return
    if crawl["format"] != FORMAT:
        raise UnknownVersion(state, crawl["format"], str(FORMAT))
    if crawl["keys"] != KEYS:
        raise UnknownVersion(state, f"{crawl['format']} with keys by {crawl['keys']}", f"keys by {KEYS}")


def check_before_config(state: str | Path) -> None:
    """UnknownVersion. For a JOB whose configuration cannot be read: a key that only later programs know is no mistake
    of who wrote it."""
    with contextlib.suppress(FileNotFoundError, Damaged):
        look(state)
