"""The names of all files in JOB: made and parsed here and nowhere else. `JobDir` (job.py) makes paths of them.

    JOB/irlcrawl.toml   the effective configuration
    JOB/LOCK            held while a crawl runs
    JOB/control.sock    where `status`, `stop` and `retry` ask a running crawl
    JOB/ballast         given up on a full disk, for a last commit; only while a crawl runs
    JOB/history         how it went: samples of some figures, in a file of fixed size
    JOB/SNAPSHOT        only in a snapshot: what it is of
    JOB/snapshots/NAME/ snapshots, each laid out like JOB; .NAME while one is made or deleted
    JOB/state/          catalog-NNNNNN.log          the log of commits (drum/names.py has its name)
                        turn-NNNNNNNNN.seg          what a turn wrote, by the commit it was written for
                        harvest-SSSS-NNNNNN.seg     what a worker handed over, by stream and number
                        returns-PID.seg             what `retry` or `seeds` is about to hand over to a running crawl
                        leases.log                  the clocks of every lease since the last commit
                        robots-SSSS.log             texts of robots.txt, by stream and part
    JOB/logs/           crawl.log, crawl.log.N, crawl.log.N.gz      a line for every outcome
                        irlcrawl.log, irlcrawl.log.N.gz             the program's own
                        steering.log                                who steered the crawl, and how
                        hooks.undelivered                           events that could not be delivered
    JOB/warcs/          PREFIX-TIME-SERIAL-sSSSS.warc.gz            archives; `.open` behind it while one is written
                        PREFIX-TIME-SERIAL-sSSSS.warc.zst           those with archive.compression = "zstd"
    JOB/indexes/        PREFIX-TIME-SERIAL-sSSSS.cdxj               of a closed archive, made again when it is gone
                        payloads.seg                                what earlier crawls hold (archive.dedupe_from)
                        payloads-window                             what was stored of late (archive.dedupe_window)
                        log-FROM-UNTIL.seg                          of a piece of the crawl log; LOCK: one adds to them

`.tmp` behind a name: being written; it gets its name when it is whole. `.repaired` behind a directory: what
`fsck --repair` made and is about to put in its place; `.damaged-N`: what was there before.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import NamedTuple

CONFIG = "irlcrawl.toml"
LOCK = "LOCK"
SOCKET = "control.sock"
NODE = "NODE"
"""In the directory of a machine that works for a crawl elsewhere: what tells it from others."""
BALLAST = "ballast"
HISTORY = "history"
SNAPSHOT = "SNAPSHOT"
"""The file that makes a directory a snapshot: a JOB that may be asked, but not crawled."""

STATE, LOGS, WARCS, SNAPSHOTS = "state", "logs", "warcs", "snapshots"
INDEXES = "indexes"
PAYLOADS = "payloads.seg"
WINDOW = "payloads-window"
"""Two of what was made of archives and log to find things in them: all of that may be deleted at any time."""
OPT_OUTS = "opt-outs"
"""There, too: a copy of the opt-out list."""
REPAIRED = ".repaired"
REPAIR_COMPLETE = "COMPLETE"
"""In the repaired state: all is made, and may be put in place."""

LEASES = "leases.log"
SEEDS_STREAM = 0
"""Whose harvests those of seeds and of repairs are; workers are streams from 1 on."""
SEGMENT = ".seg"
"""That of drum/names.py, which is not imported here: asking loads no numpy."""
LIST = "list.seg"
"""In the state of a fetch without a frontier (irlcrawl/rounds): a copy of its list."""

CRAWL_LOG = "crawl.log"
OWN_LOG = "irlcrawl.log"
STEERING_LOG = "steering.log"
UNDELIVERED = "hooks.undelivered"
COMPRESSED = ".gz"
ZSTD = ".zst"
WARC, WARC_ZSTD = ".warc.gz", ".warc.zst"
WARC_SUFFIXES = (WARC, WARC_ZSTD)
OPEN = ".open"
CDXJ = ".cdxj"

_LOG_INDEX = re.compile(r"log-([0-9a-f]{16})-([0-9a-f]{16})\.seg")
_LIST = re.compile(r"list-(\d{6,})\.seg")
_TURN = re.compile(r"turn-(\d{9,})\.seg")
_HARVEST = re.compile(r"harvest-(\d{4,})-(\d{6,})\.seg")
_RETURNS = re.compile(r"returns-\d+\.seg")
_RULES_LOG = re.compile(r"robots-(\d{4,})\.log")
_LOG_PART = re.compile(r"(?P<log>.+)\.(?P<number>\d+)(?P<compressed>\.gz)?")
_WARC = re.compile(
    r"(?P<prefix>.+)-(?P<time>\d{17})-(?P<serial>\d{5,})-s(?P<stream>\d{4,})\.warc\.(?P<packed>gz|zst)(?P<open>\.open)?"
)


def temporary(name: str) -> str:
    """The name of a file until it is whole; names and paths."""
    return name + ".tmp"


# -- state/ ------------------------------------------------------------------------------------------------------------


def turn_name(commit: int) -> str:
    """The file of a turn, named after the commit it is written for: each name is used once."""
    return f"turn-{commit:09d}{SEGMENT}"


def parse_turn(name: str) -> int | None:
    """Its commit; None for a file of another kind."""
    match = _TURN.fullmatch(name)
    return None if match is None else int(match[1])


def list_name(segment: int) -> str:
    """The file of a list that `generate` writes, by the number of the ready segment that its URLs are lent from."""
    return f"list-{segment:06d}{SEGMENT}"


def parse_list(name: str) -> int | None:
    """Its ready segment; None for a file of another kind."""
    match = _LIST.fullmatch(name)
    return None if match is None else int(match[1])


def harvest_name(stream: int, number: int) -> str:
    """The harvest of a stream with that number."""
    return f"harvest-{stream:04d}-{number:06d}{SEGMENT}"


def parse_harvest(name: str) -> tuple[int, int] | None:
    """(stream, number); None for a file of another kind."""
    match = _HARVEST.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def harvests_from(there: Container[str], stream: int, number: int) -> Iterator[str]:
    """Harvests of a stream that no commit names yet: complete ones, from its `next` on. there: the names in state/."""
    while (name := harvest_name(stream, number)) in there:
        yield name
        number += 1


def returns_name(pid: int) -> str:
    """A harvest of URLs to put back, made beside a running crawl, until the crawl gives it a number."""
    return f"returns-{pid}{SEGMENT}"


def is_returns(name: str) -> bool:
    """Whether a file is one of those."""
    return _RETURNS.fullmatch(name) is not None


def rules_log_name(number: int) -> str:
    """A part of the texts of robots.txt that a stream met; its number is made in worker/harvest/rules_log.py."""
    return f"robots-{number:04d}.log"


def parse_rules_log(name: str) -> int | None:
    """Its number; None for a file of another kind."""
    match = _RULES_LOG.fullmatch(name)
    return None if match is None else int(match[1])


# -- logs/ -------------------------------------------------------------------------------------------------------------


def part_name(log: str, number: int, compressed: bool = False) -> str:
    """A part that was rolled away from `log` (a name or a path), counted from 1."""
    return f"{log}.{number}{COMPRESSED if compressed else ''}"


def parse_part(log: str, name: str) -> int | None:
    """The number of a part of `log`, compressed or not; None for a file of another kind. Names, not paths."""
    match = _LOG_PART.fullmatch(name)
    return None if match is None or match["log"] != log else int(match["number"])


# -- warcs/ ------------------------------------------------------------------------------------------------------------


def is_prefix(prefix: str) -> bool:
    """Whether archives may be called so (archive.prefix): no part of it is taken for another part of the name."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+]*", prefix) is not None


