"""The shapes that cross process and disk boundaries: one place for every column name.

A URL on its way through the frontier is a row of `LINK`; what became of it is a row of `OUTCOME`; what a worker learnt
about a host is a row of `FACT`. Worker, frontier and replay all use these, so a column that is added here is passed on
by all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from drum import Batch

BYTES = "bytes"
"""The dtype name of a ragged column (drum.ragged.Ragged)."""

CARRIED = {
    "depth": "u2",  # links from the nearest seed
    "hop": "u1",  # redirects since the last link; of a requisite also style sheets, since its page
    "source": "u1",  # Source
    "priority": "u1",  # smaller goes first: priority_of
    "attempt": "u1",  # requests already made for this URL
    "via": BYTES,  # the page that linked to it first (or redirected to it); empty for a seed
}
"""What a link row says of a URL that the URL itself does not."""


class Carried(NamedTuple):
    """The values of CARRIED, in its order. They go with the URL into the queues, a run, a lease and the archived unit,
    and come back with a retry. Code that passes rows on names none of them: a new column is a line here and one in
    CARRIED, with a default for seeds and for units that were archived without it."""

    depth: int = 0
    hop: int = 0
    source: int = 0
    priority: int = 0
    attempt: int = 0
    via: bytes = b""

    def again(self) -> Carried:
        """One request later."""
        return self._replace(attempt=self.attempt + 1)

    def to_json(self) -> dict[str, int | str]:
        """By column, as JSON has it."""
        return {**self._asdict(), "via": self.via.decode("ascii")}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Carried:
        """Out of a JSON object that has further fields, or lacks some. TypeError, ValueError if a value is of the wrong
        kind."""
        own: dict[str, Any] = {name: values[name] for name in CARRIED if name in values}
        for name, value in own.items():
            own[name] = value.encode("ascii") if type(value) is str else value
        return cls(**own)


LINK = {
    "key": "u8",  # url_key(url, seed, site)
    "site": "u8",  # name_key(registrable domain)
    "host": "u8",  # host_key(origin, site), see origin_of
    **CARRIED,
    "url": BYTES,  # canonical, ASCII, no fragment
}
"""A URL waiting somewhere. On its way into columns it is a tuple (key, site, host, Carried, url)."""

PAGE = {
    "visits": "u2",  # visits with a response, the generation of what follows; 0: never fetched, all else is 0 or empty
    "visited": "u4",  # unix second of the last visit
    "changed": "u4",  # unix second when a change was last seen, or of the Last-Modified that is believed
    "stored": "f8",  # WARC-Date (unix seconds, to the millisecond) of the last full record: revisit records name it
    "digest": "u8",  # first 64 bits of the SHA-1 of that record's payload, for equality only
    "content": "u8",  # fingerprint of its text
    "modified": "u4",  # its Last-Modified as sent (unix seconds); 0: none
    "rate_a": "u1",  # Gamma belief of the rate of changes, without its prior: shape
    "rate_b": "u1",  # ... and exposure in days, both as codes of an eighth of an octave; 0: nothing seen
    "links_a": "u1",  # the same of new links
    "links_b": "u1",
    "weight": "u1",  # importance, 2**((code - 128) / 8)
    "prior": "u1",  # rate of its host's pages when it was last released, as a code
    "told": "u1",  # share of its changes of which its host's signals tell, in 255ths; 0: they are not believed
    "flags": "u1",  # PageFlag
    "validators": BYTES,  # ETag as sent (64 bytes at most) after the other 12 bytes of the SHA-1; empty without an ETag
    #                       and a Last-Modified
    "hub": BYTES,  # 2-byte hashes of the links (256 at most) that a page had which brings new links; else empty
}
"""What is known of a page that was fetched and is to be visited again; rides beside LINK."""


def with_pages(rows: Batch) -> Batch:
    """Rows that have no PAGE columns, with those of a URL that was never visited."""
    from drum import Batch  # loads numpy, which questions to a crawl do not need

    return rows if "visits" in rows else rows.with_(**Batch.zeros(PAGE, rows.rows).columns)


RETRY = {**LINK, "due": "f8"}
"""A URL to be asked for again from `due` (unix seconds) on."""

RETURN = {**LINK, "cls": "u1", "reason": "u1", "status": "i2"}
"""A URL that is put back, and what its last word was: Class, Reason and the status in the crawl log."""

SIGNAL = {**LINK, "at": "f8", "now": "u1"}
"""A word that a page changed at `at` (unix seconds), by a sitemap or a feed; now ORDERED: by the operator, and it is
visited whatever is known of it; now EARLIER: it was fetched at `at`, before pages were visited again, and is to be one
of them."""
ORDERED, EARLIER = 1, 2

PAIR = {"key": "u8", "site": "u8", "from": "u8"}
"""A link between two different sites: key = pair_key(from, to), site = the key of the site linked to, from = of the
other."""

YIELD = {"key": "u8", "novel": "u1"}
"""What a fetch brought its site: key = the site's; novel 1: a successful page with content not met before."""

