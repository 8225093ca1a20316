"""A page that no worker lives through: the crawl goes on without it, and its log says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import Serve
from webcrawl import NO_GAPS, Crawl, Tree, check_warcs, log_entries, outcomes, responses

from irlcrawl.config.plugins import GROUP

HOSTS = {f"d{n}.test": f"127.63.2.{n + 1}" for n in range(2)}
PAGES = 20
DEADLY = "/p/7"
PLUGIN = f"""
import os, signal, time

def made(options):
    def look(page):
        if b"//d0." in page.url and page.url.endswith(b"{DEADLY}"):
            if options["what"] == "kills":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)
    return look
"""


@pytest.mark.parametrize("what", ["hangs", "kills"])
def test_a_page_that_no_worker_lives_through(
    serve: Serve, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It held one worker after another for its whole silence, and the crawl ended with nothing said of the page; the
    kernel kills for want of memory in the same way."""
    info = tmp_path / "site" / "deadly_page-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly_page\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ndeadly = deadly_page:made\n")
    (info.parent / "deadly_page.py").write_text(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", f"{info.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    site = Tree(PAGES)
    web = serve(site, HOSTS)
    settings = NO_GAPS | {
        "frontier.harvest_seconds": 0.5, "fetch.worker_silent_seconds": 2, "plugins.page": '["deadly"]',
        "plugins.options": f'["deadly.what={what}"]',
    }  # fmt: skip
    ended = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings).run()
    deadly = web.url("d0.test", DEADLY)
    assert ended.code == 0, ended.output
    assert f"reading {deadly} ended another worker" in (job / "logs" / "irlcrawl.log").read_text()
    assert outcomes(job)[deadly].startswith("failed")
    assert [entry.reason for entry in log_entries(job) if entry.url.decode() == deadly] == ["protocol"]
    below = {f"/p/{n}" for n in range(PAGES) if _is_below(n, 7)}
    lost = {web.url("d0.test", target) for target in below}
    assert set(responses(job)) == {web.url(host, t) for host in HOSTS for t in site.targets()} - lost
    check_warcs(job)


def _is_below(page: int, top: int) -> bool:
    """In the tree of `Tree`: whether no link leads to a page but by way of `top`."""
    while page > top:
        page = (page - 3) // 2
    return page == top
