"""Recovery: whatever a crash leaves of a file, exactly its whole units are what is left, and replay returns them."""

from __future__ import annotations

import gzip
import os
import random
import tracemalloc
from pathlib import Path

from drum.files import Damaged, Files, Handle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Robots
from irlcrawl.worker.archive import redo
from irlcrawl.worker.archive.unit import Location
from irlcrawl.worker.archive.warc import Exchange, Unit
from tests.worker.archive.support import Quick, exchange_of, failed_unit, paths_in, unit_of, writer_in

FILES = Quick()
Written = list[tuple[Unit, Exchange | None, Location]]


def few_units() -> list[tuple[Unit, Exchange | None]]:
    """One of each kind that recovery has to tell apart."""
    robots = unit_of(b"http://a.test/robots.txt", segment=NO_SEGMENT, cls=int(Class.NONE))
    robots.robots = {"robots": int(Robots.RULES), "robots_until": 1_700_086_400.0, "crawl_delay": 2.5}
    page = unit_of(b"http://a.test/page")
    retry = failed_unit(b"http://a.test/slow", cls=int(Class.RETRY), reason=int(Reason.TIMEOUT), retry_due=1.7e9)
    empty = unit_of(b"http://a.test/empty", status=204)
    return [
        (robots, exchange_of(robots, b"User-agent: *\nDisallow: /no\n")),
        (page, exchange_of(page, b"<a href=x>x</a>" * 30)),
        (retry, None),
        (empty, exchange_of(empty, b"", b"HTTP/1.1 204 No Content\r\n\r\n")),
    ]


def write(
    directory: Path, units: list[tuple[Unit, Exchange | None]], roll_bytes: int = 10**9, zstd_level: int | None = None
) -> Written:
    """Units in a directory whose last file is left open, as by a crash."""
    writer = writer_in(directory, roll_bytes=roll_bytes, zstd_level=zstd_level)
    return [(unit, exchange, writer.append(unit, exchange)) for unit, exchange in units]


def replay(directory: Path, after: tuple[int, int] = redo.START) -> Written:
    return list(redo.units(FILES, os.fspath(directory), 1, after))


@pytest.mark.parametrize("zstd_level", [None, 3])
def test_every_cut_leaves_exactly_the_whole_units(tmp_path: Path, zstd_level: int | None) -> None:
    written = write(tmp_path, few_units(), zstd_level=zstd_level)
    (path,) = paths_in(tmp_path)
    data = path.read_bytes()
    for length in range(0, len(data), 1 if zstd_level is None else 7):
        path.write_bytes(data[:length])
        whole = [row for row in written if row[2].end <= length]
        removed = redo.cut_tail(FILES, os.fspath(path))
        left = path.read_bytes()
        assert left == data[: length - removed]
        assert len(left) in {0, written[0][2].offset, *(row[2].end for row in whole)}
        if whole:
            assert len(left) == whole[-1][2].end
        assert replay(tmp_path) == whole
        assert redo.cut_tail(FILES, os.fspath(path)) == 0


