"""A table in a directory, a file an archive, made bit by bit: each export adds the archives that were closed since.

`export.state` in the directory says what was exported and how: a line of JSON first, then one for each archive whose
file is whole. A torn last line counts for nothing. An archive that was changed since is exported anew; the file of one
that was moved away stays; one that is damaged is left out, and tried again by the next export. So an export that was
interrupted goes on, and one that runs beside a crawl can be repeated for as long as the crawl runs. One export at a
time writes there: it holds a lock on `export.state`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, BinaryIO, NamedTuple

from drum.files import Damaged, Files

from irlcrawl.base.job import JobError
from irlcrawl.base.job_files import warc_stem
from irlcrawl.config.keys import ConfigError
from irlcrawl.export import links, listed, pages
from irlcrawl.export.archives import Archive, captures
from irlcrawl.export.formats import JSON_LINES, Writer, open_file
from irlcrawl.export.graph_edges import edge_lines
from irlcrawl.export.originals import Indexes, Originals
from irlcrawl.export.processes import each
from irlcrawl.export.table import LINKS, LISTED, Column, Row
from irlcrawl.terminal.progress import Bar

STATE = "export.state"
VERSION = 4
NEVER = 0
"""The time of modification of an archive that is exported anew by the next export."""
TEMPORARY = "unfinished-"
"""Begins the names of directories for what lies between; a killed export leaves them to the next one."""


class Plan(NamedTuple):
    """The tables and files that an export of archives makes. It is plain data: processes get it."""

    what: str  # pages, links, listed or graph (its edges, archive by archive)
    format: str = JSON_LINES
    asked: pages.Asked = pages.Asked()  # of links, whether PDFs and originals are read; of a graph, whether originals
    crawl: str = ""  # Common Crawl's partitions crawl=NAME/subset=...; empty: none
    hosts: bool = False  # of a graph: between hosts, not sites

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.what == "listed":
            return LISTED
        return LINKS if self.what == "links" else pages.columns(self.asked)

    @classmethod
    def told(cls, line: dict[str, Any]) -> Plan:
        """The plan in the first line of a state. TypeError for what is none."""
        values = {name: line[name] for name in cls._fields if name in line}
        return cls(**{**values, "asked": pages.Asked(*values.get("asked", ()))})

    def command(self) -> str:
        """As a person asks for it."""
        named = {"text": self.asked.text, "language": self.asked.language, "pdf": self.asked.pdf,
                 "originals": self.asked.originals, "by host": self.hosts, f"crawl {self.crawl}": self.crawl,
                 f"format {self.format}": self.format != JSON_LINES}  # fmt: skip
        return " ".join(["export", self.what, *(f"--{name}" for name, given in named.items() if given)])


def rows(plan: Plan, archive: Archive, indexes: Indexes | None = None) -> Iterator[tuple[str, Row]]:
    """(subset, row) of everything in an archive. indexes: of all archives, to find originals. Damaged, OSError,
    JobError."""
    found = captures(Files(), archive)
    originals = _originals(indexes) if indexes is not None else None
    if plan.what == "links":
        return ((pages.WARC, row) for capture in found for row in links.rows_of(capture, plan.asked.pdf, originals))
    if plan.what == "listed":
        return ((pages.WARC, row) for capture in found for row in listed.rows_of(capture))
    return pages.rows(found, archive, plan.asked, originals)


@lru_cache(maxsize=1)
def _originals(indexes: Indexes) -> Originals:
    """Once a process, not once an archive."""
    return Originals(indexes, Files())


class Exported(NamedTuple):
    """What the rows of an archive were made of: archives, itself among them, as (bytes, time of modification)."""

    of: dict[str, tuple[int, int]]

    @classmethod
    def told(cls, line: dict[str, Any]) -> Exported:
        """A line of a state."""
        return cls({name: (size, modified_ns) for name, (size, modified_ns) in line["of"].items()})

    def holds(self, now: dict[str, tuple[int, int]]) -> bool:
        """Whether they are as they were, or were moved away since."""
        return all(now.get(name, was) == was for name, was in self.of.items())


class Dataset:
    """The directory. `open` makes it, or takes up what is there."""

    def __init__(self, directory: str, plan: Plan, state: BinaryIO, known: dict[str, Exported]) -> None:
        self.directory, self.plan = directory, plan
        self._state = state  # open, and locked, for as long as this process writes here
        self._known = known  # by archive

    @classmethod
    def open(cls, directory: str, plan: Plan) -> Dataset:
        """ConfigError if something else is there, or the same with other options; JobError if another export writes
        there now. OSError."""
        path = os.path.join(directory, STATE)
        if not os.path.exists(path):
            if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
                raise ConfigError(
                    f"{directory}: holds other things; name a new directory, or that of an earlier export"
                )
            os.makedirs(directory, exist_ok=True)
        state, alone = _locked(path)
        if alone:
            for name in os.listdir(directory):
                if name.startswith(TEMPORARY):
                    shutil.rmtree(os.path.join(directory, name))
        told = json.loads(json.dumps({"export": VERSION, **plan._asdict()}))
        before, *archives = [*_lines(path)] or [{}]
        if not archives and before.get("what") in (None, plan.what):  # what began here was killed, or failed at once
            state.truncate(0)
            made = cls(directory, plan, state, {})
            made._append(told)
            return made
        if before.get("export") != VERSION:
            raise ConfigError(f"{directory}: made by another version of irlcrawl; export into another directory")
        if before != told:
            raise ConfigError(
                f"{directory}: made by `{Plan.told(before).command()}`, and this is `{plan.command()}`: "
                "give the same options, or export into another directory"
            )
        known = {
            line["archive"]: Exported.told(line) for line in archives
            if _is_there(plan, directory, line["archive"], line.get("rows", 0))
        }  # fmt: skip
        return cls(directory, plan, state, known)

    def temporary(self) -> tempfile.TemporaryDirectory[str]:
        """A directory there for what lies between."""
        return _temporary(self.directory)

    def close(self) -> None:
        """Let others write there."""
        self._state.close()

    @property
    def exported(self) -> list[str]:
        """The archives that were exported, also such as were moved away since."""
        return sorted(self._known)

    def new(self, archives: Iterable[Archive]) -> list[Archive]:
        """Archives that are not exported as they are now, or some of whose originals lie in one that changed, as by a
        takedown. archives: all that are there."""
        archives = list(archives)
        now = {one.name: (one.bytes, one.modified_ns) for one in archives}
        return [one for one in archives if (known := self._known.get(one.name)) is None or not known.holds(now)]

    def add(
        self, archives: list[Archive], bar: Bar, jobs: int, damaged: list[Damaged], indexes: Indexes | None = None,
        still_open: int = 0,
    ) -> tuple[int, int]:  # fmt: skip
        """Export archives; returns how many were exported, and how many rows they had. After an error those that are
        done stay. damaged: gets what is wrong with those that are left out. indexes: as in `rows`. still_open: archives
        that are still written to: an original that was found nowhere may be in them, so the next export looks again.
        OSError, JobError."""
        bar.stage(f"export {self.plan.what}", sum(one.bytes for one in archives))
        done = total = 0
        work = partial(write, self.plan, self.directory, indexes)
        for archive, (made, missed, used) in each(work, archives, jobs, damaged):
            done, total = done + 1, total + made
            of = {one.name: [one.bytes, one.modified_ns] for one in (archive, *used)}
            if missed and still_open:
                of[archive.name][1] = NEVER
            line = {"archive": archive.name, "rows": made, "of": of}
            self._append(line)
            self._known[archive.name] = Exported.told(line)
            bar.read(archive.bytes)
        return done, total

    def _append(self, line: dict[str, Any]) -> None:
        stream = self._state
        end = stream.seek(0, os.SEEK_END)
        torn = b""
        if end:
            stream.seek(end - 1)
            torn = b"\n" if stream.read(1) != b"\n" else b""
        stream.write(torn + json.dumps(line).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def _temporary(directory: str) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=directory)


def _locked(path: str) -> tuple[BinaryIO, bool]:
    """(the state file, open to read and to append, whether it is sure that no other process has it). JobError,
    OSError."""
    stream = open(path, "ab+")  # noqa: SIM115
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise JobError(
            f"{os.path.dirname(path)}: another export writes there now; run this one when it has ended"
        ) from None
    except OSError:  # a file system without locks
        return stream, False
    return stream, True


def _lines(path: str) -> Iterator[dict[str, Any]]:
    """The whole lines of a state file."""
    with open(path, "rb") as stream:
        for line in stream:
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found


def write(
    plan: Plan, directory: str, indexes: Indexes | None, archive: Archive
) -> tuple[int, int, list[Archive]]:  # fmt: skip
    """The files of one archive; returns their rows, of how many records the original was found nowhere, and in which
    archives others were found. They replace earlier ones."""
    originals = _originals(indexes) if indexes is not None else None
    before = originals.missed if originals is not None else 0
    made = _write_edges(plan, directory, archive, originals) if plan.what == "graph" else (
        _write_rows(plan, directory, indexes, archive)
    )  # fmt: skip
    if originals is None:
        return made, 0, []
    used = originals.take_used()
    used.pop(archive.name, None)
    return made, originals.missed - before, list(used.values())


def _write_rows(plan: Plan, directory: str, indexes: Indexes | None, archive: Archive) -> int:
    paths = _paths(plan, directory, archive.name)
    opened: dict[str, Writer] = {}
    try:
        for subset, row in rows(plan, archive, indexes):
            subset = subset if plan.crawl else ""
            writer = opened.get(subset)
            if writer is None:
                path = paths.pop(subset)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                writer = opened[subset] = open_file(path, plan.columns, plan.format)
            writer.write(row)
        total = 0
        while opened:
            _, writer = opened.popitem()
            writer.close()
            total += writer.rows
        for path in paths.values():  # of an archive that had such rows when it was exported before
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return total
    finally:
        for writer in opened.values():
            writer.drop()


def _is_there(plan: Plan, directory: str, archive: str, rows: int) -> bool:
    """Whether the files of an archive that was exported are, if it had rows."""
    if plan.what == "graph":
        return os.path.exists(edges_path(directory, archive))
    return not rows or any(map(os.path.exists, _paths(plan, directory, archive).values()))


def _paths(plan: Plan, directory: str, archive: str) -> dict[str, str]:
    """The files that an archive may have in a table, by subset."""
    name = f"{warc_stem(archive)}.{plan.format}"
    if not plan.crawl:
        return {"": os.path.join(directory, name)}
    return {
        subset: os.path.join(directory, f"crawl={plan.crawl}", f"subset={subset}", name)
        for subset in (pages.WARC, pages.DIAGNOSTICS, pages.ROBOTS)
    }


def edges_path(directory: str, archive: str) -> str:
    return os.path.join(directory, warc_stem(archive) + ".edges")


def _write_edges(plan: Plan, directory: str, archive: Archive, originals: Originals | None) -> int:
    """The distinct edges of one archive, sorted."""
    made = edges_path(directory, archive.name)
    with _temporary(directory) as temporary:
        count = 0
        part = os.path.join(temporary, "edges")
        with open(part, "wb", buffering=1 << 20) as stream:
            for line in edge_lines(captures(Files(), archive), plan.hosts, temporary, originals):
                stream.write(line)
                count += 1
        os.replace(part, made)
    return count
