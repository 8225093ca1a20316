"""Verdicts: which failures pass, how long until the next try, and what a server may say about that."""

from __future__ import annotations

import email.utils
import time
from typing import Any

import pytest

from irlcrawl.base.reasons import Class, Reason
from irlcrawl.config.keys import Config
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch.http import Fetched
from irlcrawl.worker.fetch.verdict import Verdict, judge

ENDED = 1_700_000_000.0


def fetched(status: int = 200, reason: Reason = Reason.OK, truncated: str | None = None, **header: str) -> Fetched:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in header.items())
    head = f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode()
    exchange = Exchange(b"http://a.test/", "192.0.2.1", b"", head, b"", truncated) if status else None
    return Fetched(reason, exchange, status, ENDED - 1, ENDED)


def verdict(*args: Any, attempt: int = 0, config: Config | None = None, **more: Any) -> Verdict:
    return judge(fetched(*args, **more), attempt, config or Config())


@pytest.mark.parametrize(
    ("status", "cls", "reason", "ends"),
    [
        (200, Class.FETCHED, Reason.OK, None), (304, Class.FETCHED, Reason.OK, None),
        (301, Class.FETCHED, Reason.REDIRECT, None), (404, Class.FETCHED, Reason.HTTP_ERROR, None),
        (408, Class.FETCHED, Reason.HTTP_ERROR, None), (429, Class.RETRY, Reason.THROTTLED, "throttled"),
        (500, Class.RETRY, Reason.HTTP_ERROR, None), (501, Class.FETCHED, Reason.HTTP_ERROR, None),
        (503, Class.RETRY, Reason.THROTTLED, "throttled"), (504, Class.RETRY, Reason.HTTP_ERROR, None),
        (505, Class.FETCHED, Reason.HTTP_ERROR, None), (999, Class.FETCHED, Reason.HTTP_ERROR, None),
    ],
)  # fmt: skip
def test_responses(status: int, cls: Class, reason: Reason, ends: str | None) -> None:
    got = verdict(status)
    assert (got.cls, got.reason, got.status, got.ends, got.keep) == (cls, reason, status, ends, True)
    last = verdict(status, attempt=8)
    assert (last.cls, last.reason, last.ends) == (Class.FETCHED, reason, ends), "a last response is kept as it is"


@pytest.mark.parametrize(
    ("reason", "status", "passes"),
    [
        (Reason.CONNECT, -2, True), (Reason.TIMEOUT, -4, True), (Reason.LOST, -3, True), (Reason.TLS, -2, True),
        (Reason.PROTOCOL, -5, False),
    ],
)  # fmt: skip
def test_no_responses(reason: Reason, status: int, passes: bool) -> None:
    got = verdict(0, reason)
    assert (got.cls, got.status) == (Class.RETRY if passes else Class.FAILED, status)
    assert verdict(0, reason, attempt=8).cls is Class.FAILED
    assert got.ends == (None if reason is Reason.PROTOCOL else "failed")


def test_a_broken_body_is_kept_only_when_no_try_is_left() -> None:
    first = verdict(200, Reason.LOST, "disconnect")
    assert (first.cls, first.keep, first.status) == (Class.RETRY, False, -3)
    last = verdict(200, Reason.LOST, "disconnect", attempt=8)
    assert (last.cls, last.reason, last.keep, last.status) == (Class.FETCHED, Reason.TRUNCATED, True, 200)
    assert first.ends == last.ends == "ok", "the host answers: a page that always breaks off must not close it"
    cut = verdict(200, truncated="length")
    assert (cut.cls, cut.reason) == (Class.FETCHED, Reason.TRUNCATED)


def test_waits_are_four_times_as_long_each_up_to_a_day() -> None:
    """Nine requests over 71 hours with the defaults."""
    waits = [(verdict(500, attempt=n).retry_due or 0.0) - ENDED for n in range(8)]
    assert waits == [60.0 * minutes for minutes in (1, 4, 16, 64, 256, 1024, 1440, 1440)]
    assert verdict(500, attempt=8).cls == Class.FETCHED
    config = Config()
    config.politeness.retries_max = 100
    assert verdict(500, attempt=99, config=config).retry_due == ENDED + 86_400.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0), (" 7 ", 7.0), ("0", 0.0), (email.utils.formatdate(ENDED + 90, usegmt=True), 90.0),
        (email.utils.formatdate(ENDED - 90, usegmt=True), 0.0), ("99999999999999999999", 86_400.0), ("soon", None),
        ("-5", None), ("1.5", 1.0), ("3600.0", 3600.0), ("3600s", 3600.0), ("60, 60", 60.0), ("2 minutes", None),
        ("2026-11-28T10:00:00Z", None), ("", None), ("\u0661\u0662", None), ("Mon, 99 Foo 2024 00:00:00 GMT", None),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
    ],
)  # fmt: skip
def test_retry_after(value: str, seconds: float | None) -> None:
    got = verdict(503, retry_after=value)
    assert got.retry_after == seconds
    assert got.retry_due == ENDED + max(60.0, seconds or 0.0)
    assert verdict(404, retry_after=value).retry_after is None


@pytest.mark.parametrize("status", [403, 500, 501, 502, 504])
def test_other_errors_with_a_retry_after_throttle_as_a_429_does(status: int) -> None:
    """Limits of rates come as 403, too; the host was asked on at once."""
    got = verdict(status, retry_after="90")
    assert (got.cls, got.reason, got.retry_after, got.ends) == (Class.RETRY, Reason.THROTTLED, 90.0, "throttled")
    assert got.retry_due == ENDED + 90
    assert verdict(status, retry_after="0").ends is None and verdict(status, retry_after="soon").ends is None


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
def test_a_date_was_taken_against_this_machines_clock(ahead: int) -> None:
    """With ours an hour ahead of the server's a host was asked again at once, an hour behind, an hour too late."""
    value, date = (email.utils.formatdate(ENDED + ahead + at, usegmt=True) for at in (90, 0))
    assert verdict(503, retry_after=value, date=date).retry_after == 90.0
    assert verdict(503, retry_after=value, date="yesterday").retry_after == max(0.0, 90.0 + ahead)


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"])
def test_a_date_without_a_zone_was_one_of_this_machines_zone(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = time.strftime(form, time.gmtime(ENDED + 90))
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert verdict(503, retry_after=value).retry_after == 90.0
    time.tzset()


@pytest.mark.parametrize("status", [200, 202, 403])
def test_a_challenge_is_no_page_and_its_host_is_asked_less(status: int) -> None:
    got = verdict(status, cf_mitigated="challenge")
    assert (got.cls, got.reason, got.status, got.ends, got.keep) == (
        Class.FETCHED, Reason.CHALLENGE, status, "throttled", True,
    )  # fmt: skip
    later = verdict(503, cf_mitigated="challenge")
    assert (later.cls, later.reason, later.ends) == (Class.RETRY, Reason.THROTTLED, "throttled")
