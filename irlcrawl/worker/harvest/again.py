"""What a visit found beside the visit before: a row of rows.VISIT for each visit with a response of a leased URL, if
pages are visited again.

Like process.py, of which this is a part, it looks at nothing but the unit, the exchange and its place, so that a
replayed visit gives the same row. It never looks at the body of an exchange: of an unchanged page the archive has none.
One exception: a page that was withheld is in no archive, so that no replay has it, and no visit may refer to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import xxhash

from irlcrawl.base.keys import is_home
from irlcrawl.base.reasons import NOT_THE_PAGE, Reason
from irlcrawl.base.rows import Change, PageFlag
from irlcrawl.web.retry_after import unix_date
from irlcrawl.worker.archive import record
from irlcrawl.worker.archive.known import DIGEST_BYTES, ETAG_BYTES_MAX, Known
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.harvest.builder import UnitRows

HUB_LINKS = 256
"""Links of a page that are remembered: those of the smallest hashes, so that of any number a fair share is."""
HUB_LINKS_MIN = 8
"""A page with fewer is no hub when it changes."""
NEW_LINKS_MAX = 0xFFFF
MODIFIED_MAX = 0xFFFFFFFF
GONE = frozenset((404, 410))
UNCHANGED = frozenset((Change.NOT_MODIFIED, Change.SAME))
WITHOUT_YIELD = UNCHANGED | {Change.NEAR, Change.GONE, Change.ERROR, Change.FIRST}
"""A later visit that found this brings no yield: it would ruin the budget of a site that is as it was."""
_KEPT_BY_304 = ~(PageFlag.ALWAYS | PageFlag.GONE_ONCE | PageFlag.DENIED)
WORDS = {
    Change.FIRST: "unknown", Change.NOT_MODIFIED: "none", Change.SAME: "same", Change.NEAR: "near", Change.YES: "yes",
    Change.GONE: "gone", Change.ERROR: "error",
}  # fmt: skip
"""As the crawl log says it."""

_ETAG = re.compile(rb"[!-~](?:[ -~]*[!-~])?")


def change_of(unit: Unit, exchange: Exchange, sha1: bytes) -> Change:
    """What can be said without looking at the page: YES where it is to be looked at (`decided`)."""
    known = unit.page
    if known is None:
        return Change.FIRST
    if unit.reason == Reason.NOT_MODIFIED:
        return Change.NOT_MODIFIED
    if unit.status in GONE:
        return Change.GONE
    if _says_nothing(unit) or exchange.truncated in ("time", "disconnect"):
        return Change.ERROR
    if known.unknown:
        return Change.FIRST
    if known.holds(sha1) and known.content == (_target(exchange) or known.content):
        return Change.SAME
    return Change.YES


def _says_nothing(unit: Unit) -> bool:
    """Whether a response is none from which one learns what the page is: an error, a 304 that nobody asked for, what
    stands in the place of a page, or what was not read."""
    return unit.status >= 400 or unit.status == 304 or unit.reason in NOT_THE_PAGE


def decided(unit: Unit, exchange: Exchange, change: Change, wording: int) -> Change:
    """Whether a page of other bytes says something else. wording: of the page; 0 for what has none."""
    assert unit.page is not None
    content = wording or _target(exchange)
    return Change.NEAR if content and content == unit.page.content else change


def visit_row(unit: Unit, exchange: Exchange, location: Location, change: Change, found: UnitRows) -> tuple[Any, ...]:
    """A row of rows.VISIT. A page of which a list tells that it changed is as good a find as a new one."""
    known = unit.page or Known()
    at = (unit.segment, unit.row, unit.start, change)
    if change in (Change.GONE, Change.ERROR) or (change is Change.FIRST and _says_nothing(unit)):
        return (*at, 0, *_columns(known))
    if change is Change.NOT_MODIFIED:
        return (*at, 0, *_columns(known._replace(flags=known.flags & _KEPT_BY_304)))
    sha1 = record.sha1_of(location.digest) if location.digest else record.sha1(exchange.body)
    now = Known(
        stored=_stored(unit, location, known),
        digest=int.from_bytes(sha1[:DIGEST_BYTES], "big"),
        content=known.content if change is Change.SAME else found.wording or _target(exchange),
        modified=_modified(exchange),
    )
    now = now._replace(validators=_validators(exchange, sha1, known, now, change))
    hub, new_links = (known.hub, 0) if change is Change.SAME else _hub(unit, known, change, found)
    now = now._replace(flags=_flags(known, now, change, found), hub=hub)
    return (*at, min(new_links + len(found.signals), NEW_LINKS_MAX), *_columns(now))


def _stored(unit: Unit, location: Location, known: Known) -> float:
    """As in rows.PAGE; 0 where no record of the page holds its payload."""
    if not location.digest:  # withheld
        return 0.0
    if unit.size is None:
        return unit.start
    return (unit.own or 0.0) if unit.borrowed else known.stored


def _columns(known: Known) -> tuple[Any, ...]:
    """Those of VISIT behind `new_links`."""
    return known[1:]


def _target(exchange: Exchange) -> int:
    """What a redirect says; 0 for what is none."""
    location = exchange.value(b"location") if 300 <= exchange.status < 400 else None
    return xxhash.xxh3_64_intdigest(location) or 1 if location else 0


def _modified(exchange: Exchange) -> int:
    at = unix_date((exchange.value(b"last-modified") or b"").decode("latin-1"))
    return int(at) if at is not None and 0 < at <= MODIFIED_MAX else 0


def _validators(exchange: Exchange, sha1: bytes, known: Known, now: Known, change: Change) -> bytes:
    """As in rows.PAGE. Where one byte for byte the same page has an ETag of its own at each visit (each of several
    servers makes one), Last-Modified goes alone, if there is one."""
    etag = exchange.value(b"etag") or b""
    if len(etag) > ETAG_BYTES_MAX or not _ETAG.fullmatch(etag):
        etag = b""
    if change is Change.SAME and now.modified and known.validators and etag != known.etag:
        etag = b""
    return sha1[DIGEST_BYTES:] + etag if etag or now.modified else b""


def _flags(known: Known, now: Known, change: Change, found: UnitRows) -> int:
    """VALIDATOR is lost where a page says something else under the validators it had: its server does not know when it
    changes."""
    flags = found.lists if change is not Change.SAME else known.flags & (PageFlag.FEED | PageFlag.SITEMAP)
    lied = change is Change.YES and known.validators and (known.etag, known.modified) == (now.etag, now.modified)
    distrusted = lied or (known.validators and not known.flags & PageFlag.VALIDATOR)
    if now.validators and not distrusted:
        flags |= PageFlag.VALIDATOR
    if change is Change.NEAR or (change is Change.YES and known.flags & PageFlag.ALWAYS):
        flags |= PageFlag.ALWAYS
    return int(flags)


def _hub(unit: Unit, known: Known, change: Change, found: UnitRows) -> tuple[bytes, int]:
    """(hashes of a page's links, how many are new). What a person would call a hub keeps them from its first visit on,
    other pages from the first change on, until a change brings no new link."""
    hashes = _hashes([row[0] for row in found.links])
    if known.hub:
        new = _new(hashes, np.frombuffer(known.hub, "<u2"))
        return (_kept(hashes) if new or found.lists or is_home(unit.url) else b""), new
    changes = change is Change.YES and len(hashes) >= HUB_LINKS_MIN
    return (_kept(hashes) if changes or found.lists or is_home(unit.url) else b""), 0


def _hashes(keys: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """u2[distinct], in order."""
    return np.unique(np.array(keys, np.uint64).astype("<u2"))  # the last bits: the first are their site's


def _kept(hashes: np.ndarray[Any, np.dtype[np.uint16]]) -> bytes:
    return hashes[:HUB_LINKS].tobytes()


def _new(hashes: np.ndarray[Any, np.dtype[np.uint16]], known: np.ndarray[Any, np.dtype[np.uint16]]) -> int:
    """About how many of these links a page did not have: exactly, but for one in some hundred, where all it had are
    known; else as many as the share that is known tells."""
    limit = int(known[-1]) if len(known) == HUB_LINKS else 0xFFFF
    new = len(np.setdiff1d(hashes[hashes <= limit], known, assume_unique=True))
    return min(round(new * 0x10000 / (limit + 1)), NEW_LINKS_MAX)
