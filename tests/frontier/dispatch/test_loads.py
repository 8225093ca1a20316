"""How many more URLs of each host may go into runs, against one host at a time in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.config.keys import Config
from irlcrawl.frontier.dispatch.loads import EXCHANGE_S, PROBE_RESTS, Loads
from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.politeness.politeness import Politeness
from irlcrawl.frontier.state.hosts import HostRecord, state_batch

NOW = 1000.0
ADDRESSES = ["192.0.2.1", "192.0.2.2", "2001:db8::1", None]
HOST = st.tuples(
    st.sampled_from([0.0, 0.5, 7.0, 400.0]),  # Crawl-delay
    st.sampled_from(ADDRESSES),
    st.sampled_from([NOW - 1, NOW + 100]),  # until when its address is known
    st.sampled_from(["unknown", "gone", "active"]),
    st.integers(0, 600),  # URLs in runs
    st.sampled_from([(0.0, 0), (0.0, 0), (NOW - 9, 0), (0.0, 2)]),  # until when it rested; denials of its robots.txt
)


def expected(
    loads: Loads, config: Config, polite: Politeness, hosts: dict[int, Host], key: int, record: HostRecord, new: int
) -> tuple[int, float, float]:
    host, limits = hosts.get(key), config.politeness
    if host is None and (horizons := (len(hosts) + new) // config.frontier.hosts_active_max):
        return 0, max(limits.gap_host_seconds, record.crawl_delay), NOW + horizons * limits.horizon_seconds
    gap = polite.gap_for(host) if host else max(limits.gap_host_seconds, record.crawl_delay)
    cap = config.frontier.urls_per_host_max
    if gap > 0:
        cap = max(4, min(cap, int(limits.horizon_seconds / gap)))
    address = host.address if host else record.address_at(NOW)
    of_all = loads.address_rows.get(address, 0) if address else 0
    of_address = polite.shared_gaps().get(address or "", limits.gap_address_seconds)
    share = of_address / max(gap, of_address, EXCHANGE_S)  # of its requests, while the host has one
    together = max(loads.rows(host) if host else 0, int(of_all * share))
    due = max(NOW, polite.due(host)) if host else NOW
    if record.probed:
        return (0, 0.0, due + PROBE_RESTS * limits.rest_seconds) if host else (1, 0.0, due + limits.rest_seconds)
    return cap - together, max(gap, EXCHANGE_S), due + max(gap, EXCHANGE_S) * cap


@settings(deadline=None)
@given(st.lists(HOST, max_size=12), st.integers(1, 8), st.sampled_from([0.0, 1.0]), st.sampled_from([0, 2]))
def test_room_pace_and_when_it_is_free(known: list[Any], hosts_max: int, gap: float, sites: int) -> None:
    config = Config()
    config.frontier.hosts_active_max = hosts_max
    config.politeness.gap_host_seconds = gap
    config.politeness.gap_site_seconds = 2 * gap
    config.politeness.shared_address_sites = sites
    polite = Politeness(VirtualClock(NOW), config.politeness)
    hosts: dict[int, Host] = {}
    loads = Loads(config, polite)
    records: dict[int, HostRecord] = {}
    for key, (delay, address, until, where, rows, (rested, denials)) in enumerate(known):
        record = records[key] = HostRecord(crawl_delay=delay, rests_until=rested, denials=denials)
        if address:
            record.set_address(address, until)
        if where == "unknown":
            continue
        host = Host(
            record=record, key=key, name=f"h{key}.test", scheme="http", port=80, site=key // 2 + 1, address=address,
            address_until=until, crawl_delay=delay,
        )  # fmt: skip
        loads.enter(host)
        loads.count(host, rows)
        polite.activate(host)
        loads.told([host])
        if where == "gone":
            loads.count(host, -rows)
            polite.deactivate(host)
            loads.leave(host)
        else:
            hosts[key] = host
    at_hand = loads.at_hand(NOW)
    told, new = [], 0
    for key, record in [*records.items()] * 2:  # newcomers of the first time take room from those of the second
        told.append(expected(loads, config, polite, hosts, key, record, new))
        new += key not in hosts
    for host in hosts.values():  # what the loop learns from now on is nothing to the turn
        loads.count(host, 100)
        polite.clocks.table.next[polite._clocks_of(host)[0]] += 10.0
    found = [at_hand.loads(np.array(list(records), np.uint64), state_batch(records.items())) for _ in range(2)]
    rows = [row for part in found for row in zip(part.room, part.gap, part.free_at, strict=True)]
    assert [tuple(row) for row in rows] == [pytest.approx(row) for row in told]
