"""takedown, killed at any change of the disk and run again: what is left and what is said is as if it had not been."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.ask.get import Unavailable, get
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.crawl.status import read_status
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.warc import WarcWriter
from irlcrawl.worker.fetch import service
from tests.crawl.test_dedupe_from import HTML, SITE, crawled, web
from tests.crawl.virtual_crawl import Answer
from tests.upkeep.test_takedown import Dies, takedown

NAMED = "/[178]$"
"""A page whose body the earlier crawl has, one whose body is its own, and one whose body another page has, too."""
LICENCE = b"licence of all pages "
BODIES = {url: answer.body for url, answer in web(changed=2).answers.items()}
BODIES[f"{SITE}8"] = BODIES[f"{SITE}9"] = b'<a href="/9">x</a>' + LICENCE * 100


@pytest.fixture(scope="module", params=["gzip", "zstd"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl of several archives and parts of the log, with a snapshot and indexes; beside it `earlier`, and `round`
    for another name of an archive."""
    base = tmp_path_factory.mktemp("made") / request.param
    base.mkdir()
    played = web(changed=2)
    played.answers |= {url: Answer(200, HTML, BODIES[url]) for url in (f"{SITE}8", f"{SITE}9")}
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawled(base / "earlier", monkeypatch, web(), [])
        writer = lambda *known, **more: WarcWriter(*known, **{**more, "roll_bytes": 5000})  # noqa: E731
        monkeypatch.setattr(service, "WarcWriter", writer)
        small = {"compression": request.param, "log_roll_bytes": 1500}
        job = crawled(base / "job", monkeypatch, played, [base / "earlier"], **small).job()
    assert main.main(["snapshot", str(job.path), "kept"]) == ExitCode.DONE
    assert main.main(["export", "cdxj", str(job.path), "-o", str(base / "cdxj"), "--jobs", "1"]) == ExitCode.DONE
    (base / "round").mkdir()
    return base


def holds(path: Path, text: bytes) -> bool:
    """Whether bytes are in an archive or another file."""
    if path.name.endswith((".warc.gz", ".warc.zst")):
        return any(text in one.block or text in str(one.fields).encode() for one in records(Files(), str(path)))
    return text in path.read_bytes()


def again(made: Path, target: Path) -> JobDir:
    """A copy of it, in which the snapshot shares its archives, and the round that of LICENCE."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(made, target)
    job = JobDir(target / "job")
    for path in job.warcs.iterdir():
        os.remove(copy := job.snapshots / "kept" / "warcs" / path.name)
        os.link(path, copy)
        if holds(path, LICENCE):
            os.link(path, target / "round" / path.name)
    return job


def beyond(lines: list[str]) -> list[str]:
    """What was said of what it could not reach."""
    return [line for line in lines if not line.startswith(("taken down:", "nothing of what was named"))]


def outcome(job: JobDir) -> object:
    """What is left: pages, records, the log, counts; all of it of the snapshot, too."""
    found = []
    for one in (job, JobDir(job.snapshots / "kept")):
        pages = {}
        for url in BODIES:
            try:
                pages[url] = get(one.path, url)
            except Unavailable as error:
                pages[url] = str(error).encode()
        kinds = {
            path.name: [(record.offset, record.kind) for record in records(Files(), str(path))]
            for path in one.warcs.iterdir()
        }
        log = [(entry.url, entry.digest, entry.notes) for entry in log_parts.read(Files(), str(one.crawl_log))]
        found.append((pages, kinds, log, read_status(one)["fetched_by_reason"]))
    return found


def test_every_kill_and_a_repeat(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It said nothing of what it could not reach: killed between the new name of an archive and the last line of the
    log, neither that the old file had another name, nor that an earlier crawl, or other URLs, had the same body. And
    status went on counting what was taken down as it had been."""
    job = again(made, tmp_path / made.name)
    lines: list[str] = []
    counting = Dies(10**6)
    whole = takedown(job, counting, "match", NAMED, lines.append)
    number, wanted = 10**6 - counting.left, outcome(job)
    assert whole.records == whole.lines == 3 and len(beyond(lines)) == 3, lines
    for word in ("bodies of 1 capture", "1 record of an earlier crawl", "has another name"):
        assert any(word in line for line in lines), lines
    assert holds(next((job.path.parent / "round").iterdir()), LICENCE)
    for at in range(0, number, 1 if job.path.parent.name == "gzip" else 5):  # the others differ in archives alone
        job = again(made, tmp_path / made.name)
        last, said = [], []
        with pytest.raises(KeyboardInterrupt):
            takedown(job, Dies(at), "match", NAMED, last.append)
        job.release()
        assert main.main(["fsck", str(job.path), "--quiet"]) == ExitCode.DONE, (at, capsys.readouterr().out)
        takedown(job, None, "match", NAMED, said.append)
        assert beyond(lines) in (beyond(said), beyond(last)), at
        assert outcome(job) == wanted, at
        nothing_is_left(job, at)
    assert main.main(["verify", str(job.path), "--quiet"]) == ExitCode.DONE


def test_another_takedown_between_a_kill_and_its_repeat(made: Path, tmp_path: Path) -> None:
    """What is kept for the repeat is told by each until then, and forgotten after it."""
    lines: list[str] = []
    counting = Dies(10**6)
    takedown(again(made, tmp_path / "copy"), counting, "match", NAMED, lines.append)
    for at in range(0, 10**6 - counting.left, 20):
        job = again(made, tmp_path / "copy")
        said: list[list[str]] = [[], [], []]
        with pytest.raises(KeyboardInterrupt):
            takedown(job, Dies(at), "match", NAMED)
        job.release()
        for found, what in zip(said, (f"{SITE}6$", NAMED, NAMED), strict=True):
            takedown(job, None, "match", what, found.append)
        assert beyond(said[0]) in ([], beyond(lines)), at
        assert beyond(said[1]) == beyond(lines) and not beyond(said[2]), at


def nothing_is_left(job: JobDir, at: int) -> None:
    files = [path for path in job.path.rglob("*") if path.is_file()]
    assert not [path for path in files if path.name.endswith(".tmp")], at
    for url in (f"{SITE}1", f"{SITE}7", f"{SITE}8"):
        assert not [path for path in files if holds(path, BODIES[url][30:80])], (at, url)
