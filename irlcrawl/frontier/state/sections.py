"""The small logs of a crawl: the crawl log people read, the committed clocks, the entries of the scope."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drum import Batch, Catalog, Damaged, Edits, Files, Place, Ragged, SegmentPool, SegmentWriter

from isal import isal_zlib

from irlcrawl.base.job_files import COMPRESSED, part_name, temporary
from irlcrawl.base.rows import SCOPE_ENTRY
from irlcrawl.frontier.politeness.clocks import CLOCK, fold
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive.log_parts import Plain, ended_before, rolled_parts

CLOCK_SECTIONS_MAX = 8


class CrawlLog:
    """logs/crawl.log: appended by turns, as long as the catalogue says; what a crash left behind that is cut.

    At `roll_bytes` it becomes `crawl.log.N` and a new one begins. The commit that says so may not come: opening then
    takes the name back. A part is compressed once its roll is committed, which it is when the next lines come.
    """

    def __init__(self, files: Files, path: str, committed: Mapping[str, int], roll_bytes: int) -> None:
        self._files, self._path, self._roll_bytes = files, path, roll_bytes
        self.bytes = committed.get("bytes", 0)
        self.part = committed.get("part", 0)
        self._crc = committed.get("crc", 0)
        # Of the newest part, until it is compressed and has a checksum of its own:
        self._rolled_bytes, self._rolled_crc = committed.get("rolled_bytes", 0), committed.get("rolled_crc")
        self._directory = os.path.dirname(path)
        self._rolled = [
            part for number, part in rolled_parts(files, path).items()
            if number <= self.part and not part.endswith(COMPRESSED)
        ]  # fmt: skip
        newest = self._part(self.part)
        if newest in self._rolled and files.size(newest) < self._rolled_bytes:
            raise Damaged(newest, files.size(newest), ended_before(self._rolled_bytes))
        if files.exists(self._part(self.part + 1)):
            files.rename(self._part(self.part + 1), path)
        size = files.size(path) if files.exists(path) else 0
        if size < self.bytes:
            raise Damaged(path, size, ended_before(self.bytes))
        self._handle = files.append(path)
        files.fsync_dir(self._directory)
        if size > self.bytes:
            files.truncate(self._handle, self.bytes)

    def append(self, lines: list[bytes], more: bool = False) -> None:
        """Write lines, one or more in each piece, durable on return. The turn before this one was committed; more: this
        one wrote lines before."""
        if not lines:
            return
        if not more:
            self._tidy()
        data = b"\n".join(lines) + b"\n"
        self._files.write(self._handle, data)
        self._files.fsync(self._handle)
        self.bytes += len(data)
        self._crc = zlib.crc32(data, self._crc)

    def put_aside(self, commit: Callable[[], None]) -> None:
        """Make compressed parts of all that was written (roll_bytes is 1). commit(): commits `entry`."""
        for _ in range(2):
            self._tidy()
            commit()

    def _tidy(self) -> None:
        for part in self._rolled:
            self._compress(part)
        self._rolled.clear()
        self._rolled_crc = None
        if self.bytes >= self._roll_bytes:
            self._roll()

    def entry(self) -> dict[str, int]:
        """What a commit says of it: parts rolled away, bytes of the newest file and the CRC-32 of those bytes, and both
        of the newest part as long as it is plain text."""
        entry = {"part": self.part, "bytes": self.bytes, "crc": self._crc}
        if self._rolled_crc is None:
            return entry
        return {**entry, "rolled_bytes": self._rolled_bytes, "rolled_crc": self._rolled_crc}

    def _roll(self) -> None:
        rolled = self._handle  # open until there is another: what fails here is closed by who closes the log
        self.part += 1
        self._files.rename(self._path, self._part(self.part))
        self._handle = self._files.append(self._path)
        self._files.close(rolled)
        self._files.fsync_dir(self._directory)
        self._rolled.append(self._part(self.part))
        self._rolled_bytes, self._rolled_crc = self.bytes, self._crc
        self.bytes = self._crc = 0

    def _compress(self, path: str) -> None:
        """`path`.gz in the place of `path`, without what lies behind its committed bytes. (The file itself is not cut:
        a snapshot may share it.)"""
        files, packer = self._files, isal_zlib.compressobj(1, wbits=31)
        target, source = path + COMPRESSED, Plain(files, path)
        known = path == self._part(self.part) and self._rolled_crc is not None
        left = self._rolled_bytes if known else files.size(path)
        new = temporary(target)
        files.unlink(new, missing_ok=True)
        handle = files.create(new)
        crc = 0
        try:
            while data := source.read()[:left]:
                left -= len(data)
                crc = zlib.crc32(data, crc)
                files.write(handle, packer.compress(data))
            if known and self._rolled_crc != crc:
                raise Damaged(path, 0, "a part of the crawl log without the checksum it had")
            files.write(handle, packer.flush())
            files.fsync(handle)
        finally:
            files.close(handle)
            source.close()
        files.rename(new, target)
        files.fsync_dir(self._directory)
        files.unlink(path)

    def _part(self, number: int) -> str:
        return part_name(self._path, number)

    def close(self) -> None:
        self._files.close(self._handle)


class SectionList:
    """Sections in the order they were written, a catalogue entry `PREFIX/NUMBER` each."""

    def __init__(self, prefix: str, catalog: Catalog, pool: SegmentPool) -> None:
        self._prefix, self._pool = prefix, pool
        self._refs: dict[int, dict[str, Any]] = {
            int(key.split("/")[1]): ref for key, ref in catalog.items(prefix + "/")
        }

    def __len__(self) -> int:
        return len(self._refs)

    def batches(self) -> Iterator[Batch]:
        for _, ref in sorted(self._refs.items()):
            yield from self._pool.section(ref["file"], ref["section"]).scan()

    def append(self, edits: Edits, writer: SegmentWriter, section: str) -> None:
        self._put(edits, max(self._refs, default=-1) + 1, (writer.name, section))

    def take_in(self, edits: Edits, place: Place) -> None:
        """Name a section that another file has."""
        self._put(edits, max(self._refs, default=-1) + 1, place)

    def first(self, number: int) -> list[Place]:
        """The first sections that it names, as many as `number` at most."""
        return [(ref["file"], ref["section"]) for _, ref in sorted(self._refs.items())[:number]]

    def remove_first(self, edits: Edits, number: int) -> None:
        for at in sorted(self._refs)[:number]:
            edits.remove(self._key(at))
            del self._refs[at]

    def clear(self, edits: Edits) -> None:
        for number in self._refs:
            edits.remove(self._key(number))
        self._refs.clear()

    def places(self) -> Iterator[Place]:
        """Every section it names (drum.vacuum.Holder)."""
        for ref in self._refs.values():
            yield ref["file"], ref["section"]

    def moved(self, edits: Edits, to: Mapping[Place, Place]) -> None:
        """Sections are elsewhere now (drum.vacuum.Holder)."""
        for number, ref in list(self._refs.items()):
            place = to.get((ref["file"], ref["section"]))
            if place is not None:
                self._put(edits, number, place)

    def _put(self, edits: Edits, number: int, place: Place) -> None:
        self._refs[number] = {"file": place[0], "section": place[1]}
        edits.set(self._key(number), self._refs[number])

    def _key(self, number: int) -> str:
        return f"{self._prefix}/{number:09d}"


class ClockLog:
    """The committed clocks: a section per commit that moved one, folded into one when there are several. Their dates
    are at rest (clock_set.py)."""

    def __init__(self, catalog: Catalog, pool: SegmentPool) -> None:
        self.list = SectionList("clocks", catalog, pool)

    def add(self, writer: SegmentWriter, edits: Edits, rows: Batch, now: float) -> None:
        if len(self.list) >= CLOCK_SECTIONS_MAX:
            rows = fold([*self.list.batches(), rows], now)
            self.list.clear(edits)
        writer.section("clocks", CLOCK).append(rows)
        self.list.append(edits, writer, "clocks")


class ScopeLog:
    """What seeds and their redirects opened: the entries of the crawl's Scope, committed as they come."""

    def __init__(self, catalog: Catalog, pool: SegmentPool) -> None:
        self.list = SectionList("scope", catalog, pool)

    def entries(self) -> list[bytes]:
        return [entry for batch in self.list.batches() for entry in batch["entry"].tolist()]

    def add(self, scope: Scope, writer: Callable[[], SegmentWriter], edits: Edits, entries: list[bytes]) -> list[bytes]:
        """Take entries into `scope`; those that were new are written and returned."""
        new = [entry for entry in dict.fromkeys(entries) if scope.add([entry])]
        if new:
            writer().section("scope", SCOPE_ENTRY).append(Batch({"entry": Ragged.from_list(new)}))
            self.list.append(edits, writer(), "scope")
        return new
