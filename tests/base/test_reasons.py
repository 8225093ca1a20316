"""The tables and sets of reasons: each reason is in those it belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from irlcrawl.base import reasons
from irlcrawl.base.reasons import CLASS_OF, CRAWL_LOG_STATUS, DOUBTFUL, PASSING, WITHOUT_RESPONSE, Class, Reason
from irlcrawl.crawl.status import FIELDS

DONE = (Class.FETCHED, Class.FAILED, Class.EXCLUDED)


def test_every_reason_has_a_class_in_which_a_url_is_done() -> None:
    assert set(CLASS_OF) == set(Reason)
    assert set(CLASS_OF.values()) == set(DONE)


def test_the_crawl_log_has_a_status_for_every_outcome_without_a_response() -> None:
    assert set(CRAWL_LOG_STATUS) == {reason for reason, cls in CLASS_OF.items() if cls is not Class.FETCHED}
    assert all(status < 0 for status in CRAWL_LOG_STATUS.values())


def test_the_class_of_a_reason_does_not_hang_on_its_number() -> None:
    failed = (Reason.DNS, Reason.CONNECT, Reason.ADDRESS, Reason.HOST_DEAD)
    excluded = (Reason.ROBOTS, Reason.ROBOTS_UNREACHABLE, Reason.QUOTA_HOST, Reason.QUOTA_SITE, Reason.BLOCKED)
    assert {CLASS_OF[reason] for reason in failed} == {Class.FAILED}
    assert {CLASS_OF[reason] for reason in excluded} == {Class.EXCLUDED}


def test_failures_of_a_request_are_sorted_by_what_follows() -> None:
    """The host rests after all but PROTOCOL (its host did answer), and the URL is asked for again; no network of ours
    makes TLS fail."""
    assert DOUBTFUL < PASSING < WITHOUT_RESPONSE
    assert {CLASS_OF[reason] for reason in WITHOUT_RESPONSE} == {Class.FAILED}


def test_status_names_every_reason_with_which_a_url_is_fetched() -> None:
    for reason, cls in CLASS_OF.items():
        assert (reason.name.lower() in FIELDS["fetched_by_reason"]) == (cls is Class.FETCHED)


def test_sets_of_reasons_are_made_in_one_file() -> None:
    """A recipe for a new reason can name one file only if no other decides by a set of its own (CONTRIBUTING.md)."""
    made = re.compile(r"[\[({]Reason\.[A-Z_]+, Reason\.[A-Z_]+[\])},]")
    root = Path(reasons.__file__).parents[1]
    assert not [path for path in root.rglob("*.py") if path.name != "reasons.py" and made.search(path.read_text())]
