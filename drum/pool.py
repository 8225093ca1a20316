"""Which segments are open: as many as are read, and no more than were asked for.

An open segment costs a descriptor and its directory in memory. Sections that a writer has ended can be read here under
the name their file will have, before it is finished.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from drum.files import Damaged, Files, Path
from drum.segment import Section, Segment
from drum.writer import SegmentWriter


class Sizes(NamedTuple):
    """In bytes: of a whole file, and of each of its sections."""

    file: int
    sections: dict[str, int]


class SegmentPool:
    """Opens the segments of one directory as they are needed and keeps the `open_max` last used open. Any thread."""

    def __init__(self, files: Files, root: Path, open_max: int = 64) -> None:
        self.files, self.root, self.open_max = files, os.fspath(root), open_max
        self._open: OrderedDict[str, Segment] = OrderedDict()
        self._writers: dict[str, SegmentWriter] = {}
        self._sizes: dict[str, Sizes] = {}
        self._lock = threading.Lock()

    @property
    def files_open(self) -> int:
        """At most open_max."""
        return len(self._open)

    def segment(self, file: str) -> Segment:
        with self._lock:
            segment = self._open.get(file)
            if segment is None:
                segment = self._open[file] = Segment.open(self.files, os.path.join(self.root, file))
            self._open.move_to_end(file)
            while len(self._open) > self.open_max:
                self._open.popitem(last=False)  # closed when whoever still reads it lets go
            return segment

    def section(self, file: str, section: str) -> Section:
        """A section by the names a catalogue entry gives. Damaged when the file, whole in itself, is not the one that
        was named."""
        with self._lock:
            writer = self._writers.get(file)
            if writer is not None and writer.state == "open":
                return writer.sections[section].end()
            self._writers.pop(file, None)
        sections = self.segment(file).sections
        if section not in sections:
            path = os.path.join(self.root, file)
            raise Damaged(path, 0, f"has no section {section!r}, which the catalogue names, only {', '.join(sections)}")
        return sections[section]

    def sizes(self, file: str) -> Sizes:
        """Of a file that is finished. They are remembered until it is deleted: to ask it of all files at once, more
        than may be open, would open every one of them each time."""
        known = self._sizes.get(file)
        if known is None:
            segment = self.segment(file)
            sections = {name: section.nbytes for name, section in segment.sections.items()}
            known = self._sizes[file] = Sizes(segment.bytes, sections)
        return known

    def adopt(self, writer: SegmentWriter) -> None:
        """Let sections that `writer` has ended be read under the file's coming name before it is finished."""
        with self._lock:  # a writer that is done would keep its file open
            self._writers = {name: one for name, one in self._writers.items() if one.state == "open"}
            self._writers[writer.name] = writer

    def forget(self, files: Iterable[str]) -> None:
        """Let go of files that were deleted."""
        with self._lock:
            for file in files:
                self._open.pop(file, None)
                self._writers.pop(file, None)
                self._sizes.pop(file, None)

    def close(self) -> None:
        with self._lock:
            self._open.clear()
            self._writers.clear()
