"""verify: archives alone, whoever wrote them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NoReturn

from drum import Files
from drum.sectors import Sectors

import pytest
from warcio.bufferedreaders import BufferedReader

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job_files import OPEN
from irlcrawl.cli import main
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep import verify as verify_module
from irlcrawl.upkeep.verify import verify
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.record import digest
from tests.upkeep.conftest import Copy

WARCINFO = (
    b"WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:9d6f0d5c-0d3c-4bd1-9a3f-000000000000>\r\n"
    b"WARC-Date: 2026-01-01T00:00:00Z\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n"
)


def test_verify_takes_foreign_archives_and_says_what_is_wrong(tmp_path: Path, copy: Copy) -> None:
    record = WARCINFO
    other = tmp_path / "other.warc.gz"
    other.write_bytes(gzip.compress(record) * 2)
    assert main.main(["verify", str(other), "--quiet"]) == ExitCode.DONE
    other.write_bytes(gzip.compress(record) + gzip.compress(record)[:-3])
    assert main.main(["verify", str(other), "--quiet"]) == ExitCode.DAMAGED
    assert main.main(["verify", str(tmp_path / "none.warc.gz")]) == ExitCode.FAILED


def test_verify_called_archives_damaged_that_were_put_together_or_of_warc_1_0(tmp_path: Path, copy: Copy) -> None:
    first, second = sorted(copy("done").warcs.iterdir())[:2]
    both = tmp_path / "both.warc.gz"
    both.write_bytes(first.read_bytes() + second.read_bytes())
    assert main.main(["verify", str(both), "--quiet"]) == ExitCode.DONE
    request = next(record for record in records(Files(), str(first)) if record.kind == "request")
    both.write_bytes(first.read_bytes()[: request.end] + second.read_bytes())
    assert main.main(["verify", str(both), "--quiet"]) == ExitCode.DAMAGED, "a request without its response"
    members = [first.read_bytes()[record.offset : record.end] for record in records(Files(), str(first))]
    older = tmp_path / "older.warc.gz"
    older.write_bytes(b"".join(gzip.compress(b"WARC/1.0" + gzip.decompress(one)[8:]) for one in members))
    assert main.main(["verify", str(older), "--quiet"]) == ExitCode.DONE


def test_verify_said_an_archive_was_twice_its_size(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    path = sorted(copy("done").warcs.iterdir())[0]
    assert main.main(["verify", str(path)]) == ExitCode.DONE
    size = words.size(path.stat().st_size)
    assert capsys.readouterr().err == f"{path.name}: {size}\n{path.name}, by warcio: {size}\n"


def test_an_empty_archive_is_not_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify` found nothing wrong with one that had been cut to nothing."""
    path = tmp_path / "empty.warc.gz"
    path.touch()
    assert main.main(["verify", str(path), "--quiet"]) == ExitCode.DAMAGED
    assert f"{path}: at offset 0: an empty archive" in capsys.readouterr().out


def test_verify_of_a_directory_without_archives_is_not_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`all is as it was written`, it said of a mistyped directory."""
    assert main.main(["verify", str(tmp_path)]) == ExitCode.FAILED
    assert "no archives here" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["verify", "fsck"])
def test_a_job_whose_archives_disk_is_not_mounted_is_not_well(
    tmp_path: Path, copy: Copy, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    job = copy("done")
    job.warcs.rename(tmp_path / "elsewhere")
    job.warcs.symlink_to(tmp_path / "elsewhere")
    assert main.main([verb, str(job.path), "--quiet"]) == ExitCode.DONE
    (tmp_path / "elsewhere").rename(tmp_path / "unmounted")
    assert main.main([verb, str(job.path), "--quiet"]) == ExitCode.FAILED
    assert f"{job.warcs}: leads to {tmp_path / 'elsewhere'}, which is not there" in capsys.readouterr().err


def test_archives_that_are_closed_or_moved_while_others_are_verified_are_no_error(copy: Copy) -> None:
    """Beside a crawl that ran, `verify` ended with `No such file or directory`, and checked no more."""
    job = copy("stopped")
    first, second, *_ = paths = sorted(map(str, job.warcs.iterdir()))
    os.unlink(second)
    found = list(verify(Sectors(), [first + OPEN, *paths], Bar()))
    assert [(one.damage, one.file) for one in found] == [(False, second)]


def test_verify_ended_with_a_traceback_at_a_page_in_brotli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the module `brotli` is installed (by the extra `text`), warcio cannot unpack such a page. It also unpacked
    bombs, each as a whole. Digests need neither."""
    monkeypatch.delitem(BufferedReader.DECOMPRESSORS, "br", raising=False)
    monkeypatch.setitem(BufferedReader.DECOMPRESSORS, "br", _breaks)
    page = _response(b"br", b"whatever it is")
    path = tmp_path / "page.warc.gz"
    path.write_bytes(gzip.compress(WARCINFO) + gzip.compress(page))
    assert main.main(["verify", str(path), "--quiet"]) == ExitCode.DONE
    path.write_bytes(gzip.compress(WARCINFO) + gzip.compress(page.replace(b"whatever", b"Whatever")))
    monkeypatch.setattr(verify_module, "check_file", lambda *_: ())
    assert main.main(["verify", str(path), "--quiet"]) == ExitCode.DAMAGED
    assert "warcio: a digest that is not right" in capsys.readouterr().out


def _breaks() -> NoReturn:
    raise AttributeError("'brotli.Decompressor' object has no attribute 'unused_data'")


def _response(coding: bytes, body: bytes) -> bytes:
    """A record of a page in a content coding."""
    block = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (coding, len(body), body)
    return (
        b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:9d6f0d5c-0d3c-4bd1-9a3f-000000000001>\r\n"
        b"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: http://a.test/\r\nContent-Type: application/http; "
        b"msgtype=response\r\nWARC-Payload-Digest: %b\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
        % (digest(body).encode(), len(block), block)
    )
