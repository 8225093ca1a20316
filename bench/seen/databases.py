"""Databases as seen-checks, each by the fastest way its Python interface has, and spared what drum pays for.

They keep no log and do not wait for the disk until the end (drum syncs every merge), their keys come distinct and in
ascending order, and keys are 8 bytes with an empty value. What was fastest was measured: see each class.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from bench.seen.stream import Keys
from bench.seen.systems import Batched, Deliver, ascending, library, process_io

CHUNK = 1 << 20
_SIGN = np.uint64(1 << 63)  # flipped, a key as a signed number keeps its order


def byte_strings(keys: Keys) -> list[bytes]:
    """Eight bytes a key, whose order is that of the keys."""
    strings: list[bytes] = keys.astype(">u8").view("V8").tolist()
    return strings


class RocksDB(Batched):
    """multi_get of what a bloom filter does not rule out, then one WriteBatch.

    Filters and indexes beside the cache, because in it a table's filter is larger than a shard and is read again for
    every key; blocks of 16 KiB; tables of 2 million keys made by SstFileWriter for the start.
    """

    name, module, package, immutable = "rocksdb", "rocksdict", "rocksdict", (".sst",)
    batch_links = 1 << 18

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._rocks = library(self.module, self.package)
        self._options = self._configured()
        self._db = self._rocks.Rdict(os.fspath(path / "rocks"), self._options)
        self._write = self._rocks.WriteOptions()
        self._write.disable_wal = True

    def _configured(self) -> Any:
        blocks = self._rocks.BlockBasedOptions()
        blocks.set_block_cache(self._rocks.Cache(self.ram_bytes // 2))
        blocks.set_bloom_filter(10, False)
        blocks.set_block_size(16 << 10)
        options = self._rocks.Options(raw_mode=True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_size(self.ram_bytes // 8)
        options.set_max_write_buffer_number(2)
        options.set_max_background_jobs(2)
        options.set_compression_type(self._rocks.DBCompressionType.none())
        options.set_level_compaction_dynamic_level_bytes(True)
        return options

    def check(self, keys: Keys) -> Keys:
        strings = byte_strings(keys)
        absent = np.fromiter((value is None for value in self._db.get(strings)), bool, len(strings))
        new = keys[absent]
        writes = self._rocks.WriteBatch(raw_mode=True)
        for string in byte_strings(new):  # the interface takes them one by one
            writes.put(string, b"")
        self._db.write(writes, self._write)
        return new

    def finish(self) -> None:
        super().finish()
        self._db.flush()

    def close(self) -> None:
        self._db.close()

    def seed(self, count: int) -> None:
        for keys in ascending(count, self.path, keys_of=self.keys_of):
            for start in range(0, len(keys), 2 * CHUNK):
                table = self._rocks.SstFileWriter(options=self._options)
                table.open(os.fspath(self.path / "seed.sst"))
                for string in byte_strings(keys[start : start + 2 * CHUNK]):
                    table[string] = b""
                table.finish()
                self._db.ingest_external_file([os.fspath(self.path / "seed.sst")])
        (self.path / "seed.sst").unlink(missing_ok=True)


class LMDB(Batched):
    """put without overwriting, in ascending order, tells what was new in one descent of the tree; getmulti and putmulti
    on a cursor take two and were slower by half. The map is written in place, its pages are the kernel's: LMDB has no
    setting for RAM, so the page cache it takes is beyond the setting of the others, and counts as resident."""

    name, module = "lmdb", "lmdb"
    bytes_from = "the device, reads; system calls and the device, writes"

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._env = library(self.module).open(
            os.fspath(path / "lmdb"), map_size=1 << 36, max_dbs=1, writemap=True, map_async=True, sync=False,
            metasync=False, lock=False, readahead=False, meminit=False,
        )  # fmt: skip
        self._keys = self._env.open_db(b"keys")

    def check(self, keys: Keys) -> Keys:
        with self._env.begin(write=True, db=self._keys) as transaction:
            put = transaction.put
            new = [put(key, b"", overwrite=False) for key in byte_strings(keys)]  # one by one: see the class
        return keys[np.array(new, dtype=bool)]

    def finish(self) -> None:
        super().finish()
        self._env.sync(True)

    def close(self) -> None:
        self._env.close()

    def seed(self, count: int) -> None:
        for keys in ascending(count, self.path, keys_of=self.keys_of):
            with self._env.begin(write=True, db=self._keys) as transaction:
                for start in range(0, len(keys), CHUNK):
                    rows = [(key, b"") for key in byte_strings(keys[start : start + CHUNK])]
                    transaction.cursor().putmulti(rows, append=True)
        self._env.sync(True)

    def traffic(self) -> tuple[int, int]:
        """A map is read by page faults, which only the device's counter sees; what the page cache holds is free."""
        io = process_io()
        return io["read_bytes"], max(io["wchar"], io["write_bytes"])


class SQLite(Batched):
    """INSERT OR IGNORE … SELECT FROM json_each RETURNING: a batch is one statement, no step of which is in Python; by
    way of a temporary table filled with executemany it took twice as long."""

    name = "sqlite"

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._db = sqlite3.connect(path / "sqlite.db", isolation_level=None)
        for pragma in (
            "page_size=8192", "journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "temp_store=MEMORY",
            f"cache_size=-{ram_bytes // 1024}",
        ):  # fmt: skip
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("CREATE TABLE IF NOT EXISTS seen (key INTEGER PRIMARY KEY) WITHOUT ROWID")

    def check(self, keys: Keys) -> Keys:
        array = str((keys ^ _SIGN).view(np.int64).tolist())
        rows = self._db.execute("INSERT OR IGNORE INTO seen SELECT value FROM json_each(?) RETURNING key", (array,))
        return np.array([key for (key,) in rows], dtype=np.int64).view(np.uint64) ^ _SIGN

    def finish(self) -> None:
        super().finish()
        descriptor = os.open(self.path / "sqlite.db", os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)

    def close(self) -> None:
        self._db.close()

    def seed(self, count: int) -> None:
        self._db.execute("BEGIN")
        for keys in ascending(count, self.path, keys_of=self.keys_of):
            rows = zip((keys ^ _SIGN).view(np.int64).tolist())
            self._db.executemany("INSERT INTO seen VALUES (?)", rows)
        self._db.execute("COMMIT")


class DuckDB(Batched):
    """An anti-join of a batch with the whole table, so the larger the batch the better."""

    name, module = "duckdb", "duckdb"
    batch_links = 1 << 22

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        settings = {"memory_limit": f"{ram_bytes >> 20}MiB", "threads": 1, "preserve_insertion_order": False}
        self._db = library(self.module).connect(os.fspath(path / "duck.db"), config=settings)
        self._db.execute("CREATE TABLE IF NOT EXISTS seen (key UBIGINT)")

    def check(self, keys: Keys) -> Keys:
        self._db.register("batch", {"key": keys})
        sql = "INSERT INTO seen SELECT key FROM batch ANTI JOIN seen USING (key) RETURNING key"
        new: Keys = np.asarray(self._db.execute(sql).fetchnumpy()["key"], dtype=np.uint64)
        self._db.unregister("batch")
        return new

    def finish(self) -> None:
        super().finish()
        self._db.execute("CHECKPOINT")

    def close(self) -> None:
        self._db.close()

    def seed(self, count: int) -> None:
        for keys in ascending(count, self.path, keys_of=self.keys_of):
            self._db.register("batch", {"key": keys})
            self._db.execute("INSERT INTO seen SELECT key FROM batch")
            self._db.unregister("batch")
        self._db.execute("CHECKPOINT")
