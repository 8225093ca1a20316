"""Seen-checks made of numpy: drum itself, what fits in RAM, and the Mercator-B of the papers in two forms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from drum import Batch, Drum
from drum.bucket import KeyBuffer, RecentKeys
from drum.keyset import compact
from drum.library.drum import CACHE_BYTES_MAX, KEYS_EIGHTHS
from drum.names import SEGMENT

import numpy as np

from bench.seen.counting import CountingFiles
from bench.seen.stream import BATCH, Keys, Links, known
from bench.seen.systems import Batched, Deliver, Refused, System, ascending, distinct

BLOCK = 1 << 18  # keys of a sorted file handled at once: its arrays stay in the processor's cache


class DrumSystem(System):
    """This library with its defaults, through its front door."""

    name, immutable, takes_aux = "drum", (SEGMENT,), True
    bytes_from = "drum.Files"

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._files = CountingFiles()
        self._drum = Drum(path / "drum", emit=self._emit, ram_bytes=ram_bytes, files=self._files)

    def _emit(self, batch: Batch) -> None:
        self.deliver(batch["key"])
        if "url" in batch:
            self.aux_emitted_bytes += int(batch["url"].lengths.sum())

    def add(self, links: Links) -> None:
        if links.urls is None:
            self._drum.add(links.keys)
        else:
            self._drum.add(links.keys, url=links.urls)
        self.rounds = self.merges = self._drum.merges

    def finish(self) -> None:
        self._drum.merge()
        self.rounds = self.merges = self._drum.merges

    def close(self) -> None:
        self._drum.close()

    def seed(self, count: int) -> None:
        for keys in known(count, self.keys_of):
            self._drum.add(keys)
        self._drum.merge()

    def traffic(self) -> tuple[int, int]:
        return self._files.bytes_read, self._files.bytes_written


class PythonSet(Batched):
    """A set of int, which no RAM setting bounds: about 90 bytes a key."""

    name, on_disk = "set", False
    batch_links = BATCH
    _KEYS_MAX = 50_000_000

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._keys: set[int] = set()

    def check(self, keys: Keys) -> Keys:
        new = set(keys.tolist()).difference(self._keys)
        self._keys.update(new)
        return np.fromiter(new, np.uint64, len(new))

    def seed(self, count: int) -> None:
        if count > self._KEYS_MAX:
            raise Refused(f"a Python set of {count:,} keys would take {count * 90 >> 30} GiB of RAM")
        for keys in known(count, self.keys_of):
            self._keys.update(keys.tolist())


class Bloom(Batched):
    """A blocked Bloom filter (Putze, Sanders, Singler 2007) that takes half of the RAM setting: a key sets six bits of
    one word. Its answers "seen" are sometimes wrong: how often, the table says."""

    name, on_disk, exact = "bloom", False, False
    batch_links = BATCH

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._words = np.zeros(1 << ((ram_bytes // 2 // 8).bit_length() - 1), dtype=np.uint64)
        self._shift = np.uint64(64 - (len(self._words).bit_length() - 1))

    def check(self, keys: Keys) -> Keys:
        slots = (keys >> self._shift).view(np.int64)
        bits = np.zeros(len(keys), dtype=np.uint64)
        for i in range(6):  # bits of the key that do not choose the word
            bits |= np.uint64(1) << (keys >> np.uint64(6 * i) & np.uint64(63))
        absent = (self._words[slots] & bits) != bits
        np.bitwise_or.at(self._words, slots[absent], bits[absent])
        return keys[absent]

    def seed(self, count: int) -> None:
        for keys in known(count, self.keys_of):
            self.check(distinct(keys))


class MercatorB(System):
    """One sorted file of keys, merged with a RAM buffer whenever that is full: half of the RAM setting; the other half
    is for the new keys of a merge. Streaming, raw keys, no checksums; synced after each merge."""

    name: ClassVar[str] = "mercator-b"
    immutable = (".keys",)

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._buffer = np.empty(self._buffer_bytes() // 8, dtype=np.uint64)
        self._filled = 0
        self._number = max((int(file.stem) for file in path.glob("*.keys")), default=0)
        self._read = self._written = 0

    def _buffer_bytes(self) -> int:
        return self.ram_bytes // 2

    def add(self, links: Links) -> None:
        keys = links.keys
        while len(keys):
            taken = keys[: len(self._buffer) - self._filled]
            self._buffer[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            keys = keys[len(taken) :]
            if self._filled == len(self._buffer):
                self._merge()

    def finish(self) -> None:
        if self._filled:
            self._merge()

    def _wanted(self) -> Keys:
        """What waits, ascending and without repeats."""
        keys = self._buffer[: self._filled]
        self._filled = 0
        return distinct(keys)

    def _merge(self) -> None:
        wanted = self._wanted()
        old, new = self._file(self._number), self._file(self._number + 1)
        with open(new, "xb", buffering=0) as out:
            at = 0
            for block in self._blocks(old):
                end = at + int(np.searchsorted(wanted[at:], block[-1], side="right"))
                self._write(out.fileno(), self._joined(block, wanted[at:end]))
                at = end
            for start in range(at, len(wanted), BLOCK):
                self.deliver(wanted[start : start + BLOCK])
                self._write(out.fileno(), wanted[start : start + BLOCK])
            os.fsync(out.fileno())
        self._number += 1
        old.unlink(missing_ok=True)
        self.merges += 1
        self.rounds += 1

    def _joined(self, block: Keys, wanted: Keys) -> Keys:
        """Both in order; those of `wanted` that are not in the block are handed on."""
        if not len(wanted):
            return block
        place = np.searchsorted(block, wanted)
        fresh = block[place] != wanted  # no key of `wanted` is beyond the block
        new = wanted[fresh]
        self.deliver(new)
        if not len(new):
            return block
        both = np.empty(len(block) + len(new), dtype=np.uint64)
        to = place[fresh] + np.arange(len(new))
        kept = np.ones(len(both), dtype=bool)
        kept[to] = False
        both[to] = new
        both[kept] = block
        return both

    def _file(self, number: int) -> Path:
        return self.path / f"{number:06d}.keys"

    def _blocks(self, path: Path) -> Iterator[Keys]:
        if not path.exists():
            return
        with open(path, "rb", buffering=0) as file:
            while data := file.read(BLOCK * 8):
                self._read += len(data)
                yield np.frombuffer(data, dtype=np.uint64)

    def _write(self, handle: int, keys: Keys) -> None:
        data = keys.data.cast("B")
        self._written += len(data)
        while len(data):
            data = data[os.write(handle, data) :]

    def seed(self, count: int) -> None:
        with open(self._file(1), "xb", buffering=0) as out:
            for keys in ascending(count, self.path, keys_of=self.keys_of):
                self._write(out.fileno(), keys)

    def traffic(self) -> tuple[int, int]:
        return self._read, self._written


class CachedMercatorB(MercatorB):
    """The same behind the buffer and the cache of recent keys that drum has, of the same sizes."""

    name, seeded_as = "mercator-b+cache", "mercator-b"

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._recent = RecentKeys(min(ram_bytes // 8, CACHE_BYTES_MAX))
        self._keys = KeyBuffer(ram_bytes // 8 * KEYS_EIGHTHS)

    def _buffer_bytes(self) -> int:
        return 0

    def add(self, links: Links) -> None:
        keys = links.keys
        while len(keys):
            room = self._keys.room
            self._keys.add(keys[:room])
            keys = keys[room:]
            if not self._keys.room:
                self._keys.sweep(self._recent)
                if self._keys.rows >= self._keys.capacity:
                    self._merge()

    def finish(self) -> None:
        if self._keys.rows:
            self._merge()

    def _wanted(self) -> Keys:
        self._keys.sweep(self._recent)
        wanted = self._keys.keys
        self._keys.clear()
        return wanted[: compact(wanted)]  # in place: it keeps to the RAM setting, as drum does
