"""What servers answer: faults, status, redirects, latency and content, as columns.

A status below zero is one of the crawl log's (reasons.CRAWL_LOG_STATUS): no answer came. The content column is a
fingerprint: pages with equal content are duplicates or nearly so, which is how mirrors, session ids and soft 404s give
themselves away to a crawler that looks.
"""

from __future__ import annotations

from enum import IntEnum

from drum.ragged import Batch

import numpy as np

from irlcrawl.base.reasons import CRAWL_LOG_STATUS, Reason
from tools.simweb.mix import Array, F8s, U8s, lots, mix, normal, uniform
from tools.simweb.params import SLOW_FACTOR
from tools.simweb.truth import NOWHERE, Section, Sites, Truth, index_of, join_index, page_number, site_of

BODY_BYTES_MEDIAN = 14_500  # the mean is 24 KB, as IRLbot measured
BODY_BYTES_MAX = 4 << 20
TIMEOUT_SECONDS = 120.0
FARM_TEMPLATES = 500


class Fault(IntEnum):
    """What is wrong with a host, for the whole run."""

    NONE = 0
    DNS = 1
    CONNECT = 2
    TIMEOUT = 3
    ERROR = 4
    FLAKY = 5


_FAULT_STATUS = np.array(
    [0, *(CRAWL_LOG_STATUS[r] for r in (Reason.DNS, Reason.CONNECT, Reason.TIMEOUT)), 500, 0], np.int16
)


def fault(web: Sites, hosts: U8s) -> Array:
    """Fault of each host, u1."""
    p = web.params
    shares = np.cumsum([p.dns_share, p.connect_share, p.timeout_share, p.error_share, p.flaky_share])
    drawn = np.searchsorted(shares, uniform(mix(web.salt("fault"), hosts)), side="right")
    return np.where(drawn < len(shares), drawn + 1, Fault.NONE).astype(np.uint8)


def status(web: Sites, pages: U8s, attempt: int | Array = 0, wrong: Array | None = None) -> Array:
    """HTTP status, or the crawl log's negative one, i2. `attempt` matters on flaky hosts only. wrong: the fault of each
    page's host, for callers who know it."""
    p = web.params
    drawn, may = web.status_lot(pages), web.may_fail(pages)
    missing, moved = lots(p.page_missing_share), lots(p.page_moved_share)
    found = np.full(len(pages), 200, np.int16)
    soft = web.trap(site_of(pages)) == Section.SOFT404
    found[may & (drawn < missing) & ~soft] = 404
    found[may & (drawn >= missing) & (drawn < missing + moved)] = 301
    found[may & (drawn >= 65536 - lots(p.page_error_share))] = 500
    if wrong is None:
        wrong = fault(web, web.host(pages))
    tries = np.broadcast_to(np.asarray(attempt), len(pages))
    busy = (wrong == Fault.FLAKY) & (mix(web.salt("flaky"), pages, tries) % np.uint64(3) == 0)
    found[busy] = 503
    return np.where(_FAULT_STATUS[wrong] != 0, _FAULT_STATUS[wrong], found).astype(np.int16)


def location(web: Sites, pages: U8s) -> U8s:
    """Where the page redirects to if its status is 301: on its host, nearer the home page, so no redirects circle."""
    site = site_of(pages)
    host, page = web.place(pages)
    return page_number(site, Section.PAGES, join_index(host, page // 2, web.host_count(site)))


def content(web: Sites, pages: U8s, when: float | Array = 0.0) -> U8s:
    """The fingerprint of what a page says."""
    site, index = site_of(pages), index_of(pages)
    truth = web.truth(pages, when)
    own = mix(web.salt("content"), web.twin(pages))
    same = mix(web.salt("same"), site, truth)
    shown = page_number(site, Section.PAGES, np.where(truth == Truth.SESSION, index >> 20, 0))
    farmed = mix(web.salt("farm page"), web.farm(site), own % np.uint64(FARM_TEMPLATES))
    choices = [
        (truth == Truth.SESSION, mix(web.salt("content"), shown)),
        (truth == Truth.PARAMETERS, mix(web.salt("same"), site, index & 15)),
        ((truth >= Truth.CALENDAR) & (truth <= Truth.SOFT404), same),
        ((truth == Truth.FARM) | (truth == Truth.TURNED), farmed),
        (truth == Truth.SUBDOMAINS, mix(web.salt("same"), site, own % np.uint64(FARM_TEMPLATES))),
    ]
    return np.select([c for c, _ in choices], [v for _, v in choices], own)


def pace(web: Sites, hosts: U8s) -> F8s:
    """Seconds a host takes to answer, as a rule."""
    slow = np.where(uniform(mix(web.salt("slow"), hosts)) < web.params.slow_share, SLOW_FACTOR, 1.0)
    return np.asarray(web.params.latency_seconds * np.exp(normal(mix(web.salt("latency"), hosts))) * slow)


def latency(web: Sites, pages: U8s, code: Array, pace: F8s) -> F8s:
    """Seconds to the last byte of each page, given its status and its host's pace."""
    seconds = pace * np.exp(0.3 * normal(mix(web.salt("page latency"), pages)))
    seconds[code == CRAWL_LOG_STATUS[Reason.TIMEOUT]] = TIMEOUT_SECONDS
    return np.minimum(seconds, TIMEOUT_SECONDS)


def answers(web: Sites, pages: U8s, when: float | Array = 0.0, attempt: int | Array = 0) -> Batch:
    """What a GET of each page brings: status i2, seconds f8 (to the last byte), bytes u4 (of the body), location u8
    (NOWHERE unless redirected), content u8 (0 unless 200)."""
    code = status(web, pages, attempt)
    ok = code == 200
    size = np.minimum(BODY_BYTES_MEDIAN * np.exp(normal(mix(web.salt("bytes"), web.twin(pages)))), BODY_BYTES_MAX)
    return Batch({
        "status": code,
        "seconds": latency(web, pages, code, pace(web, web.host(pages))),
        "bytes": np.where(ok, size, np.where(code > 0, 200, 0)).astype(np.uint32),
        "location": np.where(code == 301, location(web, pages), NOWHERE),
        "content": np.where(ok, content(web, pages, when), np.uint64(0)),
    })  # fmt: skip