_NODE_MARK = "+"


def node_prefix(prefix: str, node: str) -> str:
    """The prefix of archives that another machine writes and keeps: it names the machine."""
    return prefix + _NODE_MARK + node


def node_of(archive: str, prefix: str) -> str | None:
    """The machine that wrote an archive, by its name; None for this one. prefix: archive.prefix."""
    match = _WARC.fullmatch(archive)
    written = "" if match is None else match["prefix"]
    return written.removeprefix(prefix + _NODE_MARK) if written.startswith(prefix + _NODE_MARK) else None


class Warc(NamedTuple):
    """The parts of an archive's name."""

    prefix: str
    time: str  # YYYYMMDDHHMMSSmmm, UTC
    serial: int
    stream: int
    open: bool = False  # still written, or left so by a crash
    zstd: bool = False  # of zstd frames; else of gzip members


def warc_name(name: Warc) -> str:
    """The name of an archive, as it is on the disk now."""
    suffix = WARC_ZSTD if name.zstd else WARC
    closed = f"{name.prefix}-{name.time}-{name.serial:05d}-s{name.stream:04d}{suffix}"
    return closed + OPEN if name.open else closed


def parse_warc(name: str) -> Warc | None:
    """None for a file that no WarcWriter made."""
    match = _WARC.fullmatch(name)
    if match is None:
        return None
    return Warc(
        match["prefix"], match["time"], int(match["serial"]), int(match["stream"]), match["open"] is not None,
        match["packed"] == "zst",
    )  # fmt: skip


def warc_stem(name: str) -> str:
    """The name of an archive without its suffix: what is made of it is called so, too."""
    return name.removesuffix(WARC).removesuffix(WARC_ZSTD)


# -- indexes/ ----------------------------------------------------------------------------------------------------------


def cdxj_name(warc: str) -> str:
    """The index of a closed archive."""
    return warc_stem(warc) + CDXJ


def log_index_name(begin: int, end: int) -> str:
    """The index of the lines of the crawl log from one place up to another (log_parts.py: Piece.place)."""
    return f"log-{begin:016x}-{end:016x}{SEGMENT}"


def parse_log_index(name: str) -> tuple[int, int] | None:
    """Those places; None for a file of another kind."""
    match = _LOG_INDEX.fullmatch(name)
    return None if match is None else (int(match[1], 16), int(match[2], 16))


# -- snapshots/, and beside them ---------------------------------------------------------------------------------------


def is_snapshot_name(name: str) -> bool:
    """Whether a snapshot may be called so."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) is not None


def unfinished_name(snapshot: str) -> str:
    """The name of a snapshot while it is made or deleted."""
    return f".{snapshot}"


def is_unfinished(name: str) -> bool:
    """Whether something in snapshots/ is one that was being made or deleted."""
    return name.startswith(".")


def damaged_name(directory: str, number: int) -> str:
    """Where a repair puts what was in a directory of JOB before."""
    return f"{directory}.damaged-{number}"
