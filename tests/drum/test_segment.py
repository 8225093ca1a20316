"""Segments give back what was put in, in the order promised, or say which byte is wrong (I5)."""

import errno
import gc
import os
import random
import tracemalloc
from pathlib import Path

from drum import BYTES, Batch, Damaged, Files, Ragged, Segment, SegmentPool, SegmentWriter
from drum.codec import BLOCK_BYTES, BLOCK_ROWS, HEADER
from drum.segment import LabelsAt

import numpy as np
import pytest
from drum_support import CountingFiles, FullDisk, batches, random_batch, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

FILES = Files()
LINK = {"key": "u8", "label": "u1", "url": BYTES}


def written(path: Path, **sections: Batch) -> Segment:
    with SegmentWriter(FILES, path) as writer:
        for name, batch in sections.items():
            writer.section(name, batch.schema).append(batch)
    return Segment.open(FILES, path)


@settings(max_examples=40, deadline=None)
@given(parts=st.lists(batches({"a": "u2", "b": BYTES, "c": "f8"}), max_size=6), other=batches())
def test_rows_come_back_in_order(tmp_path_factory: pytest.TempPathFactory, parts: list[Batch], other: Batch) -> None:
    path = tmp_path_factory.mktemp("seg") / "a.seg"
    with SegmentWriter(FILES, path) as writer:
        first = writer.section("first", {"a": "u2", "b": BYTES, "c": "f8"}, {"why": ["a", 1]})
        second = writer.section("second", other.schema)
        for part in parts:
            first.append(part)
            second.append(other)
    segment = Segment.open(FILES, path)
    section = segment.sections["first"]
    assert [row for batch in section.scan() for row in rows_of(batch)] == [row for p in parts for row in rows_of(p)]
    assert section.rows == sum(part.rows for part in parts)
    assert section.meta == {"why": ["a", 1]}
    assert [row for batch in section.scan(["c"]) for row in rows_of(batch)] == [
        row[2:] for part in parts for row in rows_of(part)
    ]
    back = [row for batch in segment.sections["second"].scan() for row in rows_of(batch)]
    assert back == rows_of(other) * len(parts)
    segment.verify()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), parts=st.lists(batches(LINK), max_size=5))
def test_labelled_rows_are_grouped_stably(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, parts: list[Batch]
) -> None:
    path = tmp_path_factory.mktemp("seg") / "a.seg"
    with SegmentWriter(FILES, path) as writer:
        out = writer.section("s", LINK)
        for part in parts:
            out.append(part, labels=part["label"])
    section = Segment.open(FILES, path).sections["s"]
    rows = [row for part in parts for row in rows_of(part)]
    expected = sorted(rows, key=lambda row: row[1])  # type: ignore[arg-type,return-value]
    assert [row for batch in section.scan() for row in rows_of(batch)] == expected
    labels, counts = section.label_counts()
    assert dict(zip(labels.tolist(), counts.tolist())) == {r[1]: sum(x[1] == r[1] for x in rows) for r in rows}
    lo = data.draw(st.integers(0, 100))
    hi = data.draw(st.integers(lo, 100))
    inside = [row for batch in section.between(lo, hi) for row in rows_of(batch) if lo <= row[1] <= hi]  # type: ignore[operator]
    assert inside == [row for row in expected if lo <= row[1] <= hi]  # type: ignore[operator]


def test_blocks_are_bounded_and_label_ranges_skip_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**64, 300_000, dtype=np.uint64)
    with SegmentWriter(FILES, tmp_path / "a.seg") as writer:
        writer.section("keys", {"key": "u8"}).append(Batch({"key": keys}), labels=(keys >> np.uint64(56)).astype("u1"))
        wide = Batch({"url": Ragged.from_list([rng.bytes(3000) for _ in range(1000)] + [bytes(3 << 20)])})
        writer.section("wide", wide.schema).append(wide)
    counting = CountingFiles()
    segment = Segment.open(counting, tmp_path / "a.seg")
    for section in segment.sections.values():
        for block, batch in enumerate(section.scan()):
            assert batch.rows == section.blocks["rows"][block] <= BLOCK_ROWS
            assert batch.nbytes <= BLOCK_BYTES + 8 * (batch.rows + 1) or batch.rows == 1
    counting.bytes_read = 0
    found = np.concatenate([batch["key"] for batch in segment.sections["keys"].between(7, 8)])
    assert counting.bytes_read <= 2 * BLOCK_ROWS * 8
    part = found >> np.uint64(56)
    assert sorted(found[(part >= 7) & (part <= 8)].tolist()) == sorted(
        keys[(keys >> np.uint64(56) >= 7) & (keys >> np.uint64(56) <= 8)].tolist()
    )


