"""Payloads that any worker of the machine stored: told by a revisit record once they are on the disk, never before."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

from drum.files import Files, Handle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.worker.archive import record, redo
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.archive.warc import WarcWriter
from irlcrawl.worker.archive.window import CELL_BYTES, Place, Window
from tests.worker.archive.support import TEXT, Quick, exchange_of, paths_in, unit_of, writer_in

A, B, C = b"http://a.test/", b"http://b.test/", b"http://c.test/"


def writer(directory: Path, stream: int, files: Files | None = None, payloads: int = 1000) -> WarcWriter:
    files = files or Quick()
    window = Window(files, str(directory / "window"), payloads, "irlcrawl")
    return writer_in(directory / "warcs", stream, files=files, dedupe_bytes_min=1024, window=window)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "warcs").mkdir()
    return tmp_path


def add(writer: WarcWriter, url: bytes, body: bytes = TEXT) -> Unit:
    unit = unit_of(url)
    writer.append(unit, exchange_of(unit, body))
    return unit


def read(place: Path, stream: int) -> list[tuple[Unit, Exchange | None]]:
    return [(unit, exchange) for unit, exchange, _ in redo.units(Files(), str(place / "warcs"), stream)]


@pytest.mark.parametrize("closed", [False, True])
def test_another_worker_names_the_record_and_is_read_again_with_the_payload(place: Path, closed: bool) -> None:
    first, second = writer(place, 1), writer(place, 2)
    add(first, A)
    first.close() if closed else first.sync()
    there = add(second, B)
    (file, *_) = paths_in(place / "warcs")
    assert there.holder is not None and there.holder[0] == file.name.removesuffix(".open") and there.size == len(TEXT)
    second.close()
    ((unit, exchange),) = read(place, 2)
    assert (unit, exchange) == (there, exchange_of(there, TEXT))
    *_, revisit = records(Files(), str(paths_in(place / "warcs")[1]))
    assert revisit.kind == "revisit" and revisit.fields["warc-refers-to-target-uri"] == A.decode()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_record_of_the_same_url_is_told_to_be_its_own(place: Path, elsewhere: bool) -> None:
    """A page that was ordered comes without what is known of it; that its record is there already was lost on it."""
    first, second = writer(place, 1), writer(place, 2)
    stored = add(first, A)
    first.sync()
    asks = second if elsewhere else first
    again, other = add(asks, A), add(asks, B)
    assert again.own == pytest.approx(stored.start, abs=0.001) and other.own is stored.own is None
    asks.close()
    units = [unit for unit, _ in read(place, 2 if elsewhere else 1)]
    assert units[-2:] == [again, other], "replay has it, too"
    date = next(
        r.fields["warc-date"] for r in records(Files(), str(paths_in(place / "warcs")[0])) if r.kind == "response"
    )
    assert record.date(again.own) == date, "a revisit record of the next visit will name it"


def test_what_is_not_on_the_disk_yet_is_told_to_nobody(place: Path) -> None:
    """A power loss may take it, and leave what would name it."""
    first, second = writer(place, 1), writer(place, 2)
    add(first, A)
    assert add(second, B).size is None
    first.sync()
    assert add(second, C, TEXT).original is not None, "its own file is named first"
    assert add(writer(place, 3), C).holder is not None


def test_a_sync_that_failed_tells_nothing(place: Path) -> None:
    class Failing(Quick):
        def fsync(self, handle: Handle) -> None:
            raise OSError(errno.EIO, "no disk")

    first = writer(place, 1, Failing())
    add(first, A)
    with pytest.raises(OSError, match="no disk"):
        first.sync()
    assert add(writer(place, 2), B).size is None


def test_an_archive_that_was_moved_away_is_not_named(place: Path) -> None:
    first, second = writer(place, 1), writer(place, 2)
    add(first, A)
    first.close()
    (moved,) = paths_in(place / "warcs")
    there = add(second, B)
    second.close()
    moved.unlink()
    third = writer(place, 3)
    assert add(third, C).size is None
    ((unit, exchange),) = read(place, 2)
    assert there.holder and unit.away and exchange is not None and not exchange.body, "its URL is asked for again"


def test_the_table_outlives_a_start_and_another_size(place: Path) -> None:
    first = writer(place, 1)
    add(first, A)
    first.close()
    assert add(writer(place, 2), B).holder is not None
    add(smaller := writer(place, 3, payloads=1), C)
    assert (place / "window").stat().st_size == CELL_BYTES
    smaller.close()
    assert add(writer(place, 4, payloads=1), C).holder is not None


def test_a_record_that_holds_something_else_is_not_named(place: Path) -> None:
    """What two workers write at once may be torn."""
    first = writer(place, 1)
    add(first, A)
    first.close()
    (file,) = paths_in(place / "warcs")
    window = Window(Files(), str(place / "window"), 1000, "irlcrawl")
    window.put([(hashlib.sha1(TEXT + b"x").digest(), Place(file.name, offset)) for offset in (0, 7, 10**9)])
    assert add(writer(place, 2), B, TEXT + b"x").size is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2**60), st.booleans()), max_size=40))
def test_the_table_forgets_and_never_invents(
    tmp_path_factory: pytest.TempPathFactory, puts: list[tuple[int, int, bool]]
) -> None:
    path, model = str(tmp_path_factory.mktemp("window") / "w"), dict[bytes, Place]()
    both = [Window(Files(), path, 7, "p-q"), Window(Files(), path, 7, "p-q")]
    for number, offset, zstd in puts:
        sha1 = hashlib.sha1(b"%d" % number).digest()
        found = both[number % 2].find(sha1)
        assert found is None or found == model[sha1]
        model[sha1] = Place(f"p-q-20300102030405678-{number:05d}-s0012.warc.{'zst' if zstd else 'gz'}", offset)
        both[1 - number % 2].put([(sha1, model[sha1])])
        assert both[number % 2].find(sha1) == model[sha1]
