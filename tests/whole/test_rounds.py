"""Rounds of generate, fetch and update as a person runs them: real processes, a fetch that is killed, real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import Serve
from webcrawl import Crawl, Tree, outcomes, responses

from irlcrawl.base.exit_codes import ExitCode
from tools.docsweb import audit

pytestmark = pytest.mark.slow

GAP_S = 0.05
HOSTS = {f"h{n}.test": f"127.68.0.{n + 1}" for n in range(4)}
PAGES = 12


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "irlcrawl", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip


def said(process: subprocess.Popen[str], code: int = 0) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code, out
    return out


def test_rounds_with_a_killed_fetch_get_each_page_once(serve: Serve, job: Path) -> None:
    tree = Tree(PAGES)
    web = serve(tree, HOSTS)
    settings = {
        "politeness.gap_host_seconds": GAP_S, "politeness.gap_host_factor": 0, "politeness.gap_address_seconds": 0,
        "crawl.workers": 1, "limits.pages": 2,
    }  # fmt: skip
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings)
    expected = {web.url(host, target) for host in HOSTS for target in tree.targets()}
    assert crawl.run().code == ExitCode.SIZE_LIMIT
    in_flight = rounds = 0
    while True:
        lists = job.parent / f"lists{rounds}"
        generating = start("generate", job, "-o", lists, "--urls", 1000, "--lists", 2)
        out, _ = generating.communicate(timeout=60)
        if generating.returncode:
            assert "no URL that may be asked now" in out
            break
        made = sorted(lists.iterdir())
        directories = [job.parent / f"fetch{rounds}-{number}" for number in range(len(made))]
        fetches = [("fetch", path, "-o", to, "--workers", 1) for path, to in zip(made, directories, strict=True)]
        running = [start(*words) for words in fetches]
        if rounds == 1:
            until = time.monotonic() + 20  # a test that is too late kills nothing, and still has to pass
            while time.monotonic() < until and not any(directories[0].glob("warcs/*")):
                time.sleep(0.02)
            os.killpg(running[0].pid, signal.SIGKILL)
            running[0].communicate()
            in_flight = len(HOSTS)
            running[0] = start(*fetches[0])
        for process in running:
            assert " done" in said(process)
        assert said(start("update", job, *directories)).count("taken in") == len(made)
        assert said(start("update", job, *directories)).count("nothing taken") == len(made)
        rounds += 1
    assert rounds > 1
    said(start("fsck", job, "--quiet"))
    assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
    here = responses(job)
    assert set(here) == expected and set(here.values()) == {1}
    asked = Counter(one.url for one in audit.read(web.log) if not one.url.endswith("/robots.txt"))
    assert sum(asked.values()) - len(asked) <= in_flight
    assert audit.closest(audit.read(web.log), "host") >= GAP_S
    said(start("verify", job, "--quiet"))
    assert "no promise was broken" in said(start("report", job, "--politeness"))
    assert "/p/9" in said(start("get", job, web.url("h1.test", "/p/3")))