def test_one_column_is_read_without_the_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    batch = Batch({"key": np.arange(1000, dtype="u8"), "url": Ragged.from_list([rng.bytes(500)] * 1000)})
    written(tmp_path / "a.seg", s=batch)
    counting = CountingFiles()
    section = Segment.open(counting, tmp_path / "a.seg").sections["s"]
    counting.bytes_read = 0
    assert next(section.scan(["key"]))["key"].tolist() == list(range(1000))
    assert counting.bytes_read <= 8000
    with pytest.raises(KeyError, match="no column 'host'"):
        section.read(0, ["host"])


def test_open_segments_kept_all_their_labels_in_memory(tmp_path: Path) -> None:
    """Two thirds of what a crawl's open files cost, as much again for each queue that lay in one."""
    labels = np.arange(100_000, dtype="u8")
    with SegmentWriter(FILES, tmp_path / "a.seg") as writer:
        for name in ("queue", "gone"):
            writer.section(name, {"key": "u8"}).append(Batch({"key": labels}), labels=labels)
    directory = 2 * labels.nbytes
    Segment.open(FILES, tmp_path / "a.seg")  # what is made once
    tracemalloc.start()
    segment = Segment.open(FILES, tmp_path / "a.seg")
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most >= directory > 20 * kept
    found, counts = segment.sections["queue"].label_counts()
    assert found.tolist() == labels.tolist() and set(counts.tolist()) == {1}


def test_labels_that_changed_since_the_file_was_opened_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.seg"
    with SegmentWriter(FILES, path) as writer:
        writer.section("s", {"key": "u8"}).append(Batch({"key": np.arange(9, dtype="u8")}), np.arange(9, dtype="u8"))
    section = Segment.open(FILES, path).sections["s"]
    assert isinstance(section.entries, LabelsAt)
    with path.open("r+b") as file:
        file.seek(section.entries.offset + 8)
        file.write(b"\x07")
    with pytest.raises(Damaged, match="'s': its labels changed") as caught:
        section.label_counts()
    assert caught.value.offset == section.entries.offset


def test_many_small_appends_make_few_blocks(tmp_path: Path) -> None:
    with SegmentWriter(FILES, tmp_path / "a.seg") as writer:
        out = writer.section("s", {"key": "u8"})
        for i in range(5000):
            out.append(Batch({"key": np.array([i], "u8")}))
        assert len(out.end().blocks) == 1


@pytest.mark.parametrize("labelled", [False, True])
def test_a_copied_section_is_the_same_section(tmp_path: Path, labelled: bool) -> None:
    batch = random_batch(LINK, 3000, np.random.default_rng(3))
    with SegmentWriter(FILES, tmp_path / "a.seg") as writer:
        writer.section("s", LINK, {"m": 1}).append(batch, labels=batch["label"] if labelled else None)
    old = Segment.open(FILES, tmp_path / "a.seg").sections["s"]
    with SegmentWriter(FILES, tmp_path / "b.seg") as writer:
        writer.section("before", {"key": "u8"}).append(Batch({"key": np.arange(9, dtype="u8")}))
        writer.copy(old, "moved")
    new = Segment.open(FILES, tmp_path / "b.seg").sections["moved"]
    assert [rows_of(b) for b in new.scan()] == [rows_of(b) for b in old.scan()]
    assert new.meta == old.meta
    assert new.nbytes == old.nbytes
    assert [part.tolist() for part in new.label_counts()] == [part.tolist() for part in old.label_counts()]


def test_every_flipped_byte_is_found_and_named(tmp_path: Path) -> None:
    batch = random_batch({"key": "u8", "label": "u1", "url": BYTES}, 40, np.random.default_rng(5))
    with SegmentWriter(FILES, tmp_path / "a.seg") as writer:
        writer.section("s", LINK).append(batch, labels=batch["label"])
        writer.section("t", {"key": "u8"}, sorted_by="key").append(Batch({"key": np.arange(500, dtype="u8")}))
    data = (tmp_path / "a.seg").read_bytes()
    directory = int.from_bytes(data[-40:-32], "little")
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << (at % 8)
        (tmp_path / "b.seg").write_bytes(bad)
        with pytest.raises(Damaged) as caught:
            Segment.open(FILES, tmp_path / "b.seg").verify()
        assert caught.value.file == str(tmp_path / "b.seg")
        assert caught.value.offset <= at
        if at < len(HEADER):
            assert caught.value.offset == at
        elif at < directory:
            assert at - caught.value.offset < 4000  # the chunk that holds the byte


def test_every_truncation_is_found(tmp_path: Path) -> None:
    written(tmp_path / "a.seg", s=random_batch(LINK, 30, np.random.default_rng(5)))
    data = (tmp_path / "a.seg").read_bytes()
    for length in range(len(data)):
        (tmp_path / "b.seg").write_bytes(data[:length])
        with pytest.raises(Damaged):
            Segment.open(FILES, tmp_path / "b.seg")


