"""A host on disk: one fixed-size record in the `hosts` drum, which is robots cache, address book and memory of failures
in one. URLs pass it on their way from the queues to the runs, and come out with their host's record.

The loop owns the truth about the hosts it has in memory and writes whole records (op STATE); the drum's own column
`released` counts the URLs let through, for the quota. Texts (robots rules) are in append-only logs to which the record
points.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from drum import Batch, Result

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import LINK, PAGE, Robots
from irlcrawl.config.rests import FAILURES_MAX, Rests
from irlcrawl.revisit.signals import faded

STATE = {
    "robots": "u1",  # rows.Robots
    "robots_until": "f8",  # DATES are unix seconds, but in the drum (redated)
    "rules_log": "u4",
    "rules_offset": "u8",
    "rules_length": "u4",
    "crawl_delay": "f4",  # seconds
    "denials": "u2",  # robots.txt unreachable this many times in a row
    "failures": "u2",  # in a row: visits without any response or with nothing but a 429 or 503, or no address
    "failed_since": "f8",
    "rests_until": "f8",  # asked for nothing before; 0: it answered since
    "failure": "u1",  # reasons.Reason for which it rests, 0 (OK) when it does not
    "answered_at": "f8",  # last response, 0 never
    "family": "u1",  # 4, 6; 0 no address known
    "address_hi": "u8",
    "address_lo": "u8",
    "address_until": "f8",
    "dead": "u1",  # reasons.Reason, 0 (OK) when it is not
    "dead_until": "f8",
}
DATES = ("robots_until", "failed_since", "rests_until", "answered_at", "address_until", "dead_until")
POOL = {
    "pool_a": "f4",  # what visits of all pages of the host told of their rates of changes: shape
    "pool_b": "f4",  # ... and exposure in days (irlcrawl/revisit/beliefs.py)
    "right": "f4",  # visits after a signal (irlcrawl/revisit/signals.py) that found a change
    "wrong": "f4",  # ... and those that found none
    "changes": "f4",  # changes that visits found
    "price": "f4",  # of a visit where its pages want more than it takes (irlcrawl/revisit/price.py); 0: none
}
SUMS = ("pool_a", "pool_b", "right", "wrong", "changes")
"""Of POOL, what visits add to."""
RECORD = {**STATE, "released": "u8", **POOL}
POOL_SHAPE_MAX = 400.0
"""A pool of a larger shape forgets the oldest."""

OP_STATE, OP_NEW, OP_AGAIN, OP_RETURNED, OP_RECOUNTED, OP_VISIT, OP_LEARNT, OP_SIGNAL = range(8)
"""Operations of the hosts drum: a whole record; a URL for the first time; a URL back from the calendar; a URL that is
put back after it was done; one that is put back and was over its host's quota, so that it is counted anew; a page to be
visited again (LINK and PAGE); POOL columns, of which SUMS are added to the record's; a signal that a page changed
(rows.SIGNAL), which comes out with POOL."""
OPS_OF_URLS = (OP_NEW, OP_AGAIN, OP_RETURNED, OP_RECOUNTED, OP_VISIT)

RESTS_FOR = (
    Reason.DNS, Reason.CONNECT, Reason.TLS, Reason.TIMEOUT, Reason.LOST, Reason.PROTOCOL, Reason.CHALLENGE,
    Reason.THROTTLED,
)  # fmt: skip
STANDINGS = ("no_robots", "given_up", *(reason.name.lower() for reason in RESTS_FOR), "other")
"""Of hosts that failed when they were asked last, what came of it: no robots.txt to be had, so many failures that their
URLs left, or a rest, by the reason for it. A host that answered since has none of these."""
_STANDING = np.full(256, len(STANDINGS), np.int64)
_STANDING[list(RESTS_FOR)] = np.arange(3, 3 + len(RESTS_FOR))

FORGIVEN: dict[str, float] = {
    "failures": 0, "failed_since": 0.0, "rests_until": 0.0, "failure": Reason.OK, "dead": Reason.OK, "dead_until": 0.0,
    "denials": 0, "robots_until": 0.0,
}  # fmt: skip
"""What a record says of a host once a URL of it is put back: nothing is held against it, and it is asked for its
robots.txt again, which may be what has changed. Its clocks, and the gaps they were promised, stay."""


def keyed_by_host(rows: Batch, columns: Iterable[str] = LINK) -> Batch:
    """LINK rows (with PAGE, if they have it) as the hosts drum takes them: `key` is the host, the URL's key stands
    beside as `url_key`. columns: of rows of another kind."""
    columns = [*LINK, *PAGE] if "visits" in rows else [*columns]
    return rows.select(columns).rekeyed("host", keep="url_key")


def learnt_of(keys: NDArray[np.uint64], **columns: NDArray[Any]) -> Batch:
    """Rows of OP_LEARNT: POOL columns, 0 where none are given; no price is told without one."""
    told = Batch.zeros(POOL, len(keys)).with_(price=np.full(len(keys), -1.0, np.float32), key=keys)
    return told.with_(**{name: column.astype(np.float32) for name, column in columns.items()})


def keyed_by_url(rows: Batch) -> Batch:
    """Rows that the hosts drum emits as LINK rows again, with the kernel's columns."""
    return rows.rekeyed("url_key", keep="host")


