"""State that released versions left behind opens, goes on and ends like any other."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest

from drum import Files
from irlcrawl.archive.reader import records
from irlcrawl.job import ExitCode, JobDir
from tests.upkeep import versions

RELEASED = sorted(path.name.removesuffix(".tar.gz") for path in versions.HERE.glob("*.tar.gz"))


def unpack(version: str, to: Path) -> Path:
    """JOB as that version left it."""
    with tarfile.open(versions.HERE / f"{version}.tar.gz") as archive:
        for member in archive:  # not extractall: its `filter` came with Python 3.11.4
            archive.extract(member, to)
    return to / "job"


@pytest.mark.parametrize("version", RELEASED)
def test_a_crawl_of_every_released_version_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Every URL ends once, and of what the old version archived nothing is asked for again (I2)."""
    job = unpack(version, tmp_path)
    archived = {
        record.fields["warc-target-uri"]
        for warc in JobDir(job).warcs.iterdir()
        for record in records(Files(), str(warc), keep=False)
        if record.kind == "response" and not record.fields["warc-target-uri"].endswith("robots.txt")
    }
    assert len(archived) > 50
    crawl = versions.crawl_of(job, monkeypatch)
    crawl.clock.advance(86_400.0)
    assert crawl.run() == ExitCode.DONE
    outcomes = crawl.outcomes()
    pages = {url for url in crawl.web.answers if not url.endswith("robots.txt")}
    assert set(outcomes) == pages | {"http://a.two.test/gone", "http://a.two.test/secret/1"}
    assert Counter(what for what, _ in outcomes.values()) == {"fetched": len(pages) + 1, "excluded": 1}
    put_off = {"http://c.three.test/5"}  # 503 with a Retry-After: archived, and to be asked for again
    assert not archived & set(crawl.web.pages_asked) - put_off
