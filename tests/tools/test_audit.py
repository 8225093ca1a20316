"""An audit that overlooks a fault is worse than none: each fault is planted in a log and must be found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.docsweb import audit

A, B = "http://a.test/", "http://a.test/b"


def log_of(tmp_path: Path, *rows: dict[str, Any]) -> list[audit.Request]:
    usual = {
        "host": "a.test",
        "port": 80,
        "address": "127.1.0.1",
        "status": 200,
        "method": "GET",
        "uri": "/",
        "seconds": 0.1,
    }
    path = tmp_path / "access.log"
    path.write_text("".join(json.dumps(usual | row) + "\n" for row in rows))
    return audit.read(path)


def test_a_perfect_crawl(tmp_path: Path) -> None:
    requests = log_of(tmp_path, {"end": 1, "uri": "/robots.txt"}, {"end": 2}, {"end": 3, "uri": "/b"})
    report = audit.report(requests, {A, B}, set())
    assert report == {
        "expected": 2, "requests": 2, "recall": 1.0, "missing": [], "unexpected": [], "disallowed": [], "repeated": [],
    }  # fmt: skip


def test_every_fault_is_named(tmp_path: Path) -> None:
    rows = [{"end": n, "uri": uri} for n, uri in enumerate(["/", "/", "/secret", "/stray"])]
    report = audit.report(log_of(tmp_path, *rows), {A, B}, {"http://a.test/secret"})
    assert report["recall"] == 0.5
    assert report["missing"] == [B]
    assert report["repeated"] == [A]
    assert report["disallowed"] == ["http://a.test/secret"]
    assert report["unexpected"] == ["http://a.test/stray"]


def test_gaps_run_from_an_end_to_the_next_start(tmp_path: Path) -> None:
    requests = log_of(
        tmp_path,
        {"end": 10.0, "seconds": 1.0},
        {"end": 11.5, "seconds": 1.0},  # 0.5 s after the first
        {"end": 12.0, "host": "b.test"},  # 0.4 s after it on the address, alone on its host
        {"end": 12.1, "host": "c.test", "address": "127.1.0.2"},
    )
    assert audit.closest(requests, "host") == pytest.approx(0.5 + audit.RESOLUTION_S)
    assert audit.closest(requests, "address") == pytest.approx(0.4 + audit.RESOLUTION_S)


def test_overlapping_requests_have_a_negative_gap(tmp_path: Path) -> None:
    requests = log_of(tmp_path, {"end": 20, "seconds": 10}, {"end": 12, "seconds": 1}, {"end": 22, "seconds": 1})
    assert [round(gap) for gap, _, _ in audit.gaps(requests, "host")] == [-9, 1]


def test_idle_share(tmp_path: Path) -> None:
    requests = log_of(tmp_path, {"end": 1.0, "seconds": 1.0}, {"end": 3.0, "seconds": 1.0})
    assert audit.idle_share(requests, 0.5, 0.0, 4.0) == pytest.approx({"127.1.0.1": 0.25})
