"""The served web is the defined one: the real command line crawls some of it and meets what the numbers say."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from drum.files import Files
from drum.ragged import Ragged

import numpy as np
import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.log_parts import read
from tools.docsweb import audit
from tools.simweb.__main__ import main
from tools.simweb.answers import Fault
from tools.simweb.params import Params
from tools.simweb.serve import SILENT_ADDRESS, Addresses, Hosts, serving
from tools.simweb.truth import NOWHERE
from tools.simweb.web import Web

PAGES = 300
SETTINGS = {
    "crawl.user_agent": "irlcrawl-test/1.0 (+https://crawl.test/; crawl@crawl.test)",
    "crawl.workers": 1,
    "limits.pages": PAGES,
    "politeness.gap_host_seconds": 0,
    "politeness.gap_host_factor": 0,
    "politeness.gap_address_seconds": 0,
    "politeness.machine_clocks": "",
    "politeness.retry_delay_seconds": 0.1,
    "politeness.retries_max": 3,
    "politeness.rest_seconds": 0.1,
    "politeness.host_dead_hours": 0.0002,
    "fetch.read_seconds": 0.5,
    "network.allow": '["127.52.0.0/16"]',
}
PARAMS = Params(seed=3, pages_nominal=30_000)


def crawled(job: Path, resolver: str, seeds: list[str]) -> tuple[int, list[LogEntry], str]:
    words = [sys.executable, "-m", "irlcrawl", "crawl", str(job), *seeds]
    for key, value in (SETTINGS | {"network.resolvers": f'["{resolver}"]'}).items():
        words += ["-s", f"{key}={value}"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, list(read(Files(), str(JobDir(job).crawl_log))), output.decode()


def test_a_crawl_meets_what_the_definition_says(tmp_path: Path) -> None:
    with serving(PARAMS, tmp_path / "access.log", addresses=4) as served:
        web, seeds = served.web, served.seeds(8)
        code, entries, output = crawled(tmp_path / "job", served.resolver, seeds)
    assert code == 14, output
    mine = [e for e in entries if not e.url.endswith(b"/robots.txt")]
    fetched = [e for e in mine if e.outcome == "fetched"]
    assert len(fetched) >= PAGES
    pages = web.pages(Ragged.from_list([e.url for e in fetched]))
    assert (pages != NOWHERE).all() and web.exists(pages).all() and web.allowed(pages).all()
    statuses = web.answers(pages)["status"].tolist()
    flaky = web.fault(web.host(pages)) == Fault.FLAKY
    assert [e.status for e, f in zip(fetched, flaky) if not f] == [s for s, f in zip(statuses, flaky) if not f]
    assert len(set(statuses)) > 2

    links = web.links(pages)
    moved = web.answers(pages)["location"]
    known = set(web.urls(np.concatenate([links.targets, moved[moved != NOWHERE]])).tolist()) | {
        s.encode() for s in seeds
    }
    assert {e.url for e in mine} <= known

    refused = [e.url for e in mine if e.outcome == "excluded" and e.reason == "robots"]
    assert not web.allowed(web.pages(Ragged.from_list(refused))).any()
    for entry in mine:
        if entry.outcome == "failed" and entry.reason in ("dns", "connect"):
            host = web.host(web.pages(Ragged.from_list([entry.url])))
            assert web.fault(host)[0] == Fault[entry.reason.upper()]

    requests = audit.read(tmp_path / "access.log")
    assert len({r.address for r in requests}) <= 4
    asked = {f"{r.scheme}://{r.host}:{r.port}{r.uri}" for r in requests if r.uri != "/robots.txt"}
    assert {e.url.decode() for e in fetched} <= asked


def test_bodies_show_links_and_duplicates(tmp_path: Path) -> None:
    with serving(PARAMS, tmp_path / "access.log", addresses=1) as served:
        web = served.web
        page = web.seeds(1)
        url = web.urls(page)[0].decode()
        host = web.names.host_names(web.host(page))[0].decode()
        request = urllib.request.Request(url.replace(host, "127.52.0.1"), headers={"Host": f"{host}:{web.params.port}"})
        bodies = [urllib.request.urlopen(request, timeout=10).read() for _ in range(2)]
    assert bodies[0] == bodies[1]
    assert bodies[0].count(b"<a href=") == len(web.links(page).targets)


def test_serve_prints_a_crawl_that_starts_and_leaves_the_sites_of_its_seeds(tmp_path: Path) -> None:
    """Within the default scope it met no farm, no mirror and no subdomains; with a blank in DIR it was no command."""
    where = tmp_path / "a web"
    words = [sys.executable, "-m", "tools.simweb", "serve", str(where), "--seeds", "3", "--set", "pages_nominal=9000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        printed = shlex.split(process.stdout.readline())
        assert printed[:3] == ["irlcrawl", "crawl", str(where / "job")]
        dry = subprocess.run([sys.executable, "-m", *printed, "--dry-run"], capture_output=True, text=True, timeout=60)
        assert dry.returncode == 0 and 'kind = "any"' in dry.stdout, dry.stderr
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_names_resolve_as_faults_say() -> None:
    web = Web(Params(seed=3, pages_nominal=30_000, https_share=0.0, dns_share=0.3, connect_share=0.3))
    sites = np.arange(60, dtype=np.uint64)
    hosts = Hosts(web, ["127.52.0.1", "127.52.0.2"])
    names, addresses = web.names.host_names(sites << np.uint64(32)).tolist(), Addresses(hosts)
    for name, fault in zip(names, web.fault(sites << np.uint64(32)).tolist()):
        address = addresses.get(name.decode())
        assert (address is None) == (fault == Fault.DNS)
        assert (address == SILENT_ADDRESS) == (fault == Fault.CONNECT)
    assert addresses.get("example.org") is None and "nothing.test" not in addresses
    assert not hosts


@pytest.mark.parametrize(
    ("setting", "said"), [("pages=3", "no parameter 'pages'"), ("good_share=2", "good_share is from 0 to 1, not 2")]
)
def test_what_cannot_be_served_is_said(
    setting: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path), "--set", setting]) == 1
    assert f"simweb: {said}" in capsys.readouterr().err
