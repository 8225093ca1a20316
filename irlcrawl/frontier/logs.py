"""The small logs of a crawl: the crawl log people read, the committed clocks, the entries of the scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drum import Batch, Catalog, Damaged, Edits, Files, Place, Ragged, SegmentPool, SegmentWriter
from irlcrawl.frontier.clocks import CLOCK, fold
from irlcrawl.rows import SCOPE_ENTRY
from irlcrawl.scope import Scope

CLOCK_SECTIONS_MAX = 8


class CrawlLog:
    """logs/crawl.log: appended by turns, as long as the catalogue says; what a crash left behind that is cut."""

    def __init__(self, files: Files, path: str, committed: int) -> None:
        self._files = files
        self._handle = files.append(path)
        size = files.size(self._handle)
        if size < committed:
            raise Damaged(path, size, f"the crawl log ends before {committed}, up to where it was committed")
        if size > committed:
            files.truncate(self._handle, committed)
        self.bytes = committed

    def append(self, lines: list[bytes]) -> None:
        """Write lines, durable on return."""
        if not lines:
            return
        data = b"\n".join(lines) + b"\n"
        self._files.write(self._handle, data)
        self._files.fsync(self._handle)
        self.bytes += len(data)

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
    """The committed clocks: a section per commit that moved one, folded into one when there are several."""

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

    def add(
        self, scope: Scope, writer: Callable[[], SegmentWriter], edits: Edits, entries: list[bytes]
    ) -> list[bytes]:
        """Take entries into `scope`; those that were new are written and returned."""
        new = [entry for entry in dict.fromkeys(entries) if scope.add([entry])]
        if new:
            writer().section("scope", SCOPE_ENTRY).append(Batch({"entry": Ragged.from_list(new)}))
            self.list.append(edits, writer(), "scope")
        return new
