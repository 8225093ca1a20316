"""FORMAT.md is enough to read the files: a reader made from it alone, with nothing of the library."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from drum import BYTES, Batch, Ragged

import numpy as np
import xxhash
import zstandard
from drum_support import Desk, rows_of


def read_segment(data: bytes) -> dict[str, list[dict[str, list[object]]]]:
    """section -> blocks -> column -> values."""
    assert data[:16] == b"drumseg\n" + struct.pack("<II", 1, 1)
    assert data[-8:] == b"drumend\n"
    start, length, sections, version, checksum = struct.unpack("<QQIIQ", data[-40:-8])
    assert version == 1
    assert start + length == len(data) - 40
    directory = data[start : start + length]
    assert xxhash.xxh3_64_intdigest(directory + data[-40:-16]) == checksum
    out: dict[str, list[dict[str, list[object]]]] = {}
    at, covered = 0, 16
    for _ in range(sections):
        (size,) = struct.unpack_from("<I", directory, at)
        head = json.loads(directory[at + 4 : at + 4 + size])
        at += 4 + size
        blocks = [struct.unpack_from("<IQQ", directory, at + 20 * i) for i in range(head["blocks"])]
        at += 20 * len(blocks)
        out[head["name"]] = []
        for rows, _, _ in blocks:
            columns = {}
            for name, kind in head["schema"]:
                offset, stored, raw, checksum, encoding = struct.unpack_from("<QIIQB", directory, at)
                at += 25
                chunk = data[offset : offset + stored]
                covered += stored
                assert xxhash.xxh3_64_intdigest(chunk) == checksum
                kept, encoding = divmod(encoding, 16)
                if encoding == 1:
                    chunk = zstandard.ZstdDecompressor().decompress(chunk)
                if encoding == 2:
                    chunk = unpacked(chunk, rows)
                assert len(chunk) == raw
                columns[name] = values(chunk, kind, rows, kept)
            out[head["name"]].append(columns)
        at += 16 * head["labels"]
        assert head["rows"] == sum(rows for rows, _, _ in blocks)
    assert at == len(directory)
    assert covered == start, "chunks fill the file, nothing lies between them"
    return out


def unpacked(chunk: bytes, rows: int) -> bytes:
    high, bits = struct.unpack_from("<II", chunk)
    groups = (rows + 7) // 8
    lows = struct.unpack_from(f"<{rows}I", chunk, 8 + groups * bits)
    assert len(chunk) == 8 + groups * bits + 4 * rows
    keys = []
    for row in range(rows):
        lane, group = divmod(row, groups)
        number = int.from_bytes(chunk[8 + group * bits : 8 + (group + 1) * bits], "little")
        high += number >> (lane * bits) & ((1 << bits) - 1)
        keys.append(high << 32 | lows[row])
    return struct.pack(f"<{rows}Q", *keys)


def values(chunk: bytes, kind: str, rows: int, kept: int) -> list[object]:
    if kind != "bytes":
        numbers: list[object] = np.frombuffer(chunk, f"<u{kept}" if kept else "<" + kind, rows).tolist()
        return numbers
    lengths = np.frombuffer(chunk, f"<u{kept or 4}", rows).tolist()
    at, out = (kept or 4) * rows, []
    for length in lengths:
        out.append(chunk[at : at + length])
        at += length
    return out


def test_a_segment_is_read_by_the_book(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    rng = np.random.default_rng(1)
    urls = Ragged.from_list([b"http://x/%d" % i for i in range(3000)])
    labels = rng.integers(0, 9, 3000).astype("u1")
    batch = Batch({"key": rng.integers(0, 2**64, 3000, dtype=np.uint64), "label": labels, "url": urls})
    with desk.turn(keep=True) as turn:
        turn.writer.section("a", {"key": "u8", "label": "u1", "url": BYTES}).append(batch, labels=labels)
        turn.writer.section("empty", {"key": "u8"})
        turn.writer.section("b", {"key": "u8"}).append(batch.select(["key"]))
        ascending = np.sort(batch["key"])
        for name, keys in (("few", ascending[:63]), ("far", ascending[:100]), ("near", ascending >> np.uint64(20))):
            turn.writer.section(name, {"key": "u8"}, sorted_by="key").append(Batch({"key": keys}))
    read = read_segment((tmp_path / turn.writer.name).read_bytes())
    order = np.argsort(labels, kind="stable")
    rows = [row for block in read["a"] for row in zip(*block.values())]
    assert rows == rows_of(batch.take(order))
    assert [key for block in read["b"] for key in block["key"]] == batch["key"].tolist()
    assert read["empty"] == []
    assert [key for block in read["near"] for key in block["key"]] == (ascending >> np.uint64(20)).tolist()
    assert [key for block in read["few"] for key in block["key"]] == ascending[:63].tolist()
    assert [key for block in read["far"] for key in block["key"]] == ascending[:100].tolist()


def test_numbers_in_as_few_bytes_as_they_need_are_read_by_the_book(tmp_path: Path) -> None:
    """Of every width, next to every power of two; and what is shorter in the file is the same for the library."""
    desk = Desk(tmp_path)
    schema = {"u1": "u1", "u2": "u2", "u4": "u4", "u8": "u8", "i8": "i8", "f8": "f8", "text": BYTES}
    tops = [0, 1, 2**8 - 1, 2**8, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63]
    batches = []
    with desk.turn(keep=True) as turn:
        for number, top in enumerate(tops):
            column = np.array([0, top // 2, top] * 50, np.uint64)
            text = Ragged.from_list([b"", b"a" * (top % 70_000), b"bc"] * 50)
            fixed = {name: (column % 2 ** min(8 * int(kind[1:]), 62)).astype(kind) for name, kind in schema.items()
                     if kind != BYTES}  # fmt: skip
            batches.append(Batch({**fixed, "u8": column, "text": text}))
            turn.writer.section(f"s{number}", schema).append(batches[-1])
    data = (tmp_path / turn.writer.name).read_bytes()
    read = read_segment(data)
    for number, batch in enumerate(batches):
        assert [row for block in read[f"s{number}"] for row in zip(*block.values())] == rows_of(batch)
        section = desk.pool.section(turn.writer.name, f"s{number}")
        assert [row for found in section.scan() for row in rows_of(found)] == rows_of(batch)
        assert all(found.schema == batch.schema for found in section.scan())
    assert len(data) < sum(batch.nbytes for batch in batches) / 20


def test_a_catalogue_is_read_by_the_book(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(3):
        with desk.turn() as turn:
            turn.edits.set(f"k{number}", {"n": number})
            turn.edits.remove("k0")
    state: dict[str, object] = {}
    lines = (tmp_path / "catalog-000000.log").read_bytes().splitlines()
    for number, line in enumerate(lines):
        digest, text = line.split(b" ", 1)
        assert int(digest, 16) == xxhash.xxh3_64_intdigest(text)
        record = json.loads(text)
        assert record["n"] == number
        for key in record["drop"]:
            state.pop(key, None)
        state.update(record["put"])
    assert state == {"k1": {"n": 1}, "k2": {"n": 2}}
