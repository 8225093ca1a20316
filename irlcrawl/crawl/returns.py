"""URLs that are put back: chosen out of the crawl log by their last word, and handed in as a harvest of the seeds'
stream (its section `returns`), which a turn takes in like any other.

A URL must be put back once, and only while it is done. The log says so as far as a commit knows it, and what the log
does not say yet is in the harvests of that stream which wait for their turn. So a drawing notes the number of the next
harvest: it holds as long as that number is free, and the crawl refuses any other (Turns.put_back).
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from drum import Batch, Catalog, Files, SegmentWriter
from drum.segment import Segment

from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM, harvests_from
from irlcrawl.base.keys import name_key
from irlcrawl.base.reasons import CLASS_OF, DONE_NAMES, FETCHED_WELL, LESS_THAN_ALL, LIMITS, Class, Reason, names
from irlcrawl.base.rows import RETURN
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.crawl.status import ERRORS
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import log_parts
from irlcrawl.worker.archive.crawl_log import LogEntry, carried_of, parse, url_of
from irlcrawl.worker.archive.last_words import NOT_YET, Returned, returned_in
from irlcrawl.worker.harvest.builder import Rows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.sections import write_sections

CHUNK_ROWS = 16_384
TAKEN, STALE, BUSY = "taken", "stale", "busy"
"""What a running crawl answers: the harvest is its own now; another one came before; it is starting or ending."""
_LESS = names(LESS_THAN_ALL)
_HANDED_IN = ("returns", "links", "signals")


OUTCOMES = ("failed", "excluded", "errors")
"""What a status may name beside numbers."""


def is_error(entry: LogEntry) -> bool:
    """Whether no page was had, as `errors` of a status counts."""
    return entry.outcome == "failed" or (entry.outcome == "fetched" and entry.reason in ERRORS)


@dataclass
class Selection:
    """Which URLs that are done: one of the reasons, one of the statuses and one of the hosts, where there are any; of
    those fetched only the ones that got an error, or less than all. Without reasons and statuses: all that failed."""

    reasons: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()  # a status, a class like 5xx, or one of OUTCOMES
    hosts: tuple[bytes, ...] = ()  # a name stands for all names below it, too
    urls: array[int] | None = None  # sorted name_keys; None: all
    _wanted: re.Pattern[bytes] = field(init=False, repr=False)
    _status: re.Pattern[bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """ConfigError for a filter that can let nothing through."""
        known = names(set(Reason) - FETCHED_WELL)
        for reason in self.reasons:
            if reason not in known:
                raise ConfigError(f"--reason {reason}: takes one of {', '.join(known)}")
        for status in self.statuses:
            if status not in OUTCOMES and not re.fullmatch(r"-\d{1,4}|[45](\d\d|xx)", status):
                raise ConfigError(
                    f"--status {status}: takes an error such as 404 or -1, a class such as 5xx, {', '.join(OUTCOMES)}"
                )
        classes = DONE_NAMES if self.reasons or self.statuses else ("failed",)
        reasons = "|".join(self.reasons) or r"\w+"
        self._wanted = re.compile(rf" outcome=(?:{'|'.join(classes)}),reason=(?:{reasons})(?![\w])".encode())
        numbers = [status.replace("x", r"\d") for status in self.statuses]
        self._status = re.compile("|".join(numbers).encode())

    def entries(self, pieces: Iterable[log_parts.Piece], returned: Returned) -> Iterator[LogEntry]:
        """The last words of URLs that are chosen. A Python loop per line that may be one. Damaged."""
        for piece in pieces:
            for match in self._wanted.finditer(piece.text):
                begin, end = piece.text.rfind(b"\n", 0, match.start()) + 1, piece.text.find(b"\n", match.end())
                line = piece.text[begin : end if end >= 0 else None]
                url = piece.understood(url_of, line)
                if self.urls is not None and not _among(self.urls, name_key(url)):
                    continue  # excluded URLs may be many, and seeds among them few: no more than this is read of them
                if not returned.since(url, piece.place(begin)) and self._takes(entry := piece.understood(parse, line)):
                    yield entry

    def _takes(self, entry: LogEntry) -> bool:
        if entry.reason == "taken_down":
            return False
        if entry.outcome == "fetched" and entry.status < 400 and entry.reason not in _LESS:
            return False
        if "visit" in entry.notes or "page" in entry.notes:
            return False  # a visit of a page, which goes on being visited
        if self.statuses and not self._names(entry):
            return False
        return not self.hosts or any(log_parts.is_within(entry.url, host) for host in self.hosts)

    def _names(self, entry: LogEntry) -> bool:
        """Whether one of the statuses is that of the entry."""
        if "errors" in self.statuses and is_error(entry):
            return True
        return entry.outcome in self.statuses or bool(self._status.fullmatch(b"%d" % entry.status))


def _among(keys: array[int], key: int) -> bool:
    at = bisect_left(keys, key)
    return at < len(keys) and keys[at] == key


def of_seeds(urls: Iterable[bytes]) -> Selection:
    """The URLs of seeds that are named again: failed or excluded, but not by a limit, which holds for them as for
    all."""
    reasons = [reason for reason, cls in CLASS_OF.items() if cls is not Class.FETCHED and reason not in LIMITS]
    keys = array("Q", sorted(set(map(name_key, urls))))
    return Selection(reasons=tuple(reason.name.lower() for reason in reasons), urls=keys)


class Drawing:
    """The URLs that a selection chooses in a crawl, as of its last commit."""

    def __init__(self, job: JobDir, catalog: Catalog, files: Files, selection: Selection) -> None:
        self._job, self._catalog, self._files, self._selection = job, catalog, files, selection
        self.counts: Counter[tuple[str, str]] = Counter()
        """(outcome, reason) -> URLs, of those that came out of `entries` so far."""
        next_number: int = catalog.get(f"streams/{SEEDS_STREAM}", {"next": 0})["next"]
        self._waiting = list(harvests_from(set(files.listdir(job.state)), SEEDS_STREAM, next_number))
        self.number = next_number + len(self._waiting)
        """Of the harvest that this drawing may become."""

    def entries(self) -> Iterator[LogEntry]:
        """The last word of each. FileNotFoundError when a turn took in meanwhile what had waited; Damaged, OSError."""
        committed = self._catalog.get("log")
        if committed is None or not self._files.exists(self._job.logs):
            return
        returned = Returned(chain(self._not_yet(), returned_in(self._pieces(committed))))
        for entry in self._selection.entries(self._pieces(committed), returned):
            self.counts[entry.outcome, entry.reason] += 1
            yield entry

    def rows(self, config: Config) -> Iterator[Batch]:
        """As RETURN rows. A Python loop per URL: each comes as a line of text."""
        if (identity := self._catalog.get("crawl")) is None:  # nothing was committed yet
            return
        seed = identity["seed"]
        context = Context(config, seed, Scope(config.scope, config.site, []))
        rows = Rows(RETURN)
        for entry in self.entries():
            site, host = context.names(entry.url)
            cls, reason = Class[entry.outcome.upper()], Reason[entry.reason.upper()]
            key = context.url_key(entry.url)
            rows.fresh.append((key, site, host, carried_of(entry), entry.url, cls, reason, entry.status))
            if len(rows.fresh) >= CHUNK_ROWS:
                rows.pack()
                yield rows.batches.pop()
        if rows.fresh:
            rows.pack()
            yield rows.batches.pop()

    def _pieces(self, committed: dict[str, int]) -> Iterator[log_parts.Piece]:
        return log_parts.pieces(self._files, os.fspath(self._job.crawl_log), committed)

    def _not_yet(self) -> Iterator[tuple[int, int]]:
        """URLs of harvests that no turn has taken in."""
        for name in self._waiting:
            section = Segment.open(self._files, os.path.join(self._job.state, name)).sections["returns"]
            for batch in section.scan(["url"]):
                for url in batch["url"].tolist():
                    yield name_key(url), NOT_YET


def write(files: Files, path: str, number: int, rows: Iterator[Batch], section: str = "returns") -> int:
    """The harvest `number` of the seeds' stream as the file `path`, with these rows in one of its sections: RETURN, or
    SIGNAL; how many they were. No file if there are none. OSError, and what `rows` raises."""
    first = next(rows, None)
    if first is None:
        return 0
    count = 0

    def counted() -> Iterator[Batch]:
        nonlocal count
        for batch in chain([first], rows):
            count += batch.rows
            yield batch

    with SegmentWriter(files, path) as writer:
        write_sections(writer, SEEDS_STREAM, number, {section: counted()})
    return count


def number_of(files: Files, path: str) -> int:
    """Which harvest of the seeds' stream a file wants to be. Damaged, OSError, KeyError for a file of another kind."""
    sections = Segment.open(files, path).sections
    meta = sections["outcomes"].meta
    if meta["stream"] != SEEDS_STREAM or not any(sections[name].rows for name in _HANDED_IN):
        raise KeyError("returns")
    return int(meta["number"])