def test_a_tail_of_zeros_or_noise_is_cut(tmp_path: Path) -> None:
    written = write(tmp_path, few_units())
    (path,) = paths_in(tmp_path)
    data = path.read_bytes()
    noise = random.Random(1).randbytes(70_000)
    page = written[1][2]
    request, response = data[page.offset : page.record], data[page.record : page.end]
    flipped = bytearray(response)
    flipped[len(response) // 2] ^= 0x10
    raw = gzip.decompress(response)
    foreign = {
        "zeros": b"\0" * 70_000,
        "noise": noise,
        "noise after a gzip header": gzip.compress(noise)[:10] + noise,
        "a request": request,
        "a request, then zeros": request + b"\0" * 70_000,
        "half a response, then zeros": request + response[: len(response) // 2] + b"\0" * 70_000,
        "a flipped bit": request + bytes(flipped),
        "a flipped bit, then whole units": request + bytes(flipped) + request + response,
        "gzip of something else": gzip.compress(b"not a record at all"),
        "gzip of much else": gzip.compress(b"x" * 5_000_000),
        "a record with too short a length": gzip.compress(raw.replace(b"Content-Length: ", b"Content-Length: 0")[:-9]),
        "a record with a longer block": gzip.compress(raw + b"more"),
        "a record without a length": gzip.compress(raw.replace(b"\r\nContent-Length:", b"\r\nContent-Span:")),
        "two records in a member": gzip.compress(raw + raw),
    }
    for name, tail in foreign.items():
        path.write_bytes(data + tail)
        with pytest.raises(Damaged) as error:
            replay(tmp_path)
        assert error.value.file == os.fspath(path) and error.value.offset >= len(data), name
        assert redo.cut_tail(FILES, os.fspath(path)) == len(tail), name
        assert path.read_bytes() == data, name
    assert replay(tmp_path) == written


@settings(max_examples=60, deadline=None)
@given(tail=st.binary(max_size=80), cut=st.integers(0, 5_000), seed=st.integers(0, 3))
def test_any_tail_after_any_cut_leaves_whole_units(
    tail: bytes, cut: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("tail")
    written = write(directory, few_units())
    (path,) = paths_in(directory)
    data = path.read_bytes()[:cut]
    path.write_bytes(data + tail * 10**seed)
    redo.recover(FILES, os.fspath(directory), 1)
    whole = [row for row in written if row[2].end <= len(data)]
    assert replay(directory)[: len(whole)] == whole
    assert len(replay(directory)) <= len(whole) + 1  # the tail may be the very bytes that were cut off


class Watching(Quick):
    """Counts what is read, and the largest piece of it."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.piece_max = 0

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        self.read_bytes += (data := super().pread(handle, length, offset)).__len__()
        self.piece_max = max(self.piece_max, len(data))
        return data


@pytest.mark.parametrize("zstd_level", [None, 3])
def test_a_cut_reads_the_file_once_in_small_pieces(tmp_path: Path, zstd_level: int | None) -> None:
    """Bounded memory and linear time, for many small units as for one large body, and for none of what is known."""
    noise = random.Random(5)
    small = [(failed_unit(), None)] * 3_000
    large = unit_of()
    written = write(tmp_path, [*small, (large, exchange_of(large, noise.randbytes(3_000_000)))], zstd_level=zstd_level)
    (path,) = paths_in(tmp_path)
    with path.open("ab") as file:
        file.write(b"\0" * 1_000_000)
    size = path.stat().st_size
    files = Watching()
    tracemalloc.start()
    try:
        assert redo.cut_tail(files, os.fspath(path)) == 1_000_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert files.read_bytes < size * 1.1
    assert files.piece_max <= 1 << 20 and peak < 3_000_000
    files = Watching()
    assert redo.cut_tail(files, os.fspath(path), known=written[-1][2].end) == 0
    assert files.read_bytes == 0


def test_what_a_harvest_covers_is_never_cut(tmp_path: Path) -> None:
    written = write(tmp_path, few_units())
    (path,) = paths_in(tmp_path)
    known = written[1][2].end
    data = bytearray(path.read_bytes())
    data[written[0][2].record + 30] ^= 1  # rot in what is known to be whole: for fsck to find, not for recovery to cut
    path.write_bytes(bytes(data) + b"\0" * 100)
    assert redo.recover(FILES, os.fspath(tmp_path), 1, (0, known)) == 100
    assert replay(tmp_path, (0, known)) == written[2:]
    (path,) = paths_in(tmp_path)
    short = path.rename(path.with_name(path.name + ".open"))
    short.write_bytes(bytes(data[: known - 1]))
    with pytest.raises(Damaged, match=f"damaged at offset {known - 1}"):
        redo.recover(FILES, os.fspath(tmp_path), 1, (0, known))
    assert short.read_bytes() == bytes(data[: known - 1])


@pytest.mark.parametrize("zstd_level", [None, 3])
def test_replay_gives_the_units_after_any_position_across_rolled_files(tmp_path: Path, zstd_level: int | None) -> None:
    units = [(unit, exchange) for _ in range(4) for unit, exchange in few_units()]
    written = write(tmp_path, units, roll_bytes=3_000, zstd_level=zstd_level)
    other = writer_in(tmp_path, stream=2)
    other.append(failed_unit(), None)
    assert [path.suffix for path in paths_in(tmp_path)].count(".open") == 2
    assert len(paths_in(tmp_path)) > 5
    redo.recover(FILES, os.fspath(tmp_path), 1)
    assert [path.suffix for path in paths_in(tmp_path)].count(".open") == 1  # the other stream's is not ours to finish
    assert replay(tmp_path) == written
    for index, (_, _, location) in enumerate(written):
        assert replay(tmp_path, location.position) == written[index + 1 :]
    last = written[-1][2]
    assert replay(tmp_path, (last.serial + 1, 0)) == []
    with pytest.raises(Damaged, match="the archive ends before"):
        replay(tmp_path, (last.serial, last.end + 1))
    assert redo.streams(FILES, os.fspath(tmp_path)) == [1, 2]


def test_files_moved_away_after_their_harvest_are_not_missed(tmp_path: Path) -> None:
    written = write(tmp_path, few_units() + few_units(), roll_bytes=3_000)
    redo.recover(FILES, os.fspath(tmp_path), 1)
    first = written[0][2]
    kept = [row for row in written if row[2].serial > first.serial]
    (tmp_path / first.file).unlink()
    assert kept and replay(tmp_path, (first.serial, first.end)) == kept


def test_recovery_finishes_what_is_whole_and_removes_what_is_nothing(tmp_path: Path) -> None:
    written = write(tmp_path, few_units())
    (path,) = paths_in(tmp_path)
    assert redo.recover(FILES, os.fspath(tmp_path), 1) == 0
    assert [p.name for p in paths_in(tmp_path)] == [path.name.removesuffix(".open")]
    assert redo.recover(FILES, os.fspath(tmp_path), 1) == 0
    assert replay(tmp_path) == written
    nothing = tmp_path / "irlcrawl-20231114221320500-00001-s0001.warc.gz.open"
    nothing.write_bytes(path.with_name(path.name.removesuffix(".open")).read_bytes()[:100])
    assert redo.recover(FILES, os.fspath(tmp_path), 1) == 100
    assert not nothing.exists() and len(paths_in(tmp_path)) == 1
    assert replay(tmp_path) == written


def test_recovery_interrupted_anywhere_can_be_run_again(tmp_path: Path) -> None:
    """A crash during recovery, at each of its calls to the file system, costs nothing."""
    master = tmp_path / "master"
    master.mkdir()
    written = write(master, few_units())
    (source,) = paths_in(master)
    torn = source.read_bytes()[:-1]
    for calls in range(1, 40):
        directory = tmp_path / str(calls)
        directory.mkdir()
        (directory / source.name).write_bytes(torn)
        try:
            redo.recover(Dying(calls), os.fspath(directory), 1)
        except Death:
            redo.recover(FILES, os.fspath(directory), 1)
            assert replay(directory) == written[:-1]
        else:
            assert calls > 5
            return
    raise AssertionError("recovery did not end")


class Death(Exception):
    pass


class Dying(Files):
    """Stops at the n-th call that changes a file."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def _step(self) -> None:
        self.calls -= 1
        if self.calls == 0:
            raise Death

    def truncate(self, path: str | os.PathLike[str] | Handle, length: int) -> None:
        self._step()
        super().truncate(path, length)
        self._step()

    def fsync(self, handle: Handle) -> None:
        self._step()
        super().fsync(handle)

    def rename(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        self._step()
        super().rename(old, new)
        self._step()

    def fsync_dir(self, path: str | os.PathLike[str]) -> None:
        self._step()
        super().fsync_dir(path)
