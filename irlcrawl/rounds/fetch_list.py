"""The file of a list: a segment (drum/FORMAT.md) with the sections `ready` and `runs`, as a ready segment has them
(frontier/state/runs.py), and `list`, whose meta says everything else that a machine without the crawl must know.

`until` is unix seconds; `wait` of a run is how many seconds at least its host is left alone first, from the moment a
fetch begins: durations travel, because that moment comes after the list was made, and the clocks of two machines are
never compared for it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from drum import Batch, Damaged, Files, SegmentWriter
from drum.segment import Segment

from irlcrawl.frontier.state.runs import BLOCK_ROWS, RUN

WAITING_RUN = {**RUN, "wait": "f8"}
"""The index of a list: a row per host."""
LIST = "list.seg"
"""Under this name a copy of the list lies in the directory of a fetch, in state/."""
READY, RUNS, HEAD = "ready", "runs", "list"


@dataclass(frozen=True, slots=True)
class Head:
    """What a list says beside its URLs."""

    crawl: str  # the crawl's id
    id: str  # the list's own
    segment: int
    until: float  # the crawl takes its URLs back then
    first: int  # of its `streams` streams
    streams: int
    seed: int
    config: dict[str, Any]  # config/toml.py: to_dict
    scope_entries: list[str]


def list_name(segment: int) -> str:
    """The file of a list."""
    return f"list-{segment:06d}.seg"


def write(files: Files, path: str, head: Head, urls: Batch, index: Batch) -> None:
    """A list's file, complete and on the disk under `path`. urls: LINK, or LINK and PAGE, sorted by host; index:
    WAITING_RUN. OSError."""
    with SegmentWriter(files, path) as writer:
        writer.section(READY, urls.schema, block_rows=BLOCK_ROWS).append(urls)
        writer.section(RUNS, WAITING_RUN).append(index)
        writer.section(HEAD, {"segment": "u4"}, meta=asdict(head))


def head_of(files: Files, path: str) -> Head:
    """OSError; Damaged, also for a file of another kind."""
    sections = Segment.open(files, path).sections
    if HEAD not in sections or READY not in sections or RUNS not in sections:
        raise Damaged(path, 0, "not a list that `generate` wrote")
    return Head(**sections[HEAD].meta)
