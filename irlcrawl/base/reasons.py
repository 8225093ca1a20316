"""Why an outcome is what it is: the reasons, the ledger class that each gives, and the sets of them that decisions use.

A new reason is a line of `Reason` and of CLASS_OF, and of CRAWL_LOG_STATUS where there is no HTTP status; then look
whether it belongs to one of the sets. No decision hangs on the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Class(IntEnum):
    """The ledger class of an outcome (invariant I1)."""

    FETCHED = 0  # any HTTP response
    FAILED = 1
    EXCLUDED = 2
    RETRY = 3  # not done: the row is in `retries` too
    NONE = 4  # outside the ledger: robots.txt
    RETURNED = 5  # no outcome: a URL that was done is put back, and the class it had is no longer its last word


DONE = (Class.FETCHED, Class.FAILED, Class.EXCLUDED)
DONE_NAMES = tuple(cls.name.lower() for cls in DONE)
"""Classes of a URL that is not asked for again, and as the crawl log names them."""


class Reason(IntEnum):
    """Why an outcome is what it is; the lower-case name is what people see."""

    OK = 0
    HTTP_ERROR = 1  # a response >= 400
    REDIRECT = 2
    TRUNCATED = 3  # body over its byte bound: kept as far as it came
    UNWANTED_TYPE = 4  # a page of a media type that fetch.types leaves out: its body was not read
    UNWANTED_LENGTH = 5  # a page longer than fetch.length_max: its body was not read
    CHALLENGE = 6  # in the place of a page: prove that a person asks
    PARKED = 7  # in the place of a page: the domain is for sale
    NOT_MODIFIED = 8  # 304 to a conditional request: the page is as it was
    DNS = 10
    CONNECT = 11
    TLS = 12
    TIMEOUT = 13
    LOST = 14  # connection closed before the response was whole
    PROTOCOL = 15  # not HTTP
    ADDRESS = 16  # resolves only to addresses the configuration does not allow
    HOST_DEAD = 17
    THROTTLED = 18  # 429 or 503
    ROBOTS = 20
    ROBOTS_UNREACHABLE = 21  # RFC 9309 2.3.1.4: complete disallow
    QUOTA_HOST = 22
    QUOTA_SITE = 23
    BLOCKED = 24
    FRONTIER_FULL = 26  # given up to keep the frontier within frontier.bytes_max
    WITHHELD = 30  # its owner asks not to keep it (page.wishes_obeyed): read for links, not stored
    OPTED_OUT = 31  # its owner wants to be left alone (scope.opt_out_file)
    TAKEN_DOWN = 32  # it was fetched, and its records were taken out of the archive since


CLASS_OF = {
    Reason.OK: Class.FETCHED, Reason.HTTP_ERROR: Class.FETCHED, Reason.REDIRECT: Class.FETCHED,
    Reason.TRUNCATED: Class.FETCHED, Reason.THROTTLED: Class.FETCHED, Reason.UNWANTED_TYPE: Class.FETCHED,
    Reason.UNWANTED_LENGTH: Class.FETCHED, Reason.CHALLENGE: Class.FETCHED, Reason.PARKED: Class.FETCHED,
    Reason.NOT_MODIFIED: Class.FETCHED, Reason.WITHHELD: Class.FETCHED, Reason.TAKEN_DOWN: Class.FETCHED,
    Reason.DNS: Class.FAILED, Reason.CONNECT: Class.FAILED, Reason.TLS: Class.FAILED, Reason.TIMEOUT: Class.FAILED,
    Reason.LOST: Class.FAILED, Reason.PROTOCOL: Class.FAILED, Reason.ADDRESS: Class.FAILED,
    Reason.HOST_DEAD: Class.FAILED,
    Reason.ROBOTS: Class.EXCLUDED, Reason.ROBOTS_UNREACHABLE: Class.EXCLUDED, Reason.QUOTA_HOST: Class.EXCLUDED,
    Reason.QUOTA_SITE: Class.EXCLUDED, Reason.BLOCKED: Class.EXCLUDED, Reason.FRONTIER_FULL: Class.EXCLUDED,
    Reason.OPTED_OUT: Class.EXCLUDED,
}  # fmt: skip
"""The class of a URL that is done for this reason."""

CRAWL_LOG_STATUS = {
    Reason.DNS: -1, Reason.CONNECT: -2, Reason.TLS: -2, Reason.LOST: -3, Reason.TIMEOUT: -4, Reason.PROTOCOL: -5,
    Reason.ADDRESS: -7, Reason.HOST_DEAD: -8, Reason.ROBOTS: -9998, Reason.ROBOTS_UNREACHABLE: -61,
    Reason.QUOTA_HOST: -5003, Reason.QUOTA_SITE: -5003, Reason.BLOCKED: -5001, Reason.FRONTIER_FULL: -5003,
    Reason.OPTED_OUT: -5002,
}  # fmt: skip
"""Heritrix's negative fetch status for outcomes without a response."""

DOUBTFUL = frozenset((Reason.CONNECT, Reason.TIMEOUT, Reason.LOST))
"""Failures of a request of which our own network may be the cause. A TLS failure is the host's."""

PASSING = DOUBTFUL | {Reason.TLS}
"""Failures of a request in which the host gave no answer, and may give one later: the URL is asked for again."""

NO_PAGE = {Reason.CHALLENGE: "challenge", Reason.PARKED: "parked"}
"""What came stands in the place of a page, and how that is counted (counters.py): nothing is taken from it."""

OF_PAGES = range(200, 301)
"""Statuses whose body is a page, with links to follow and wishes to keep. A browser shows a 300, a list of choices."""

UNWANTED = frozenset((Reason.UNWANTED_TYPE, Reason.UNWANTED_LENGTH))
"""The host would have sent a page, and the configuration does not want it."""

LIMITS = frozenset((Reason.QUOTA_HOST, Reason.QUOTA_SITE, Reason.FRONTIER_FULL))
"""A limit of the configuration left the URL out, whatever its host would have said."""

WITHOUT_RESPONSE = PASSING | {Reason.PROTOCOL}
"""All failures of a request. A host that speaks something other than HTTP did answer."""

NO_CONNECTION = frozenset((Reason.CONNECT, Reason.TLS))
"""The host was asked, and nothing was sent over a connection."""

DENIED = frozenset((Reason.ROBOTS, Reason.ROBOTS_UNREACHABLE))
"""The host's robots.txt, or the want of one, left the URL out."""

UNQUEUED = frozenset((Reason.QUOTA_SITE, Reason.FRONTIER_FULL))
"""These kept a URL from a place in the queues: it has to get one when it is put back."""

ERROR_RESPONSES = frozenset((Reason.HTTP_ERROR, Reason.THROTTLED))
"""The host answered with an error instead of a page."""

HAD = frozenset((Reason.OK, Reason.TRUNCATED, Reason.REDIRECT))
"""Something was had that the host serves there."""

FETCHED_WELL = frozenset((Reason.OK, Reason.REDIRECT, Reason.TAKEN_DOWN))
"""Nothing is to be asked again for these."""

LESS_THAN_ALL = frozenset((Reason.TRUNCATED, Reason.WITHHELD))
"""Less was kept of a page than there was."""


NOT_THE_PAGE = frozenset((*NO_PAGE, *UNWANTED, Reason.TAKEN_DOWN))
"""What came, or is left of it, is not what the URL has."""

MAKES_A_PAGE = frozenset((Reason.OK, Reason.WITHHELD))
"""Of a first response, where pages are visited again."""


def names(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """As the crawl log and status records name them, by number."""
    return tuple(reason.name.lower() for reason in sorted(reasons))
