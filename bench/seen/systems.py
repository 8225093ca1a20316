"""What a seen-check must do to be measured here, whatever it is made of; how stores are copied."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bench.seen.stream import BATCH, Keys, KeysOf, Links, splitmix64

Deliver = Callable[[Keys], None]

INSTALL = "make bench-venv"


class Missing(Exception):
    """A library that this Python does not have."""

    def __init__(self, package: str) -> None:
        super().__init__(f"the package {package} is not installed: {INSTALL}")


class Refused(Exception):
    """A system that cannot do what was asked of it; says why."""


def library(module: str, package: str = "") -> Any:
    """An optional library, untyped, because it may be absent where types are checked."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Missing(package or module) from None


class System:
    """A set of keys in `path` that hands every new one to `deliver`, once.

    ram_bytes: what it may use for caches and buffers. Verdicts may be late: `rounds` counts the moments at which every
    link added so far had its verdict.
    """

    name: ClassVar[str]
    module: ClassVar[str] = ""  # an optional library, its package where that is called something else
    package: ClassVar[str] = ""
    seeded_as: ClassVar[str] = ""  # another system whose stores it can start from
    immutable: ClassVar[tuple[str, ...]] = ()  # suffixes of files never changed in place: a copy may share them
    on_disk: ClassVar[bool] = True
    takes_aux: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    bytes_from: ClassVar[str] = "system calls"  # what bytes_read and bytes_written count

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        self.path, self.ram_bytes, self.deliver = path, ram_bytes, deliver
        self.keys_of: KeysOf = splitmix64
        self.rounds = 0
        self.aux_emitted_bytes = 0
        self.merges = 0

    def add(self, links: Links) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Give every link its verdict and make the store durable."""

    def close(self) -> None:
        """Let go of the files."""

    def seed(self, count: int) -> None:
        """Fill the empty store with the keys of URLs 0 … count-1, by the fastest way it has."""
        raise NotImplementedError

    def traffic(self) -> tuple[int, int]:
        """Bytes read and written so far: here those of the process's read and write system calls, page cache or not."""
        io = process_io()
        return io["rchar"], io["wchar"]


class Batched(System):
    """A system that answers at once, and does best with many distinct keys in ascending order."""

    batch_links: ClassVar[int] = 1 << 20

    def __init__(self, path: Path, ram_bytes: int, deliver: Deliver) -> None:
        super().__init__(path, ram_bytes, deliver)
        self._waiting: list[Keys] = []

    def add(self, links: Links) -> None:
        self._waiting.append(links.keys)
        if sum(map(len, self._waiting)) >= self.batch_links:
            self._answer()

    def finish(self) -> None:
        if self._waiting:
            self._answer()

    def check(self, keys: Keys) -> Keys:
        """Ascending distinct keys: store those that are new and return them."""
        raise NotImplementedError

    def _answer(self) -> None:
        keys = np.concatenate(self._waiting)
        self._waiting = []
        self.deliver(self.check(distinct(keys)))
        self.rounds += 1


def distinct(keys: Keys) -> Keys:
    """The different keys, ascending; sorts `keys` in place."""
    keys.sort()
    keep = np.empty(len(keys), dtype=bool)
    keep[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=keep[1:])
    return keys[keep]


AT_ONCE = 1 << 24
"""Keys that are sorted in memory, without files."""


def ascending(count: int, scratch: Path, parts: int = 64, keys_of: KeysOf = splitmix64) -> Iterator[Keys]:
    """Keys of URLs 0 … count-1 in ascending order, at most count/parts at once: by way of a file for each part."""
    if count <= AT_ONCE:
        yield np.sort(keys_of(np.arange(count, dtype=np.uint64)))
        return
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(tempfile.TemporaryFile(dir=scratch, buffering=1 << 20)) for _ in range(parts)]
        for start in range(0, count, BATCH << 4):
            keys = keys_of(np.arange(start, min(start + (BATCH << 4), count), dtype=np.uint64))
            keys.sort()
            edges = np.searchsorted(keys, np.arange(1, parts, dtype=np.uint64) * np.uint64(2**64 // parts))
            for file, part in zip(files, np.split(keys, edges)):
                file.write(part.data)
        for file in files:
            file.seek(0)
            yield np.sort(np.frombuffer(file.read(), np.uint64))
            file.truncate(0)


def clone(source: Path, target: Path, immutable: tuple[str, ...]) -> None:
    """A copy of a store to run on: files that are never changed in place are shared."""

    def copy(old: str, new: str) -> str:
        if old.endswith(immutable) and immutable:
            os.link(old, new)
        else:
            subprocess.run(["cp", "--sparse=auto", old, new], check=True)  # keeps the holes of a map
        return new

    shutil.copytree(source, target, copy_function=copy)


def disk_bytes(path: Path) -> int:
    """What the files of a directory take on disk (blocks, so that holes do not count)."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def process_io() -> dict[str, int]:
    """/proc/self/io: rchar and wchar (system calls), read_bytes and write_bytes (the device)."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}
