"""The hosts drum with its kernel against a dict: records, quota ordinals and order, over any merges and reopenings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from drum import Batch, Catalog, Edits, Files, Ragged, Repository, SegmentPool, SegmentWriter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from irlcrawl.base.reasons import Reason
from irlcrawl.base.rows import BYTES, LINK
from irlcrawl.frontier.state.hosts import (
    OP_AGAIN,
    OP_NEW,
    OP_RECOUNTED,
    OP_RETURNED,
    OP_STATE,
    RECORD,
    STANDINGS,
    HostRecord,
    HostsKernel,
    keyed_by_host,
    keyed_by_url,
    records_of,
    state_batch,
)

HOSTS = 4
OPS = {"new": OP_NEW, "again": OP_AGAIN, "returned": OP_RETURNED, "recounted": OP_RECOUNTED}


def link_batch(hosts: list[int], first: int) -> Batch:
    """LINK rows of these hosts, numbered from `first`."""
    numbers = np.arange(first, first + len(hosts))
    columns = {name: numbers.astype("<" + kind) for name, kind in LINK.items() if kind != BYTES}
    columns["host"] = np.array(hosts, np.uint64)
    texts = Ragged.from_list([b"http://x/%d" % number for number in numbers])
    return Batch.zeros(LINK, len(hosts)).with_(**columns, url=texts)


@dataclass
class Drum:
    """The hosts drum on disk; `merge` commits and gives (url, ordinal, failures of the record) in order per host."""

    path: Path
    files: Files = field(default_factory=Files)
    turns: int = 0
    standings: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STANDINGS), np.int64))

    def __post_init__(self) -> None:
        self.catalog = Catalog.open(self.path, self.files)
        self.pool = SegmentPool(self.files, str(self.path), 16)
        self.hosts = Repository("hosts", catalog=self.catalog, pool=self.pool, values=RECORD, ram_bytes=1 << 20)

    def reopen(self) -> None:
        self._commit(merge=False)
        self.pool.close()
        self.catalog.close()
        self.__post_init__()

    def merge(self) -> list[tuple[int, bytes, int, int]]:
        return self._commit(merge=True)

    def _commit(self, merge: bool) -> list[tuple[int, bytes, int, int]]:
        self.turns += 1
        edits = Edits()
        out: list[tuple[int, bytes, int, int]] = []

        def emit(_: object, batch: Batch) -> None:
            failures = batch["failures"].tolist()
            rows = keyed_by_url(batch)
            assert set(rows.columns) >= set(LINK)
            numbers = [int(url.rsplit(b"/")[-1]) for url in rows["url"].tolist()]
            assert rows["key"].tolist() == numbers, "the URL's key is its own again"
            out.extend(
                zip(rows["host"].tolist(), rows["url"].tolist(), rows["ordinal"].tolist(), failures, strict=True)
            )

        with SegmentWriter(self.files, self.path / f"turn-{self.turns}.seg") as writer:
            if merge:
                kernel = HostsKernel(OP_STATE in self.hosts.pending_by_op())
                self.hosts.merge(kernel, writer=writer, edits=edits, emit=emit)
                self.standings = self.standings + kernel.moved
            self.hosts.spill(writer, edits)
        self.catalog.commit(edits)
        return out


host = st.integers(0, HOSTS - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("state"), st.lists(st.tuples(host, st.integers(1, 99)), max_size=4)),
        st.tuples(st.sampled_from(["new", "again", "returned", "recounted"]), st.lists(host, max_size=6)),
        st.tuples(st.sampled_from(["merge", "reopen"]), st.just([])),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_records_ordinals_and_order_are_those_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[object]]]
) -> None:
    drum = Drum(tmp_path_factory.mktemp("drum"))
    failures = dict.fromkeys(range(HOSTS), 0)
    released = dict.fromkeys(range(HOSTS), 0)
    pending: list[tuple[str, int, int]] = []  # what, host, URL number or failures
    number = 0
    for what, rows in [*steps, ("merge", [])]:
        if what == "state":
            drum.hosts.pend_batch(state_batch((h, HostRecord(failures=n)) for h, n in rows), OP_STATE)
            pending += [("state", h, n) for h, n in rows]
        elif what in OPS:
            op = OPS[what]
            drum.hosts.pend_batch(keyed_by_host(link_batch(rows, number)), op)
            pending += [(what, h, number + at) for at, h in enumerate(rows)]
            number += len(rows)
        elif what == "reopen":
            drum.reopen()
        else:
            failures.update({h: n for kind, h, n in pending if kind == "state"})
            failures.update({h: 0 for kind, h, n in pending if kind in ("returned", "recounted")})
            for h, times in Counter(h for kind, h, _ in pending if kind == "recounted").items():
                released[h] = max(0, released[h] - times)
            urls = [row for row in pending if row[0] != "state"]
            ordinals = dict.fromkeys((n for _, _, n in urls), 0)
            for kind in ("new", "recounted"):  # of one merge, those that are new come first
                for h, n in ((h, n) for what, h, n in urls if what == kind):
                    ordinals[n] = released[h]
                    released[h] += 1
            expected = [(h, b"http://x/%d" % n, ordinals[n], failures[h]) for _, h, n in urls]
            found = drum.merge()
            assert sorted(found) == sorted(expected)
            for h in range(HOSTS):
                first_first = [row for row in found if row[0] == h]
                assert first_first == [row for row in expected if row[0] == h]
            pending = []
    found, values = drum.hosts.lookup(np.arange(HOSTS, dtype=np.uint64))
    for h, known, record, count in zip(
        range(HOSTS), found, records_of(values), values["released"].tolist(), strict=True
    ):
        assert (record.failures, count) == (failures[h], released[h]) if known else not (failures[h] or released[h])


def test_hosts_that_failed_are_counted_until_they_answer_or_a_url_of_them_is_put_back(tmp_path: Path) -> None:
    drum = Drum(tmp_path)
    failing = {
        0: HostRecord(rests_until=9.0, failure=Reason.TLS),
        1: HostRecord(denials=1),
        2: HostRecord(rests_until=9.0, dead=Reason.DNS),
    }
    drum.hosts.pend_batch(state_batch(failing.items()), OP_STATE)
    drum.hosts.pend_batch(keyed_by_host(link_batch([0, 1, 2, 3], 0)), OP_NEW)
    drum.merge()
    assert counted(drum) == {"tls": 1, "no_robots": 1, "given_up": 1}
    drum.hosts.pend_batch(
        state_batch([(0, HostRecord(answered_at=9.0)), (3, HostRecord(rests_until=9.0, failure=Reason.DNS))]), OP_STATE
    )
    drum.hosts.pend_batch(keyed_by_host(link_batch([2, 2], 4)), OP_RETURNED)
    drum.merge()
    assert counted(drum) == {"no_robots": 1, "dns": 1}


def counted(drum: Drum) -> dict[str, int]:
    return {name: number for name, number in zip(STANDINGS, drum.standings.tolist(), strict=True) if number}


@given(st.ip_addresses(), st.floats(1, 1e10))
def test_an_address_survives_its_record(address: object, until: float) -> None:
    record = HostRecord()
    record.set_address(str(address), until)
    (back,) = records_of(state_batch([(7, record)]))
    assert back == record
    assert back.address_at(until - 1) == str(address)
    assert back.address_at(until) is None
