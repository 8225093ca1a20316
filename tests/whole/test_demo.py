"""The demo is the first thing a newcomer runs: it must end by itself, be right about its own web, and say so."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from drum import Files

import pytest
from webcrawl import check_warcs, log_entries, outcomes

from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.unit import Unit
from tools.docsweb import audit

GARDEN = {
    "/", "/beds", "/beds/", "/beds/rose.html", "/beds/rose.html?colour=red&thorns=yes",
    "/beds/lily%20of%20the%20valley.html", "/beds/%C3%BCbersicht.html", "/about.html", "/map.html", "/pond.html",
    "/frames.html", "/frame-left.html", "/frame-right.html", "/guestbook.html", "/old-gate.html", "/new-gate.html",
    "/shed/tools.html", "/shed/racks/spade.html", "/shed/rake.html", "/herbs.html", "/notes.txt", "/catalogue.txt",
    "/private/open.html", "/hush.html", "/gone.html",
}  # fmt: skip
ORCHARD = {
    "/", "/apple", "/fruit/apples.html", "/pear", "/pears", "/fruit/pear.html", "/fruit/pears.html", "/plum",
    "/damson", "/self", "/over-the-wall", *(f"/spiral?turn={n}" for n in range(6)),
}  # fmt: skip


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("demo")
    run = subprocess.run(
        [sys.executable, "-m", "tools.sampleweb", "demo", "--dir", str(directory)],
        capture_output=True, text=True, timeout=115,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return directory, run.stdout


def requested(directory: Path, host: str) -> Counter[str]:
    return Counter(r.uri for r in audit.read(directory / "access.log") if r.host == host and r.uri != "/robots.txt")


def test_what_was_requested(ended: tuple[Path, str]) -> None:
    directory, _ = ended
    assert requested(directory, "garden.test") == dict.fromkeys(GARDEN, 1)
    assert requested(directory, "orchard.test") == dict.fromkeys(ORCHARD, 1)
    assert requested(directory, "library.garden.test") == dict.fromkeys(["/", "/shelf-1.html", "/shelf-2.html"], 1)
    assert requested(directory, "busy.test") == dict.fromkeys(["/", "/bread.html", "/cake.html"], 2)  # 429, then 200
    assert requested(directory, "vault.test") == dict.fromkeys(["/", "/gold.html"], 1)
    assert requested(directory, "shut.test") == dict.fromkeys(["/", "/goods.html"], 1)
    assert requested(directory, "sloth.test").keys() == {"/", "/nap.html", "/drip"}
    assert 0 < requested(directory, "calendar.test").total() <= 20


def test_why_the_rest_was_not(ended: tuple[Path, str]) -> None:
    directory, _ = ended
    left_out = {url: outcome for url, outcome in outcomes(directory / "job").items() if outcome != "fetched"}
    reasons = Counter(left_out.values())
    assert left_out["http://lost.test/"] == "failed(dns)"
    assert "(address)" in left_out["http://intranet.test/"]
    assert left_out["http://ruin.test:9/"].startswith("failed(")
    assert reasons["excluded(robots)"] == 3  # the diary, the key, the safe
    assert reasons["excluded(quota_site)"] > 0  # of the calendar


def test_what_owners_say_about_use_is_in_log_and_archive(ended: tuple[Path, str]) -> None:
    directory, _ = ended
    wishes = {
        "garden.test/about.html": "noai+noimageai",
        "garden.test/pond.html": "tdm-policy=https://garden.test/tdm.json+tdm-reservation=1+train-ai=n",
        "garden.test/map.html": "noarchive+tdm-reservation=1",
        "garden.test/hush.html": "nofollow+noindex",
        "library.garden.test/": "ai-train=n+search=y",
        "library.garden.test/shelf-1.html": "ai-train=n+search=y",
        "library.garden.test/shelf-2.html": "ai-train=n+search=y+train-ai=n",
    }
    told = {entry.url: entry.notes["wishes"] for entry in log_entries(directory / "job") if "wishes" in entry.notes}
    assert {page_of(url): said for url, said in told.items()} == wishes
    kept = {}
    for path in (directory / "job" / "warcs").iterdir():
        for one in records(Files(), str(path)):
            unit = Unit.from_json(one.unit, one.fields["warc-target-uri"].encode()) if one.unit else None
            if unit is not None and unit.wishes:
                kept[page_of(unit.url)] = unit.wishes
    assert kept == wishes


def page_of(url: bytes) -> str:
    """Host and path, without the port."""
    return re.sub(r"^https?://([^:/]+)(?::\d+)?", r"\1", url.decode())


def test_politeness(ended: tuple[Path, str]) -> None:
    requests = audit.read(ended[0] / "access.log")
    assert audit.closest(requests, "host") >= 0.25
    assert audit.closest([r for r in requests if r.host == "library.garden.test"], "host") >= 2


def test_what_it_tells(ended: tuple[Path, str]) -> None:
    directory, output = ended
    for words in ("What it fetched", "What it left out", "robots.txt says no", "irlcrawl get", "calendar.test"):
        assert words in output
    check_warcs(directory / "job")
