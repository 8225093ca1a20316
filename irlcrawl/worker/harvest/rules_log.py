"""The texts of robots.txt that a worker met: one append-only log per stream, which leases and host records point into.

`robots-SSSS.log` in JOB/state: a header (`irlROBO`, newline, u32 version 1, u32 key function), then u32 length, u64
xxh3 of the text, the text. Facts, leases and host records point to a text by [log, offset, length]. It is on the disk
before a harvest names it; any process may read it.

A crawl that runs for weeks asks each host again and again, so a log must not grow with that. A text that the log holds
is not written again; and a log that is large, or that nobody wrote to for a day, is followed by another *part* of the
same stream (its number: the part, then six digits for the stream). A record is good for a day at most, and points to a
log that was written to within the day before: so no record that counts points to a log that nobody wrote to for two
days, and it is deleted (`drop_old` at a start, crawl/old_rules.py while the crawl runs).
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence

from drum import Damaged, Files, UnknownVersion
from drum.codec import KEY_FUNCTION

import xxhash

from irlcrawl.base.clock import Clock, SystemClock
from irlcrawl.base.job_files import parse_rules_log, rules_log_name
from irlcrawl.config.keys import ROBOTS_FRESH_S_MAX

Pointer = tuple[int, int, int]
"""(log, offset, length) of a text in a robots log."""

_RECORD = struct.Struct("<IQ")
RECORD_BYTES = _RECORD.size
"""Before a text."""
RULES_MAGIC, RULES_VERSION = b"irlROBO\n", 1
RULES_HEADER = RULES_MAGIC + struct.pack("<II", RULES_VERSION, KEY_FUNCTION)
TEXT_MAX = 64 << 20  # far above any robots.bytes_max: how far a text is looked for whose length does not fit
PART = 1_000_000
"""The number of a log is PART times its part, and the stream."""
PARTS_MAX = (1 << 32) // PART - 1
ROLL_BYTES = 16 << 20
"""A log of this size is followed by the stream's next part."""
KNOWN_MAX = 1 << 15
"""Texts of a log that are remembered, so as not to be written again; about 200 bytes each."""
BLOCK = 512  # what a disk writes whole, at least


class TornText(Damaged):
    """A robots.txt text with zeros for its checksum or for a whole block: power went before they were written. It was
    not synced then, so no harvest names it or what follows it."""


