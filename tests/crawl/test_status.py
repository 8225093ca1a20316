"""The status record and what a person sees of it."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from drum import Catalog, Edits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.ask.inspect import describe
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import from_dict, to_toml
from irlcrawl.crawl import status
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import LINE_SECONDS, LineProgress, Progress, TerminalProgress, progress_for
from tests.crawl.virtual_crawl import Crawl, Web, star

RECORD = {
    "state": "running", "pid": 7, "elapsed_s": 3720.0, "fetched": 12345, "bytes": 3_400_000_000,
    "fetched_by_reason": {"ok": 12000, "redirect": 300, "http_error": 45, "truncated": 0}, "failed": 3,
    "failed_by_reason": {"dns": 2, "timeout": 1}, "excluded": 300,
    "excluded_by_reason": {"robots": 299, "quota_site": 1}, "pages_per_s": 45.25, "discovered_urls": 50_000,
    "queued_urls": 37_352, "leased_urls": 64, "duplicate_urls": 1_000_000,
    "active_hosts": 1200, "ready_hosts": 32, "delayed_hosts": {"host_gap": 900, "address": 268}, "shared_addresses": {},
    "per_host_queue_size": {"mean": 31.1, "max": 900, "largest": {"http://a.example": 900}}, "fetch_failures": 12,
    "retry_count": 9, "frontier_latency_s": 95.0, "pass_seconds": 0.031,
}  # fmt: skip

PROMISED = {
    "queued_urls", "active_hosts", "duplicate_urls", "ready_hosts", "delayed_hosts", "fetch_failures", "retry_count",
    "frontier_latency_s", "per_host_queue_size", "fetched", "failed", "excluded", "excluded_by_reason", "pages_per_s",
    "bytes", "state",
}  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    """A JOB in which no crawl runs and none has committed anything."""
    job = JobDir(tmp_path / "job")
    with job:
        job.write_config(to_toml(Config()))
    return job


def commit(job: JobDir, record: dict[str, Any]) -> None:
    edits = Edits()
    edits.set("status", record)
    catalog = Catalog.open(job.state)
    catalog.commit(edits)
    catalog.close()


def test_a_crawl_that_only_waits_says_until_when() -> None:
    """With a robots.txt that could not be had, its only host was neither waiting nor ready, for an hour. Of a host
    outside its hours it said that there were more URLs than it could be asked for."""
    waits = {"queued_urls": 2, "scheduled_urls": 2, "scheduled_due": 4000.5, "updated": 400.5}
    record = status.complete({**RECORD, **waits})
    told = "2 URLs for which their hosts may not be asked yet"
    assert f"later     {told}, the first in 1 h 00 min" in status.lines(record)
    assert f"later {told}, the first in 1 h 00 min" in status.line(record)
    assert f"later     {told}" in status.lines({**record, "state": "interrupted"})
    assert "later" not in status.line({**record, "scheduled_urls": 0, "scheduled_due": None})


def test_a_crawl_that_was_stopped_does_not_say_that_pages_are_due() -> None:
    """Of pages whose first visit was days away it said that some were due."""
    record = status.complete({**RECORD, "pages": 15, "pages_due": 90_000.0, "updated": 3600.0, "visit_price": 1.0})
    assert "pages     15 pages between two visits, the next is due in 1 d 0 h" in status.lines(record)
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(90_000.0))
    stopped = status.lines({**record, "state": "interrupted"})
    assert f"pages     15 pages between two visits, the first is due at {day}" in stopped
    assert "pages     15 pages between two visits, some are due" in status.lines({**record, "updated": 90_001.0})


def test_pages_that_are_visited_no_more_were_said_to_be_due() -> None:
    record = status.complete({**RECORD, "pages": 15, "visit_price": None})
    told = "pages     15 pages between two visits, and none is visited again: revisit.enabled is false"
    assert told in status.lines(record)
    assert told in status.lines({**record, "state": "interrupted"})


def test_nothing_ends_a_crawl_that_is_over(job: JobDir) -> None:
    """Its last commit had a moment at which the wait would end."""
    commit(job, {**RECORD, "state": "done", "wait_ends": 1e9})
    assert status.read_status(job)["wait_ends"] is None


def test_a_person_reads_what_is_fetched_now_what_went_wrong_and_who_is_slow() -> None:
    record = status.complete(
        RECORD
        | {"fetching": {"http://a.test:80": 3.0, "https://b.test:443": 1.0}, "slowest_hosts": {"a.test": 12.0}}
        | {"pages_per_s_over": {"1 min": 40.0, "10 min": 4.0}, "seeds": 50, "new_seeds": 0, "leased_urls": 7}
        | {"paused": {"c.test": {"by": "ann", "since": 1e9}}}
    )  # fmt: skip
    text = "\n".join(status.lines(record))
    for told in ("rate      40/s over 1 min, 4.0/s over 10 min", "now       7 URLs of a.test, b.test",
                 "slowest   a.test 12 s", "seeds     50 given, 0 of them new", "paused    c.test since 2001-09-",
                 " by ann"):  # fmt: skip
        assert told in text, text
    assert "errors 48 (http error 45, dns 2, timeout 1)" in status.line(record)
    assert status.line(record).endswith(", paused c.test"), "a crawl that only waited for it did not say so"
    for word in ("turn", "calendar", "re-read", "put off", "harvest"):
        assert word not in text + status.line(record)


def test_a_summary_has_all_errors_together_and_no_rate_of_a_run_that_fetched_nothing() -> None:
    """`failed 0` stood beside three 503, and `(0.00/s)` behind what earlier runs had fetched."""
    ended = {**RECORD, "state": "done", "pages_per_s": 0.0}
    lines = status.lines(status.complete(ended))
    assert "errors    48 (http error 45, dns 2, timeout 1)" in lines and not any("0.00/s" in line for line in lines)
    only_failed = status.complete({**RECORD, "fetched_by_reason": {"ok": 12345}})
    assert not any(line.startswith("errors") for line in status.lines(only_failed)), "`failed` has them"
    assert "(0.00/s)" in status.line(status.complete({**ended, "state": "running"})), "a crawl that stands still"


def test_every_promised_field_is_there_from_the_start(job: JobDir) -> None:
    record = status.read_status(job)
    assert set(record) >= PROMISED
    assert (record["state"], record["source"]) == ("new", "committed")
    json.dumps(record)
    assert status.lines(record) and status.line(record), "a record of nulls can be read too"


def test_the_last_commit_answers_for_a_crawl_that_does_not_run(job: JobDir) -> None:
    commit(job, {**RECORD, "state": "interrupted", "extra": 1})
    record = status.read_status(job)
    assert record["state"] == "interrupted" and record["fetched"] == 12345 and record["extra"] == 1
    commit(job, RECORD)
    killed = status.read_status(job)
    assert (killed["state"], killed["pid"]) == ("killed", None), "it said it ran, and does not"
    with job:
        assert status.read_status(job)["state"] == "busy"


def test_a_crawl_that_runs_is_asked(job: JobDir, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(job, RECORD)
    monkeypatch.setattr(status, "ask", lambda path, cmd: {"state": "running", "fetched": 99999})
    record = status.read_status(job)
    assert (record["source"], record["fetched"], record["queued_urls"]) == ("live", 99999, None)


def test_a_dead_socket_is_no_running_crawl(job: JobDir) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(job.socket))
    assert status.read_status(job)["state"] == "new"


def test_one_page_was_told_as_1_pages() -> None:
    told = {"damaged_pages": 1, "unparsed_pages": 2, "partly_read_pages": 1, "trapped_urls": 1}
    line = next(line for line in status.lines(status.complete(RECORD | told)) if line.startswith("links"))
    assert "1 page damaged" in line and "2 pages unparsed" in line and "1 page read in part" in line
    assert "1 in traps" in line


def test_lines_say_what_the_record_says() -> None:
    text = "\n".join(status.lines(status.complete(RECORD)))
    for told in ("running, after 1 h 02 min", "12,345 URLs, 3.4 GB (45/s)", "ok 12,000, redirect 300, http error 45",
                 "dns 2, timeout 1", "robots 299",
                 "37,416 URLs (64 of them with workers now); 1,200 hosts in memory (32 ready), at most 900 URLs a host",
                 "a URL is requested 1 min 35 s after it was found",
                 "host gap 900, address 268", "1,000,000 more led to these", "9 requests to be repeated",
                 "12 requests without"):  # fmt: skip
        assert told in text, text
    assert "truncated" not in text, "what is zero is left out"
    line = status.line(status.complete(RECORD))
    assert "\n" not in line and "fetched 12,345 (45/s)" in line and "waiting 37,416, " in line


def test_every_exit_of_a_crawl_has_a_state() -> None:
    never_ran = {ExitCode.CONFIG, ExitCode.LOCKED}
    assert set(status.ENDED) == set(ExitCode) - never_ran
    assert not set(status.ENDED.values()) & set(status.ALIVE)


@given(st.floats(0, 1e18))
def test_sizes_rates_and_durations_stay_short_and_true(number: float) -> None:
    digits, unit = words.size(number).split()
    factor = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert float(digits.replace(",", "")) * factor == pytest.approx(number, rel=0.06, abs=0.5)
    assert len(digits) <= 5 or unit == "TB"
    assert words.duration(min(number, 1e9))
    assert float(words.rate(number).replace(",", "")) == pytest.approx(number, rel=0.06, abs=0.006)


def test_numbers_for_people() -> None:
    assert [words.duration(s) for s in (0, 0.0231, 0.25, 1.44, 59.4, 60, 3599.9, 86_399, 90_000, None)] == [
        "0 ms", "23 ms", "0.2 s", "1.4 s", "59 s", "1 min 00 s", "1 h 00 min", "23 h 59 min", "1 d 1 h", "-",
    ]  # fmt: skip
    sizes = ["0 bytes", "999 bytes", "1.0 kB", "99.9 kB", "1.0 MB"]
    assert [words.size(n) for n in (0, 999, 1000, 99_940, 999_600)] == sizes
    assert words.parts({"a_b": 1, "c": 2, "d": 0}) == "c 2, a b 1"
    assert (words.plural(1, "URL"), words.plural(1200, "retry", "retries")) == ("1 URL", "1,200 retries")


def test_progress_is_shown_by_time_not_by_page() -> None:
    clock, out, asked = VirtualClock(), io.StringIO(), []

    def record() -> dict[str, Any]:
        asked.append(clock.now())
        return RECORD

    progress = progress_for(status.VIEW, out, clock=clock)
    assert isinstance(progress, LineProgress), "no terminal: plain lines"
    for _ in range(1000):
        progress.tick(record)
        clock.advance(LINE_SECONDS / 100)
    assert len(asked) == len(out.getvalue().splitlines()) == 10
    assert "\x1b" not in out.getvalue()
    progress.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", ["dumb", "unknown", None])
def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch: pytest.MonkeyPatch, kind: str | None) -> None:
    """The library for the table shows nothing there at all: with TERM=dumb a crawl ran in silence."""
    monkeypatch.delenv("TERM", raising=False)
    if kind is not None:
        monkeypatch.setenv("TERM", kind)
    clock, out = VirtualClock(), Terminal()
    progress = progress_for(status.VIEW, out, clock=clock)
    progress.tick(lambda: RECORD)
    progress.close()
    assert "12,345" in out.getvalue()


def test_a_terminal_gets_a_table_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock, out = VirtualClock(), Terminal()
    progress = progress_for(status.VIEW, out, clock=clock)
    assert isinstance(progress, TerminalProgress)
    progress.tick(lambda: RECORD)
    progress.note("a worker ended")
    progress.close()
    progress.close()
    assert "12,345" in out.getvalue() and "a worker ended" in out.getvalue()


def test_quiet_shows_only_what_is_noted() -> None:
    out = io.StringIO()
    progress = progress_for(status.VIEW, out, quiet=True)
    assert type(progress) is Progress
    progress.tick(lambda: pytest.fail("asked"))
    progress.note("a worker ended")
    assert out.getvalue() == "a worker ended\n"


@pytest.mark.parametrize("kind", [partial(LineProgress, status.VIEW), partial(TerminalProgress, status.VIEW), Progress])
def test_a_reader_that_leaves_ends_no_crawl(kind: Callable[..., Progress]) -> None:
    """The next line of progress did, as an error of the disk."""
    clock = VirtualClock()
    with open("/dev/full", "w") as stream:
        progress = kind(stream, clock)
        for _ in range(3):
            clock.advance(LINE_SECONDS)
            progress.tick(lambda: {"state": "running"})
            progress.note("something happened")
        progress.close()


def test_inspect_says_what_is_in_job(job: JobDir) -> None:
    with job:
        site = {"x.example": {"block": True, "depth_max": 0}}
        job.write_config(to_toml(from_dict({"scope": {"kind": "host", "exclude": ["a", "b"]}, "site": site})))
    commit(job, {**RECORD, "state": "done"})
    (job.warcs / "a.warc.gz").write_bytes(b"x" * 2000)
    (job.warcs / "b.warc.gz.open").write_bytes(b"x" * 3000)
    text = "\n".join(describe(job, "my-crawl"))
    for told in (str(job.path), "scope.kind = host", "scope.exclude = a, b", "x.example: depth_max 0, block True",
                 "12,345 URLs", "1 archive file, 2.0 kB, and 1 not closed yet, 3.0 kB",
                 "irlcrawl resume my-crawl"):  # fmt: skip
        assert told in text, text
    assert "irlcrawl stop" not in text


def test_links_beyond_the_most_that_are_taken_of_a_page_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They vanished without a count."""
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 7)), ["http://a.test/"], monkeypatch)
    crawl.config.page.links_max = 5
    assert crawl.run() == ExitCode.DONE
    record = status.read_status(crawl.job())
    assert (record["beyond_max_urls"], record["discovered_urls"]) == (2, 6)
    assert any("2 beyond page.links_max" in line for line in status.lines(record))
    record["beyond_max_urls"] = 0
    assert not any("links_max" in line for line in status.lines(record))


def test_one_of_a_kind_is_told_in_the_singular() -> None:
    """`1 challenges in the place of pages`."""
    one, two = ("\n".join(status.lines(status.complete({"challenge_pages": n, "unwanted_pages": n}))) for n in (1, 2))
    assert "1 page unwanted, 1 challenge in the place of a page" in one
    assert "2 pages unwanted, 2 challenges in the place of pages" in two
