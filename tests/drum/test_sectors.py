"""A sector that the disk cannot read is damage, by file and offset; other errors stay what they are."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from drum import Damaged
from drum.sectors import SECTOR_BYTES, Sectors, Unreadable, read_around

import pytest

BAD = 2
"""The number of the sector that the disk cannot read."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five sectors and a half, of which one is bad."""
    path = tmp_path / "data"
    path.write_bytes(bytes(range(1, 251)) * 90)
    pread, preadv = os.pread, os.preadv

    def refuse(length: int, offset: int) -> None:
        if offset < (BAD + 1) * SECTOR_BYTES and offset + length > BAD * SECTOR_BYTES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def bad_pread(fd: int, length: int, offset: int) -> bytes:
        refuse(length, offset)
        return pread(fd, length, offset)

    def bad_preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        refuse(sum(map(len, buffers)), offset)
        return preadv(fd, buffers, offset)

    monkeypatch.setattr(os, "pread", bad_pread)
    monkeypatch.setattr(os, "preadv", bad_preadv)
    return path


@pytest.mark.parametrize(("begin", "length"), [(0, 22_500), (5000, 4000), (BAD * SECTOR_BYTES + 10, 100)])
def test_a_bad_sector_is_damage_with_a_place(file: Path, begin: int, length: int) -> None:
    files = Sectors()
    handle = files.open(file)
    try:
        with pytest.raises(Unreadable) as told:
            files.pread(handle, length, begin)
        assert isinstance(told.value, Damaged)
        assert (told.value.file, told.value.offset) == (str(file), max(begin, BAD * SECTOR_BYTES))
        with pytest.raises(Unreadable):
            files.pread_into(handle, memoryview(bytearray(length)), begin)
        assert files.pread(handle, 100, 0) == file.read_bytes()[:100]
    finally:
        files.close(handle)


def test_all_but_the_bad_sector_can_be_read(file: Path) -> None:
    whole = file.read_bytes()
    begin, end = BAD * SECTOR_BYTES, (BAD + 1) * SECTOR_BYTES
    assert read_around(Sectors(), str(file)) == whole[:begin] + bytes(SECTOR_BYTES) + whole[end:]


def test_another_error_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").write_bytes(b"data")
    files = Sectors()
    handle = files.open(tmp_path / "data")

    def refuse(fd: int, length: int, offset: int) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "pread", refuse)
    with pytest.raises(OSError) as told:
        files.pread(handle, 4, 0)
    files.close(handle)
    assert told.value.errno == errno.ESTALE