def test_damage_in_one_column_spares_the_others(tmp_path: Path) -> None:
    written(tmp_path / "a.seg", s=Batch({"a": np.arange(99, dtype="u8"), "b": np.arange(99, dtype="u8")}))
    section = Segment.open(FILES, tmp_path / "a.seg").sections["s"]
    offset = int(section.chunks["offset"][0, 1])
    data = bytearray((tmp_path / "a.seg").read_bytes())
    data[offset] ^= 1
    (tmp_path / "b.seg").write_bytes(data)
    damaged = Segment.open(FILES, tmp_path / "b.seg").sections["s"]
    assert damaged.read(0, ["a"])["a"].tolist() == list(range(99))
    with pytest.raises(Damaged, match=f"damaged at offset {offset}: section 's', column 'b'"):
        damaged.read(0)


def test_a_file_has_no_name_before_it_is_finished(tmp_path: Path) -> None:
    writer = SegmentWriter(FILES, tmp_path / "a.seg")
    writer.section("s", {"key": "u8"}).append(Batch({"key": np.arange(5, dtype="u8")}))
    assert os.listdir(tmp_path) == ["a.seg.tmp"]
    assert writer.finish() == (tmp_path / "a.seg").stat().st_size
    assert os.listdir(tmp_path) == ["a.seg"]
    gone = SegmentWriter(FILES, tmp_path / "b.seg")
    gone.abort()
    assert os.listdir(tmp_path) == ["a.seg"]


def test_a_full_disk_is_an_oserror_and_leaves_no_segment(tmp_path: Path) -> None:
    batch = random_batch(LINK, 500, np.random.default_rng(1))
    written(tmp_path / "whole.seg", s=batch)
    size = (tmp_path / "whole.seg").stat().st_size
    for room in range(0, size, 97):
        with pytest.raises(OSError, match="No space"), SegmentWriter(FullDisk(room), tmp_path / "a.seg") as writer:
            writer.section("s", LINK).append(batch)
        assert not (tmp_path / "a.seg").exists()


def test_sections_refuse_what_they_are_not(tmp_path: Path) -> None:
    with SegmentWriter(FILES, tmp_path / "a.seg") as writer:
        out = writer.section("s", {"key": "u8", "url": BYTES})
        with pytest.raises(ValueError, match="needs 'url' as bytes"):
            out.append(Batch({"key": np.arange(3, dtype="u8")}))
        with pytest.raises(ValueError, match="twice"):
            writer.section("s", {})
        out.end()
        with pytest.raises(ValueError, match="has ended"):
            out.append(random_batch({"key": "u8", "url": BYTES}, 2, np.random.default_rng(1)))


def test_the_pool_keeps_few_files_open_and_reads_sections_of_an_unfinished_one(tmp_path: Path) -> None:
    for i in range(9):
        written(tmp_path / f"{i}.seg", s=Batch({"key": np.full(4, i, "u8")}))
    before = len(os.listdir("/proc/self/fd"))
    pool = SegmentPool(FILES, tmp_path, open_max=2)
    order = random.Random(1).choices(range(9), k=50)
    for i in order:
        assert pool.section(f"{i}.seg", "s").read(0)["key"].tolist() == [i] * 4
        assert len(os.listdir("/proc/self/fd")) <= before + 2
    held = pool.section("0.seg", "s")
    for i in range(1, 9):
        pool.section(f"{i}.seg", "s")
    assert held.read(0)["key"].tolist() == [0] * 4
    with pytest.raises(Damaged, match="no section 'x'"):
        pool.section("0.seg", "x")
    writer = SegmentWriter(FILES, tmp_path / "new.seg")
    pool.adopt(writer)
    writer.section("s", {"key": "u8"}).append(Batch({"key": np.arange(7, dtype="u8")}))
    early = pool.section("new.seg", "s")
    assert early.read(0)["key"].tolist() == list(range(7))
    writer.finish()
    assert early.read(0)["key"].tolist() == pool.section("new.seg", "s").read(0)["key"].tolist()


def test_a_finish_that_failed_after_its_rename_left_the_file(tmp_path: Path) -> None:
    class NoNames(Files):
        def fsync_dir(self, path: str | os.PathLike[str]) -> None:
            raise OSError(errno.EIO, "no names")

    writer = SegmentWriter(NoNames(), tmp_path / "a.seg")
    with pytest.raises(OSError, match="no names"):
        writer.finish()
    assert not list(tmp_path.iterdir())


def test_a_finished_file_is_closed_without_the_collector(tmp_path: Path) -> None:
    """Writer and sections knew each other: files that were finished stayed open, each with a compressor."""
    gc.collect()
    gc.disable()
    try:
        before = os.listdir("/proc/self/fd")
        with SegmentWriter(FILES, tmp_path / "one") as writer:
            writer.section("rows", {"key": "u8"}).append(Batch({"key": np.arange(3, dtype=np.uint64)}))
        del writer
        assert os.listdir("/proc/self/fd") == before
    finally:
        gc.enable()
