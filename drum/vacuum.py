"""Keeping few and full files: sections of files that are mostly dead move, as bytes, into the file being written.

A turn writes one file with a section for each of many things, and those die at different times; one small section that
lives long would keep a large file. Whatever names sections (a `Holder`) says which, and is told where they went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from drum.catalog import Edits
from drum.pool import SegmentPool
from drum.writer import SegmentWriter

Place: TypeAlias = tuple[str, str]
"""(file, section)"""

LIVE_SHARE_LEAST = 0.25
FILES_MAX = 256
FILES_AT_ONCE = 64
BYTES_MAX = 16 << 20


class Holder(Protocol):
    """Something that names sections in the catalogue."""

    def places(self) -> Iterable[Place]: ...

    def moved(self, edits: Edits, to: Mapping[Place, Place]) -> None:
        """Some of its sections are elsewhere now: name them there. Places it does not hold are none of its business."""
        ...


def vacuum(
    pool: SegmentPool,
    writer: SegmentWriter,
    holders: Iterable[Holder],
    *,
    files_max: int = FILES_MAX,
    bytes_max: int = BYTES_MAX,
) -> dict[Place, Place]:
    """Copy the live sections of files under a quarter live into `writer`, and of the smallest files when there are
    more than `files_max`; about `bytes_max` at once. Returns old place -> new place.

    Tell every holder (`moved`) when the writer has finished and before the commit; the files that were left lose their
    last name with it. Damaged when a section's bytes are not what was written.
    """
    live: dict[str, set[str]] = {}
    for holder in holders:
        for file, section in holder.places():
            if file != writer.name:
                live.setdefault(file, set()).add(section)
    known = {file: pool.sizes(file) for file in live}
    sizes = {file: sum(known[file].sections.get(section, 0) for section in live[file]) for file in live}
    sparse = [file for file in live if sizes[file] < LIVE_SHARE_LEAST * known[file].file]
    if len(live) - len(sparse) > files_max:
        rest = sorted(set(live) - set(sparse), key=lambda file: sizes[file])
        sparse += rest[:FILES_AT_ONCE]
    moves: dict[Place, Place] = {}
    moved_bytes = 0
    for file in sorted(sparse, key=lambda file: sizes[file]):
        moved_bytes += sizes[file]
        if moved_bytes > bytes_max and moves:
            break
        for section in sorted(live[file]):
            name = f"moved.{len(writer.sections)}"
            writer.copy(pool.section(file, section), name)
            moves[file, section] = (writer.name, name)
    return moves
