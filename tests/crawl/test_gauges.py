"""The status record is counted beside workers that rename files and end as they like."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drum import Files

import pytest
from pytest import approx

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Reason
from irlcrawl.crawl import gauges, status
from irlcrawl.web.robots import Rules
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web

ROBOTS = b"User-agent: *\nDisallow: /2\n"
RULES = Rules(ROBOTS, "test")


def test_an_archive_file_that_gets_its_final_name_while_files_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that closed a file just then ended the crawl with FileNotFoundError."""
    (tmp_path / "kept.warc.gz").write_bytes(b"x" * 10)
    (tmp_path / "full.warc.gz.open").write_bytes(b"x" * 10)
    scandir = os.scandir

    @contextmanager
    def then_renamed(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            found = list(entries)
        (tmp_path / "full.warc.gz.open").rename(tmp_path / "full.warc.gz")
        yield found

    monkeypatch.setattr(os, "scandir", then_renamed)
    assert Files().total(tmp_path) == 10


def test_a_worker_that_ends_while_its_memory_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:

        def then_reaped(*args: Any, **kwargs: Any) -> Any:
            stream = builtins.open(*args, **kwargs)  # noqa: SIM115 - the caller closes it
            process.kill()
            process.wait()
            return stream

        monkeypatch.setattr(gauges, "open", then_reaped, raising=False)
        assert gauges._resident([process.pid]) == 0
        assert gauges._resident([process.pid]) == 0


PAGES = ("a.test/", "a.test/1", "a.test/3")
HTML, TEXT = {"content-type": "text/html"}, {"content-type": "text/plain"}


def test_every_gauge_says_what_its_name_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of a record against what is known of a small crawl: when a visit has begun, and at the end.
    `frontier_latency_s` was the duration of the last turn."""
    web = Web(fetch_s=0.5)
    # Eight URLs: the seed, four pages of it (/2 is not allowed), a host at the same address, one without an address,
    # one that never answers. One link is left out by the configuration.
    links = (*"1234", "/1", "/secret", "http://gone.test/", "http://b.test/", "http://c.test/")
    body = "".join(f'<a href="{link}">x</a>' for link in links)
    web.answers["http://a.test/"] = Answer(200, HTML, body.encode())
    web.page("http://a.test/1", ["http://a.test/"])
    web.page("http://a.test/3")
    web.answers["http://a.test/4"] = Answer(301, {"location": "/3"})
    web.answers["http://b.test/"] = Answer(reason=Reason.TIMEOUT)
    web.answers["http://a.test/robots.txt"] = Answer(200, TEXT, ROBOTS)
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    crawl.names.answers |= {"gone.test": Reason.DNS, "a.test": "10.0.0.9", "c.test": "10.0.0.9"}
    crawl.config.scope.exclude = ["/secret"]
    crawl.config.politeness.retries_max, crawl.config.politeness.retry_delay_seconds = 1, 5.0
    crawl.config.politeness.host_dead_hours = 0.0
    crawl.config.politeness.gap_host_seconds = 1.0
    crawl.config.politeness.visit_urls_max = 2
    records: list[dict[str, Any]] = []
    warcs: list[int] = []

    def look(url: str) -> None:
        if url in ("http://a.test/1", "http://a.test/4"):
            assert crawl.loop is not None
            records.append(status.complete(crawl.loop.status()))
            warcs.append(sum(file.stat().st_size for file in crawl.job().warcs.iterdir()))

    crawl.on_request = look
    monkeypatch.setattr(gauges, "COSTLY_REST", 0.0)
    monkeypatch.setattr(gauges, "_resident", lambda pids: 1000 * len(pids))
    monkeypatch.setattr(Files, "free", lambda files, path: 10**9)
    assert crawl.run() == ExitCode.DONE
    midway, later = records
    last = status.read_status(crawl.job())
    started = {url: at - START for at, url in web.log}  # the last time
    assert list(started.values()) == approx([0, 1.5, 2, 2.5, 3.5, 10, 4.5, 5.5, 7], abs=0.01), (
        "what follows is of these"
    )
    first = [size(web.answers[f"http://a.test/{name}"]) for name in ("robots.txt", "")]
    received = [size(web.answer(url, "", 0.0)) for _, url in web.log if url != "http://b.test/"]
    held = last["held"]
    assert set(held) == set(midway["held"])
    assert later["held"]["block_bytes"] > 0 == held.pop("block_bytes"), "no segment is left, so none of its blocks is"
    assert (0 < held.pop("files_open") <= 128) and held.pop("catalog_entries") > 20
    assert 0 < midway["frontier_bytes"] < 1000
    expected = {
        # when /1 is asked for, while a visit to b.test is out; at the end
        "state": ("running", "done"),
        "paused": ({}, {}),
        "source": (None, "committed"),
        "pid": (os.getpid(), None),
        "started": (START, START),
        "updated": (approx(START + 3.5, abs=0.01), approx(START + 10.5, abs=0.01)),
        "elapsed_s": (approx(3.5, abs=0.01), approx(10.5, abs=0.01)),
        "fetched": (1, 5),
        "fetched_by_reason": ({"ok": 1}, {"ok": 3, "http_error": 1, "redirect": 1}),
        "failed": (0, 2),
        "failed_by_reason": ({}, {"dns": 1, "timeout": 1}),
        "excluded": (1, 1),
        "excluded_by_reason": ({"robots": 1}, {"robots": 1}),
        "bytes": (sum(first), sum(received)),
        "read_bytes": (len(body), sum(len(web.answers[f"http://{page}"].body) for page in PAGES)),
        "pages_per_s": (approx(1 / 2, abs=0.01), approx(5 / 10.5, abs=0.01)),
        "pages_per_s_over": ({}, {}),  # it was over within a minute
        "fetching": ({"http://b.test:80": approx(1.5, abs=0.01), "http://a.test:80": 0.0}, {}),
        "slowest_hosts": ({"a.test": 0.5, "c.test": 0.5}, {"a.test": 0.5, "b.test": 0.5, "c.test": 0.5}),
        "seeds": (1, 1),
        "new_seeds": (1, 1),
        "discovered_urls": (8, 8),
        "queued_urls": (4, 0),  # /3, /4, c.test, and gone.test, of which no turn has heard yet
        "leased_urls": (2, 0),  # /1, and that of b.test; c.test shares an address, so visits there are of one URL
        "waiting_by_place": ({**NOWHERE, "ready": 6}, NOWHERE),  # all but the seed and /2, those with workers too
        "responses": (1, 5),
        "largest_addresses": ({"10.0.0.9": 2, "10.0.0.1": 1}, {}),
        "scheduled_urls": (0, 0),
        "scheduled_due": (None, None),
        "resting_urls": (0, 0),
        "resting_due": (None, None),
        "resting_hosts": ({}, {"given_up": 2}),
        "wait_ends": (None, None),
        "duplicate_urls": (0, 2),  # what /1 links to, and where /4 leads
        "out_of_scope_urls": (1, 1),
        "respelled_urls": (0, 0),
        "trapped_urls": (0, 0),
        "beyond_max_urls": (0, 0),
        "near_duplicate_pages": (0, 0),
        "requisites": (0, 0),
        "requisites_beyond_max": (0, 0),
        "unparsed_pages": (0, 0),
        "partly_read_pages": (0, 0),
        "damaged_pages": (0, 0),
        "unwanted_pages": (0, 0),
        "challenge_pages": (0, 0),
        "parked_pages": (0, 0),
        "returned_urls": (0, 0),
        "filtered_urls": (0, 0),
        "plugin_errors": (0, 0),
        "plugin_us": (0, 0),
        "active_hosts": (3, 0),
        "ready_hosts": (0, 0),
        "delayed_hosts": ({"host gap": 1}, {}),  # c.test, a second after its robots.txt
        "shared_addresses": ({}, {}),
        "throttled_addresses": ({}, {"backing_off": 1}),  # that of b.test
        "per_host_queue_size": (
            {"mean": 1.0, "max": 2, "largest": {"http://a.test:80": 2, "http://c.test:80": 1, "http://b.test:80": 0}},
            {"mean": 0.0, "max": 0, "largest": {}},
        ),
        "fetch_failures": (0, 2),
        "retry_count": (0, 1),
        # The seed waited 1.5 s; what its page links to was found at 2 s, and waited 1.5, 1.5, 2.5, 3.5 and 5.
        "frontier_latency_s": (approx(1.5, abs=0.01), approx((1.5 + 2.5) / 2, abs=0.01)),
        "pace": (midway["pace"], last["pace"]),  # test_slow.py
        "pass_seconds": (0.0, 0.0),  # virtual time stands still in a turn
        "merges": ({}, {}),
        "frontier_bytes": (midway["frontier_bytes"], 0),
        "frontier_full": (False, False),
        "harvest_bytes": (0, 0),
        "lookups_per_url": (1.0, 1.0),
        "over_budget_per_url": (0.0, 0.0),
        "workers": (1, 0), "machines": ([], []),
        "memory_bytes": (2000, 1000),
        # Clocks: of the hosts a, b and c, of two addresses. One parsed robots.txt of one rule.
        "held": (midway["held"], {"hosts": 0, "clocks": 5, "names": 0, "rules_bytes": RULES.nbytes,
                                  "merge_rows": 0, "queue_index_bytes": 0}),
        "warc_bytes": (warcs[0], last["warc_bytes"]),
        "disk_free_bytes": (10**9, 10**9),
        # Pages are not visited again.
        "pages": (0, 0), "pages_due": (None, None), "pages_gone": (0, 0), "visits_by_change": ({}, {}),
        "visits_failed": (0, 0), "visit_price": (None, None),
        "lists_out": (0, 0), "lent_urls": (0, 0), "lists_until": (None, None), "proxies_down": ({}, {}),
    }  # fmt: skip
    assert set(expected) == set(status.FIELDS) == set(midway) == set(last)
    assert midway == {name: values[0] for name, values in expected.items()}
    assert last == {name: values[1] for name, values in expected.items()}
    assert (midway["held"]["hosts"], midway["held"]["clocks"]) == (3, 5)
    assert (later["resting_urls"], later["resting_due"]) == (1, approx(START + 10.0)), "b.test, once more"
    assert last["warc_bytes"] == sum(file.stat().st_size for file in crawl.job().warcs.iterdir())


NOWHERE = dict.fromkeys(("moving", "queued", "over_budget", "scheduled", "resting", "visited", "ready"), 0)


def size(answer: Answer) -> int:
    """Bytes of its header and body."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in answer.header.items())
    return len(f"HTTP/1.1 {answer.status} X\r\n{lines}content-length: {len(answer.body)}\r\n\r\n") + len(answer.body)