def standings(states: Batch) -> NDArray[np.int64]:
    """Of rows with STATE: i8 a row, the place in STANDINGS plus 1; 0: the host did not fail when it was asked last."""
    resting = np.where(states["rests_until"] > 0, _STANDING[states["failure"]], 0)
    return np.where(states["dead"] != Reason.OK, 2, np.where(states["denials"] > 0, 1, resting))


def standing_counts(standings: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows have each of STANDINGS: i8[STANDINGS]."""
    return np.bincount(standings, minlength=1 + len(STANDINGS))[1:]


class HostsKernel:
    """The last STATE of a group becomes its record; then every URL is emitted with it (shapes: drum.kernels.Kernel).

    Emitted columns: those of STATE, and `ordinal` u8: how many URLs of the host were released before this one (0 for
    one that comes back), which the quota is measured on. A host of which a URL is put back is FORGIVEN. `pages`: those
    of POOL, too.

    `moved`: how many more hosts have each of STANDINGS than before.
    """

    def __init__(self, with_states: bool, with_learnt: bool = False, pages: bool = False) -> None:
        """`with_states`, `with_learnt`: such rows are pending (else no pending section has their columns)."""
        self._states, self._learnt = tuple(STATE) if with_states else (), tuple(POOL) if with_learnt else ()
        self.columns: Sequence[str] = (*self._states, *self._learnt)
        self._told = (*STATE, *POOL) if pages else tuple(STATE)
        self.moved = np.zeros(len(STANDINGS), np.int64)

    def __call__(self, found: NDArray[np.bool_], stored: Batch, items: Batch, starts: NDArray[np.int64]) -> Result:
        op = items["op"]
        groups = len(starts) - 1
        group = np.repeat(np.arange(groups), np.diff(starts))
        is_state, recounted = op == OP_STATE, op == OP_RECOUNTED
        is_new = (op == OP_NEW) | recounted
        values = {name: stored[name].copy() for name in RECORD}
        last = np.full(groups, -1, np.int64)
        last[group[is_state]] = np.flatnonzero(is_state)  # numpy keeps the last assignment of a repeated index
        told = np.flatnonzero(last >= 0)
        rows = last[told]
        for name in self._states:
            values[name][told] = items[name][rows]
        learnt = op == OP_LEARNT
        if self._learnt:
            _learn(values, items, group, learnt)
        forgiven = np.unique(group[recounted | (op == OP_RETURNED)])
        for name, value in FORGIVEN.items():
            values[name][forgiven] = value
        again = np.bincount(group[recounted], minlength=groups).astype(np.uint64)
        values["released"] = values["released"] - np.minimum(again, values["released"])
        before = np.concatenate(([0], np.cumsum(is_new)))
        rank = before[:-1] - before[starts[:-1]][group]
        ordinal = np.where(is_new, values["released"][group] + rank.astype(np.uint64), np.uint64(0))
        fresh = (before[starts[1:]] - before[starts[:-1]]).astype(np.uint64)
        values["released"] = values["released"] + fresh
        columns = {name: values[name][group] for name in self._told}
        columns["ordinal"] = ordinal.astype(np.uint64)
        write = (last >= 0) | (fresh > 0)
        write[forgiven] = True
        write[group[learnt]] = True
        written = Batch(values)
        if self._states or len(forgiven):
            self.moved += standing_counts(standings(written)) - standing_counts(standings(stored))
        return Result(values=written, write=write, emit=~(is_state | learnt), columns=columns)


def _learn(values: dict[str, NDArray[Any]], items: Batch, group: NDArray[np.int64], learnt: NDArray[np.bool_]) -> None:
    """Add what visits taught to the pools, and set prices (less than 0: none is told)."""
    rows, host = np.flatnonzero(learnt), group[learnt]
    for name in SUMS:
        sums = np.bincount(host, items[name][rows], minlength=len(values[name]))
        values[name] = np.maximum(values[name] + sums, 0.0).astype(np.float32)
    fade = np.minimum(1.0, POOL_SHAPE_MAX / np.maximum(values["pool_a"], 1.0)).astype(np.float32)
    values["pool_a"], values["pool_b"] = values["pool_a"] * fade, values["pool_b"] * fade
    kept = faded(values["right"], values["wrong"], values["changes"])
    for name in ("right", "wrong", "changes"):
        values[name] = values[name] * kept
    priced = items["price"][rows] >= 0
    values["price"][host[priced]] = items["price"][rows][priced]


@dataclass(slots=True)
class HostRecord:
    """A row of STATE as a Python object: one per host in memory."""

    robots: int = Robots.UNKNOWN
    robots_until: float = 0.0
    rules_log: int = 0
    rules_offset: int = 0
    rules_length: int = 0
    crawl_delay: float = 0.0
    denials: int = 0
    failures: int = 0
    failed_since: float = 0.0
    rests_until: float = 0.0
    failure: int = Reason.OK
    answered_at: float = 0.0
    family: int = 0
    address_hi: int = 0
    address_lo: int = 0
    address_until: float = 0.0
    dead: int = Reason.OK
    dead_until: float = 0.0

    def robots_at(self, now: float) -> Robots:
        """The robots state that holds now; an expired one is UNKNOWN."""
        return Robots(self.robots) if self.robots_until > now else Robots.UNKNOWN

    def address_at(self, now: float) -> str | None:
        """The address, if it may still be used."""
        if not self.family or self.address_until <= now:
            return None
        number = (self.address_hi << 64) | self.address_lo
        if self.family == 4:
            text = socket.inet_ntoa(number.to_bytes(4, "big"))
        else:  # inet_ntop writes some of them otherwise
            text = str(ipaddress.IPv6Address(number))
        return sys.intern(text)  # many hosts have the same

    def set_address(self, address: str, until: float) -> None:
        """address: text as `ipaddress` writes it."""
        self.family = 6 if ":" in address else 4
        packed = socket.inet_pton(socket.AF_INET6 if self.family == 6 else socket.AF_INET, address)
        number = int.from_bytes(packed, "big")
        self.address_hi, self.address_lo, self.address_until = number >> 64, number & (2**64 - 1), until

    def answered(self, at: float) -> None:
        """A response came: all failures held against the host are void."""
        self.failures, self.failed_since, self.rests_until, self.failure = 0, 0.0, 0.0, Reason.OK
        self.answered_at, self.dead = at, Reason.OK

    def forgive(self) -> None:
        """A URL of the host is put back."""
        for name, value in FORGIVEN.items():
            setattr(self, name, value)

    def failed(self, at: float, rests: Rests, reason: Reason) -> None:
        """A visit ended without any response, or there is no address: the host rests, each time longer."""
        if self.failures == 0:
            self.failed_since = at
        self.failures = min(self.failures + 1, FAILURES_MAX)
        self.rests_until, self.failure = at + rests.after(self.failures), reason

    def refused(self, at: float, reason: Reason) -> None:
        """A visit brought nothing but a 429, a 503 or a challenge. That is a failure, too, though the host rests no
        longer than its clock says."""
        if self.failures == 0:
            self.failed_since = at
        self.failures = min(self.failures + 1, FAILURES_MAX)
        self.rest(at, reason)
        self.answered_at, self.dead = at, Reason.OK

    def rest(self, until: float, reason: Reason) -> None:
        """It rests until then at least."""
        self.rests_until, self.failure = max(self.rests_until, until), reason

    @property
    def probed(self) -> bool:
        """It failed when it was asked last, and nobody knows whether it answers again: see `probed`."""
        return self.rests_until > 0 or self.denials > 0

    def learn_robots(self, state: int, until: float, rules: tuple[int, int, int] | None, crawl_delay: float) -> None:
        """An answer; told twice it counts once."""
        if (state, until) == (self.robots, self.robots_until):
            return
        self.robots, self.robots_until, self.crawl_delay = state, until, crawl_delay
        self.rules_log, self.rules_offset, self.rules_length = rules or (0, 0, 0)
        self.denials = min(self.denials + 1, FAILURES_MAX) if state == Robots.DENY else 0


_FIELDS = [f.name for f in fields(HostRecord)]
_row = attrgetter(*STATE)
_ROW_DTYPE = np.dtype([("key", "<u8"), *((name, "<" + kind) for name, kind in STATE.items())])
_PACKED = struct.Struct("<Q" + "".join(np.dtype(kind).char.replace("L", "Q") for kind in STATE.values()))
worth_a_row = attrgetter(*(name for name in STATE if name != "answered_at"))
"""The fields of a record whose change has to go back to the hosts drum: all but the time of the last answer."""


def state_batch(records: Iterable[tuple[int, HostRecord]]) -> Batch:
    """(host key, record) pairs as rows of `key` + STATE."""
    rows = b"".join([_PACKED.pack(key, *_row(record)) for key, record in records])
    table = np.frombuffer(rows, _ROW_DTYPE)
    return Batch({name: np.ascontiguousarray(table[name]) for name in _ROW_DTYPE.names or ()})


def probed(states: Batch) -> NDArray[np.bool_]:
    """Of rows with STATE: which hosts are asked for one URL, to see whether they answer again, before further ones may
    go into runs."""
    return (states["rests_until"] > 0) | (states["denials"] > 0)


def redated(states: Batch, seconds: float) -> Batch:
    """Rows with STATE, every date in them (0 is none) moved by so many seconds: in the drum dates are at rest
    (clock_set.py), everywhere else in unix time."""
    if not seconds:
        return states
    return states.with_(**{name: np.where(states[name] == 0, 0.0, states[name] + seconds) for name in DATES})


def records_of(batch: Batch) -> list[HostRecord]:
    """The STATE columns of a batch, a record per row."""
    columns = [batch[name].tolist() for name in _FIELDS]
    return [HostRecord(*row) for row in zip(*columns, strict=True)]