class RulesLog:
    """The robots logs of one stream, for their writer; `read` serves every log to anyone."""

    def __init__(self, files: Files, state_dir: str, stream: int, clock: Clock | None = None) -> None:
        self._files, self._dir, self._clock = files, state_dir, clock or SystemClock()
        self._stream = stream
        self._number = stream
        self._handle: int | None = None
        self._offset = 0
        self._written = 0.0  # unix seconds: when a text was written last
        self._synced = True
        self._rolled: list[int] = []  # handles of earlier parts, to be synced
        # By digest: a server that could make a text with the key of another's would have its rules taken for those.
        self._known: dict[bytes, Pointer] = {}

    def append(self, text: bytes) -> Pointer:
        """Write a text, unless this log has it; readable at once, on the disk after sync()."""
        now = self._clock.now()
        if self._handle is None:
            self._open(max(self._parts(), default=0))
        elif self._offset >= ROLL_BYTES or now - self._written > ROBOTS_FRESH_S_MAX:
            self._roll()
        digest = hashlib.blake2b(text, digest_size=16).digest()
        if (known := self._known.get(digest)) is not None:
            return known
        pointer = self._known[digest] = self._write(text)
        self._written = now
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return pointer

    def _parts(self) -> list[int]:
        """Those of the stream that are there, ascending."""
        numbers = (parse_rules_log(name) for name in self._files.listdir(self._dir))
        return sorted(number // PART for number in numbers if number is not None and number % PART == self._stream)

    def _open(self, part: int) -> None:
        self._number = part * PART + self._stream
        self._handle = self._files.append(self._path)
        self._offset = self._begin(self._handle)

    @property
    def _path(self) -> str:
        return os.path.join(self._dir, rules_log_name(self._number))

    def _roll(self) -> None:
        part = self._number // PART
        if part < PARTS_MAX and self._handle is not None:
            self._rolled.append(self._handle)
            self._known.clear()
            self._open(part + 1)

    def _write(self, text: bytes) -> Pointer:
        assert self._handle is not None
        pointer = (self._number, self._offset, len(text))
        self._files.write(self._handle, _RECORD.pack(len(text), xxhash.xxh3_64_intdigest(text)) + text)
        self._offset += _RECORD.size + len(text)
        self._synced = False
        return pointer

    def _begin(self, handle: int) -> int:
        """Where the next text goes: behind the header, or (in recovery) behind the last whole text of a dead writer."""
        size, whole = self._files.size(handle), 0
        try:
            for _, end in self.texts(self._files, self._path) if size else ():
                whole = end
        except TornText:
            pass
        if not whole:
            self._files.truncate(handle, 0)
            self._files.write(handle, RULES_HEADER)
            return len(RULES_HEADER)
        if whole < size:
            self._files.truncate(handle, whole)
        return whole

    def recover(self) -> None:
        """Cut what a dead writer left behind its last whole text, if it had a log, and keep the rest for good."""
        for part in self._parts():
            self.close()
            self._open(part)
            assert self._handle is not None
            self._files.fsync(self._handle)
        self._written = self._clock.now()

    def sync(self) -> None:
        """Nothing when nothing was written since the last one."""
        while self._rolled:
            handle = self._rolled.pop()
            self._files.fsync(handle)
            self._files.close(handle)
        if self._handle is not None and not self._synced:
            self._synced = True
            self._files.fsync(self._handle)

    def close(self) -> None:
        while self._rolled:
            self._files.close(self._rolled.pop())
        if self._handle is not None:
            self._files.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    @staticmethod
    def read(files: Files, state_dir: str, pointer: Sequence[int]) -> bytes:
        """The text a pointer names. Damaged when it is not there as it was written; OSError."""
        log, offset, length = pointer
        path = os.path.join(state_dir, rules_log_name(log))
        handle = files.open(path)
        try:
            record = files.pread(handle, _RECORD.size + length, offset)
        finally:
            files.close(handle)
        text = record[_RECORD.size :]
        if len(text) != length or _RECORD.unpack_from(record) != (length, xxhash.xxh3_64_intdigest(text)):
            raise Damaged(path, offset, f"no robots.txt text of {length} bytes here")
        return text

    @staticmethod
    def texts(files: Files, path: str) -> Iterator[tuple[bytes, int]]:
        """(text, where its record ends) of a log, in order; one that a crash cut short is none. UnknownVersion;
        Damaged, TornText; OSError."""
        handle = files.open(path)
        try:
            size = files.size(handle)
            at = _rules_begin(files.pread(handle, len(RULES_HEADER), 0), path)
            while at + _RECORD.size <= size:
                head = files.pread(handle, _RECORD.size, at)
                length, checksum = _RECORD.unpack(head)
                text = files.pread(handle, min(length, size - at - _RECORD.size), at + _RECORD.size)
                if len(text) < length:
                    if _has_prefix(text[:TEXT_MAX], checksum):
                        raise Damaged(path, at, "a robots.txt text with a wrong length")
                    return
                if xxhash.xxh3_64_intdigest(text) != checksum:
                    torn = not checksum or _has_zero_block(head + text, at)
                    raise (TornText if torn else Damaged)(path, at, "a robots.txt text with a wrong checksum")
                at += _RECORD.size + length
                yield text, at
        finally:
            files.close(handle)

    @staticmethod
    def drop_old(files: Files, state_dir: str, before: float, set_since: Callable[[int], float]) -> list[str]:
        """Delete the logs nobody has written to since `before` (unix seconds): every answer in them has expired.
        set_since: seconds by which the system's clock was set forward since the run of a stream."""
        old = [
            name
            for name in files.listdir(state_dir)
            if (number := parse_rules_log(name)) is not None
            and files.modified(f"{state_dir}/{name}") + set_since(number % PART) < before
        ]
        for name in old:
            files.unlink(f"{state_dir}/{name}")
        return old


def _rules_begin(head: bytes, path: str) -> int:
    """Where the first text of a robots log begins, whose first bytes are `head`. UnknownVersion; Damaged, TornText."""
    if head != RULES_HEADER[: len(head)]:
        version = int.from_bytes(head[8:12], "little")
        if head.startswith(RULES_MAGIC) and RULES_VERSION < version < 1 << 16 and head.endswith(RULES_HEADER[-4:]):
            raise UnknownVersion(path, version, str(RULES_VERSION))
        if not head.strip(b"\0"):
            raise TornText(path, 0, "a robots log with zeros for its header")
        wrong = next(at for at, (byte, ours) in enumerate(zip(head, RULES_HEADER)) if byte != ours)
        raise Damaged(path, wrong, "not the header of a robots log")
    return len(RULES_HEADER)


def _has_prefix(data: bytes, checksum: int) -> bool:
    """Whether `data` begins with a text of that checksum: it is whole then, and no crash cut it short."""
    found = xxhash.xxh3_64()
    for at in range(len(data) + 1):  # once per torn end of a log: a loop over the bytes of one text
        if found.intdigest() == checksum:
            return True
        found.update(data[at : at + 1])
    return False


def _has_zero_block(record: bytes, at: int) -> bool:
    """Whether a block of the disk has nothing but zeros where it holds a part of the record at offset `at`."""
    ends = [*range(BLOCK - at % BLOCK, len(record), BLOCK), len(record)]
    return any(not record[begin:end].strip(b"\0") for begin, end in zip([0, *ends], ends))
