"""Recovery: whatever a crash leaves of a file, exactly its whole units are what is left, and replay returns them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from drum.files import Files
from irlcrawl.archive import redo
from irlcrawl.archive.unit import Location
from irlcrawl.archive.warc import Exchange, Unit
from irlcrawl.rows import NO_SEGMENT, Class, Reason, Robots

from .support import exchange_of, failed_unit, paths_in, unit_of, writer_in

FILES = Files()
Written = list[tuple[Unit, Exchange | None, Location]]


def few_units() -> list[tuple[Unit, Exchange | None]]:
    """One of each kind that recovery has to tell apart."""
    robots = unit_of(b"http://a.test/robots.txt", segment=NO_SEGMENT, cls=int(Class.NONE))
    robots.robots = {"robots": int(Robots.RULES), "robots_until": 1_700_086_400.0, "crawl_delay": 2.5}
    page = unit_of(b"http://a.test/page")
    retry = failed_unit(b"http://a.test/slow", cls=int(Class.RETRY), reason=int(Reason.TIMEOUT), retry_due=1.7e9)
    empty = unit_of(b"http://a.test/empty", status=204, extra={"links": ["http://b.test/"]})
    return [
        (robots, exchange_of(robots, b"User-agent: *\nDisallow: /no\n")),
        (page, exchange_of(page, b"<a href=x>x</a>" * 30)),
        (retry, None),
        (empty, exchange_of(empty, b"", b"HTTP/1.1 204 No Content\r\n\r\n")),
    ]


def write(directory: Path, units: list[tuple[Unit, Exchange | None]], roll_bytes: int = 10**9) -> Written:
    """Units in a directory whose last file is left open, as by a crash."""
    writer = writer_in(directory, roll_bytes=roll_bytes)
    return [(unit, exchange, writer.append(unit, exchange)) for unit, exchange in units]


def replay(directory: Path, after: tuple[int, int] = redo.START) -> Written:
    return list(redo.units(FILES, os.fspath(directory), 1, after))


def test_every_cut_leaves_exactly_the_whole_units(tmp_path: Path) -> None:
    written = write(tmp_path, few_units())
    (path,) = paths_in(tmp_path)
    data = path.read_bytes()
    for length in range(len(data)):
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


@pytest.mark.parametrize("length", [0, 1, 7, 20])
def test_a_tail_of_zeros_or_noise_is_cut(tmp_path: Path, length: int) -> None:
    written = write(tmp_path, few_units())
    (path,) = paths_in(tmp_path)
    data = path.read_bytes()
    noise = random.Random(1).randbytes(70_000)
    member = data[written[1][2].record : written[1][2].end]
    tails = [b"\0" * 70_000, noise, b"\x1f\x8b\x08" + noise, member[: len(member) // 2] + b"\0" * 70_000]
    flipped = bytearray(member)
    flipped[len(member) // 2] ^= 0x10
    tails.append(bytes(flipped) + member)
    for tail in tails:
        path.write_bytes(data + member[:length] + tail)
        if length == 0 and tail is tails[-1]:
            assert tail != member + member
        assert redo.cut_tail(FILES, os.fspath(path)) == length + len(tail)
        assert path.read_bytes() == data
    assert replay(tmp_path) == written
