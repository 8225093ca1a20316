"""A crawl in zstd frames, killed and gone on with in the other compression: every verb reads it as it reads gzip."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.ask.get import get
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.export.archives import closed
from irlcrawl.worker.archive import redo
from irlcrawl.worker.archive.reader import record_at, records
from tests.crawl.virtual_crawl import Crawl, Killed
from tests.upkeep import three_sites
from tests.upkeep.conftest import rolling, save_config
from tests.upkeep.test_takedown import HOST, URL, takedown, urls

ROBOTS = ("a.two.test", "b.two.test")


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed twice: begun in zstd, gone on with in gzip, ended in zstd."""
    path = tmp_path_factory.mktemp("zstd") / "mixed"
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = rolling(three_sites.crawl_of(path, monkeypatch), monkeypatch)
        requests = iter(range(1, 10_000))

        def killed(crawl: Crawl) -> None:
            if next(requests) in (60, 140):
                crawl.kill()

        crawl.on_request = lambda _: killed(crawl)
        for compression in ("zstd", "gzip", "zstd"):
            crawl.config.archive.compression = compression
            try:
                assert crawl.run() == ExitCode.DONE and compression == "zstd"
            except Killed:
                continue
        save_config(crawl)
    return path


@pytest.fixture
def job(mixed: Path, tmp_path: Path) -> JobDir:
    return JobDir(shutil.copytree(mixed, tmp_path / "job"))


def check(job: JobDir, verb: str = "fsck") -> int:
    return main.main([verb, str(job.path), "--quiet"])


def bodies(job: JobDir) -> dict[str, bytes]:
    """What the archives hold of good pages."""
    files, warcs = Files(), str(job.warcs)
    units = (one for stream in redo.streams(files, warcs) for one in redo.units(files, warcs, stream))
    return {unit.url.decode(): exchange.body for unit, exchange, _ in units if exchange and exchange.status == 200}


def test_kills_and_other_compressions_lose_nothing(job: JobDir) -> None:
    suffixes = [path.name.split(".warc")[1] for path in sorted(job.warcs.iterdir())]
    assert suffixes.count(".gz") > 1 and suffixes.count(".zst") > 3, suffixes
    there = {url: answer.body for url, answer in three_sites.web().answers.items() if answer.status == 200}
    assert bodies(job) == {url: body for url, body in there.items() if "/secret/" not in url}
    assert {reason for url, reason in urls(job).items() if url in there and "/secret/" not in url} == {"ok"}
    assert check(job) == check(job, "verify") == ExitCode.DONE
    for url in (URL, "http://b.two.test/", "http://d.three.test/7"):
        assert get(job.path, url) == there[url]
        assert get(job.path, url, "record").startswith(b"WARC/1.1\r\nWARC-Type: response\r\n")


def test_a_flipped_byte_is_found_once_and_what_follows_is_read_on(
    job: JobDir, capsys: pytest.CaptureFixture[str]
) -> None:
    path = max(job.warcs.glob("*.zst"), key=lambda path: path.stat().st_size)
    kept, whole = path.read_bytes(), list(records(Files(), str(path)))
    chosen = random.Random(3)
    for one in chosen.sample(whole[1:-1], 2):
        damaged = bytearray(kept)
        damaged[(one.offset + one.end) // 2] ^= 0x10
        path.write_bytes(damaged)
        for verb in ("fsck", "verify"):
            assert main.main([verb, str(job.path), "--json", "--quiet"]) == ExitCode.DAMAGED
            told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            found = [one for one in told if one.get("file") == str(path) and one.get("damage")]
            assert any(there["offset"] == one.offset for there in found) and len(found) <= 3, found
    path.write_bytes(kept[:-7])
    assert check(job) == check(job, "verify") == ExitCode.DAMAGED


def test_a_state_that_is_lost_is_made_anew_from_frames(job: JobDir) -> None:
    before = urls(job)
    catalogue = next(job.state.glob("catalog-*.log"))
    catalogue.write_bytes(b"no catalogue any more\n")
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) in (ExitCode.DONE, ExitCode.DAMAGED)
    assert check(job) == ExitCode.DONE
    assert urls(job) == before


def test_a_snapshot_has_the_archives_of_both_kinds(job: JobDir) -> None:
    assert main.main(["snapshot", str(job.path), "one"]) == ExitCode.DONE
    shot = JobDir(job.path / "snapshots" / "one")
    assert {path.name for path in shot.warcs.iterdir()} == {path.name for path in job.warcs.iterdir()}
    assert check(shot) == ExitCode.DONE and urls(shot) == urls(job)
    assert get(shot.path, URL) == get(job.path, URL)


def test_takedown_leaves_every_place_as_it_was(job: JobDir, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {path.name: path.stat().st_size for path in job.warcs.iterdir()}
    page = get(job.path, "http://b.two.test/")
    assert takedown(job).records > 20
    assert sizes == {path.name: path.stat().st_size for path in job.warcs.iterdir()}
    assert check(job) == check(job, "verify") == ExitCode.DONE
    assert "answers in it taken down" in capsys.readouterr().out
    assert get(job.path, "http://b.two.test/") == page
    assert bodies(job) and not any(f"//{HOST}/" in url for url in bodies(job))
    assert urls(job)[URL] == "taken_down"


def test_exports_name_the_files_as_they_are_called(job: JobDir, tmp_path: Path) -> None:
    archives, still_open = closed(job, Files())
    assert not still_open and len(archives) == len(list(job.warcs.iterdir()))
    for what in ("cdxj", "pages", "wacz"):
        assert (
            main.main(["export", what, str(job.path), "-o", str(tmp_path / what), "--jobs", "1", "--quiet"])
            == ExitCode.DONE
        )
    indexed = set()
    for line in (tmp_path / "cdxj").read_text().splitlines():
        told = json.loads(line.split(" ", 2)[2])
        found = record_at(Files(), str(job.warcs / told["filename"]), int(told["offset"]))
        assert found.fields["warc-target-uri"] == told["url"] and found.end - found.offset == int(told["length"])
        indexed.add(told["url"])
    files = list((tmp_path / "pages").glob("*.jsonl"))
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert {path.stem for path in files} == {path.name.split(".warc")[0] for path in job.warcs.iterdir()}
    assert indexed >= {row["url"] for row in rows} >= bodies(job).keys() - {f"http://{h}/robots.txt" for h in ROBOTS}
    with zipfile.ZipFile(tmp_path / "wacz") as package:
        inside = {info.filename: info for info in package.infolist() if info.filename.startswith("archive/")}
        assert {name.removeprefix("archive/") for name in inside} == {archive.name for archive in archives}
        assert all(info.compress_type == zipfile.ZIP_STORED for info in inside.values())