NEAR = {
    "site": "u8",
    "open": "u1",  # 1: its yield and its pairs wait for what the drum `near` says, and are not in the other sections
    "part0": "u8",  # its sketch (worker/page/sketch.py)
    "part1": "u8",
    "part2": "u8",
    "pairs": BYTES,  # u8[n, 2]: key and site, as in PAIR
}
"""A page whose words are to be compared with those of all pages before it, if page.near_duplicates."""

OUTCOME = {
    "segment": "u4",  # the ready segment leased from; NO_SEGMENT for a fetch no URL stands behind (robots.txt)
    "row": "u4",  # its row there
    "key": "u8",
    "host": "u8",
    "cls": "u1",  # Class
    "reason": "u1",  # Reason
    "status": "i2",  # HTTP status or the negative code of conventions (crawl.log)
    "bytes": "u4",  # of the record on the wire: header and body as received
    "line": BYTES,  # its finished crawl.log line, without newline
}
NO_SEGMENT = 0xFFFFFFFF

VISIT = {
    "segment": "u4",  # the place leased, as in OUTCOME
    "row": "u4",
    "at": "f8",  # unix seconds when the request began
    "change": "u1",  # Change
    "new_links": "u2",  # links that the page did not have at the visit before, and signals; 0 at the first
    # As in PAGE, of the last full record: what the next visit is to compare with.
    "stored": "f8",
    "digest": "u8",
    "content": "u8",
    "modified": "u4",
    "flags": "u1",
    "validators": BYTES,
    "hub": BYTES,
}
"""What a visit with a response found, if pages are visited again."""

FACT = {
    "host": "u8",
    "at": "f8",  # unix seconds; the later fact wins
    "robots": "u1",  # Robots
    "robots_until": "f8",  # unix seconds
    "rules_log": "u4",  # number of the robots log that holds the text
    "rules_offset": "u8",
    "rules_length": "u4",  # 0: no text
    "crawl_delay": "f4",  # seconds; 0 none
    "failed": "u1",  # 1: a visit that ended without any response; 0: a response came
}

SCOPE_ENTRY = {"entry": BYTES}


class Source(IntEnum):
    """Where a URL was found."""

    SEED = 0
    REDIRECT = 1
    LINK = 2
    CANONICAL = 3
    FRAME = 4
    SCRIPT = 5
    SITEMAP = 6  # a sitemap or a feed lists it, or a robots.txt names it as a sitemap
    REQUISITE = 7  # a page needs it to be seen as it is; so does what a requisite redirects to, or a style sheet needs


class Change(IntEnum):
    """The difference between a visit and the one before."""

    FIRST = 0  # the first visit
    NOT_MODIFIED = 1  # 304
    SAME = 2  # the payload's digest is the one of the last full record
    NEAR = 3  # other bytes, the same text: boilerplate, dates, digits
    YES = 4
    GONE = 5  # 404 or 410
    ERROR = 6  # another status from 400 on, a 304 that nobody asked for, or a body that broke off: nothing is learnt


class PageFlag(IntEnum):
    """Bits of PAGE's and VISIT's `flags`."""

    VALIDATOR = 1  # conditional requests are worth a try
    ALWAYS = 2  # differs at each fetch
    FEED = 4
    SITEMAP = 8
    DENIED = 16  # robots.txt forbade the last visit
    GONE_ONCE = 32
    SIGNALLED = 64  # this visit is due to a signal that is believed
    NOW = 128  # the operator asked for this visit


DISCOVERY_LETTER = {
    Source.SEED: "-", Source.REDIRECT: "R", Source.LINK: "L",
    Source.CANONICAL: "C", Source.FRAME: "E", Source.SCRIPT: "X",
    Source.SITEMAP: "M", Source.REQUISITE: "Q",
}  # fmt: skip


class Robots(IntEnum):
    """State of a host's robots.txt (RFC 9309 section 2.3.1)."""

    UNKNOWN = 0  # never asked, or expired
    RULES = 1  # 2xx: the text is in the robots log
    ALLOW = 2  # 4xx except 429: no restrictions
    DENY = 3  # 5xx, 429, network error, too many redirects past the grace: complete disallow, for a short time
