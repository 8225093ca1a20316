"""What can still be read of a damaged crawl, piece by piece: repair.py makes a whole one of it.

Nothing here trusts an order or a count. A commit whose line is whole is believed, a block whose checksums are right is
believed, a line of the crawl log that parses and a unit of an archive that is whole are believed; the rest is skipped,
and counted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from drum import Batch, Damaged, Files
from drum.catalog import files_of, logs, parse_line
from drum.sectors import read_around
from drum.segment import Section, Segment

import numpy as np

from irlcrawl.base.job_files import SEGMENT, parse_harvest
from irlcrawl.base.keys import url_key
from irlcrawl.base.rows import CARRIED, LINK, PAGE
from irlcrawl.frontier.state import formats
from irlcrawl.frontier.state.start_checks import check_last_commit
from irlcrawl.upkeep.verify import next_record
from irlcrawl.worker.archive import log_parts, taken_down
from irlcrawl.worker.archive.crawl_log import BadLine, LogEntry, parse
from irlcrawl.worker.archive.log_parts import log_files, open_part
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.redo import RESPONSE, REVISIT, read_unit
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.archive.warc import WarcName

URL_COLUMNS = ("url", *CARRIED)


def catalogue(state: str, files: Files) -> tuple[dict[str, Any], bool]:
    """(key -> value of the commits that can be read, whether that is all of them). UnknownVersion; OSError."""
    try:
        catalog = formats.look(state, files)
        check_last_commit(catalog)
        return dict(catalog.items()), True
    except FileNotFoundError:
        return {}, False
    except Damaged:
        pass
    found: dict[str, Any] = {}
    names = logs(state, files)
    # Each begins with what the older ones told.
    data = b"\n".join(read_around(files, os.path.join(state, name)) for name in names)
    for line in data.split(b"\n"):
        record = parse_line(line)
        if record is not None:
            if "catalog" in record:
                found.clear()
            for key in record.get("drop", ()):
                found.pop(key, None)
            found.update(record.get("put", {}))
    formats.check(state, found.get("crawl"))
    if "crawl" not in found and (crawl := _garbled_identity(data)) is not None:
        found["crawl"] = crawl
    return found, False


def _garbled_identity(data: bytes) -> dict[str, Any] | None:
    """The entry `crawl` out of a line that is not whole. Its seed is believed when keys were made with it
    (`Segments.made_with`)."""
    match = re.search(rb'"crawl":(\{[^{}]*\})', data)
    try:
        crawl = json.loads(match[1]) if match else {}
    except ValueError:
        return None
    told = isinstance(crawl.get("seed"), int) and isinstance(crawl.get("id"), str)
    return crawl if told and isinstance(crawl.get("created"), (int, float)) else None


class Segments:
    """The segments of a state directory. `lost` counts blocks, and `files` names those with one, that are gone."""

    def __init__(self, state: str, files: Files, entries: dict[str, Any], whole: bool) -> None:
        self._state, self._files = state, files
        self.lost: dict[str, int] = {}
        named = {name for value in entries.values() for name in files_of(value)}
        there = {name for name in files.listdir(state) if name.endswith(SEGMENT)}
        # With a whole catalogue: what it names, and harvests it has not got yet. Else: whatever there is.
        self.names = sorted(there if not whole else (there & named) | {n for n in there if parse_harvest(n)})
        self.lost.update((name, 1) for name in named - there)
        self._open: dict[str, Segment | None] = {}

    def segment(self, name: str) -> Segment | None:
        """None when its directory cannot be read."""
        if name not in self._open:
            try:
                self._open[name] = Segment.open(self._files, os.path.join(self._state, name))
            except (Damaged, FileNotFoundError):
                self._open[name] = None
                self.lost[name] = self.lost.get(name, 0) + 1
        return self._open[name]

    def section(self, file: str, name: str) -> Section | None:
        segment = self.segment(file)
        return None if segment is None else segment.sections.get(name)

    def blocks(self, section: Section) -> Iterator[Batch]:
        """The blocks of a section that can be read."""
        for block in range(len(section.blocks)):
            try:
                yield section.read(block)
            except Damaged as error:
                name = os.path.basename(error.file)
                self.lost[name] = self.lost.get(name, 0) + 1

    def urls(self) -> Iterator[Batch]:
        """URL_COLUMNS of every row that is a URL, done or not, some more than once."""
        for name in self.names:
            segment = self.segment(name)
            for section in segment.sections.values() if segment is not None else ():
                if all(column in section.schema for column in URL_COLUMNS):
                    yield from (batch.select(URL_COLUMNS) for batch in self.blocks(section))

    def pages(self) -> Iterator[Batch]:
        """LINK and PAGE of every row of a page that was visited, with `due` as it rests (0: it does not); some pages
        more than once, as they were at several times."""
        for name in self.names:
            segment = self.segment(name)
            for section in segment.sections.values() if segment is not None else ():
                if all(column in section.schema for column in (*LINK, *PAGE)):
                    for batch in self.blocks(section):
                        rows = batch if "due" in batch else batch.with_(due=np.zeros(batch.rows, np.uint32))
                        yield rows.select([*LINK, *PAGE, "due"]).filter(rows["visits"] > 0)

    def made_with(self, seed: int) -> bool:
        """Whether keys of the first URLs that can be read are those of this seed; True when there are none."""
        for name in self.names:
            segment = self.segment(name)
            for section in segment.sections.values() if segment is not None else ():
                if all(column in section.schema for column in ("key", "site", "host", "url")):  # LINK
                    for batch in self.blocks(section):
                        url, site = batch["url"].tolist()[0], int(batch["site"][0])
                        return url_key(url, seed, site) == int(batch["key"][0])
        return True

    def slices(self, entries: dict[str, Any], drum: str) -> Iterator[Batch]:
        """The stored rows of a drum, oldest first, so that the last of a key counts."""
        for _, bucket in sorted(item for item in entries.items() if item[0].startswith(f"drum/{drum}/bucket/")):
            for file, name, _ in bucket["slices"]:
                section = self.section(file, name)
                if section is None:
                    self.lost[file] = self.lost.get(file, 0) + 1
                    continue
                for batch in self.blocks(section):
                    keys = batch["key"]
                    yield batch.filter((keys >= bucket["lo"]) & (keys <= bucket["hi"]))

    def listed(self, entries: dict[str, Any], prefix: str) -> Iterator[Batch]:
        """The rows of a list of sections (clocks, scope), oldest first."""
        for _, ref in sorted(item for item in entries.items() if item[0].startswith(prefix)):
            section = self.section(ref["file"], ref["section"])
            if section is not None:
                yield from self.blocks(section)


def log_lines(files: Files, path: str) -> Iterator[tuple[str, bytes, LogEntry]]:
    """(file, line, entry) of every line of the crawl log that can be read, in order."""
    for part in log_files(files, path) if os.path.isdir(os.path.dirname(path)) else ():
        try:
            for chunk in log_parts.chunks(open_part(files, part)):
                for text in log_parts.lines_of(chunk):
                    try:
                        yield part, text, parse(text)
                    except BadLine:
                        continue
        except Damaged:
            continue  # the rest of this part is gone; what the archives hold of it is taken from there


def units(files: Files, path: str) -> Iterator[tuple[Unit, Exchange | None, Location]]:
    """Every whole unit of an archive, also behind what is damaged."""
    file = WarcName.parse(os.path.basename(path))
    if file is None:
        return
    size, at, parts = files.size(path), 0, list[Record]()
    while at < size:
        try:
            for record in records(files, path, at):
                at = record.end
                if record.kind == "warcinfo":
                    continue
                parts.append(record)
                if record.unit is not None:
                    two = record.kind in (RESPONSE, REVISIT) or taken_down.since(record)
                    whole = len(parts) == (2 if two else 1)
                    if whole:
                        yield _unit(files, parts, path, file)
                    parts = []
        except Damaged as error:
            parts = []
            at = next_record(files, path, error.offset + 1 if error.offset >= at else at, size)


def _unit(files: Files, parts: list[Record], path: str, file: WarcName) -> tuple[Unit, Exchange | None, Location]:
    """Without its payload if the record that holds it is damaged: its links are lost, and its outcome is not."""
    try:
        return read_unit(parts, path, file, files)
    except Damaged:
        return read_unit(parts, path, file, None)
