"""Recall on a real web: what was requested equals what the oracle computes, each once, and nothing forbidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from webcrawl import NO_GAPS, Crawl, check_warcs, outcomes, responses

from tools.docsweb import audit, oracle, serve
from tools.docsweb.sets import DocswebError


def test_every_reachable_page_once_and_no_other(tmp_path: Path, job: Path) -> None:
    try:
        with serve.running(tmp_path / "web", "gtk,python", mirrors=1) as web:
            if web.missing:
                pytest.skip(f"docsweb is incomplete: {web.missing}")
            resolver, allow = f"127.0.0.1:{web.dns_port}", web.network
            settings = NO_GAPS | {"page.links_max": 1_000_000}
            ended = Crawl(job, resolver, web.seeds, settings, allow).run(110)
            requests = web.requests()
            expected, disallowed = oracle.expected(web), oracle.disallowed(web)
    except DocswebError as error:
        pytest.skip(f"docsweb cannot be served: {error}")
    assert ended.code == 0, ended.output
    report = audit.report(requests, expected, disallowed)
    faults = {fault: report[fault] for fault in ("missing", "unexpected", "disallowed", "repeated") if report[fault]}
    assert faults == {}
    assert report["recall"] == 1
    assert responses(job) == dict.fromkeys(expected, 1)
    assert outcomes(job) == dict.fromkeys(expected, "fetched") | dict.fromkeys(disallowed, "excluded(robots)")
    check_warcs(job)
