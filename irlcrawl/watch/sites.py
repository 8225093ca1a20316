"""Budgets of the sites whose hosts a status record names: read from the state beside the crawl, now and then.

The record itself has no site: to put some into it would cost the crawl look-ups; here they cost only who watches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from drum import Damaged, UnknownVersion

import numpy as np

from budgets.sites import SiteRecord
from irlcrawl.base.job import JobDir, JobError
from irlcrawl.base.keys import name_key
from irlcrawl.base.url import SiteOf
from irlcrawl.frontier.state.view import Reading

SITES_SHOWN = 8
REST_SECONDS, COSTLY_REST = 15.0, 50.0
"""So long what was read is good for; of a large state, so many times as long as reading took."""

Budgets = dict[str, SiteRecord]
"""Site -> what is known of it, in the order in which the record names them."""


class SiteBudgets:
    """monotonic: seconds that only grow."""

    def __init__(self, job: JobDir, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._job, self._monotonic = job, monotonic
        self._due = 0.0
        self._known: Budgets = {}

    def of(self, record: Mapping[str, Any]) -> Budgets:
        """As of the last commit before it was read. What cannot be read is not told: fsck says what is wrong."""
        if (began := self._monotonic()) >= self._due:
            try:
                self._known = _read(self._job, hosts_of(record))
            except (Damaged, UnknownVersion, JobError, OSError):
                self._known = {}
            now = self._monotonic()
            self._due = now + max(REST_SECONDS, COSTLY_REST * (now - began))
        return self._known


def hosts_of(record: Mapping[str, Any]) -> list[str]:
    """The names of hosts in a record: those with most URLs, then those visited now, then the slowest."""
    largest = (record["per_host_queue_size"] or {}).get("largest") or {}
    named = [*largest, *(record["fetching"] or {})]
    bare = [host.partition("://")[2].rpartition(":")[0] for host in named]
    return list(dict.fromkeys([*bare, *(record["slowest_hosts"] or {})]))


def _read(job: JobDir, hosts: list[str]) -> Budgets:
    if not hosts or (reading := Reading.open(job)) is None:
        return {}
    with closing(reading.pool):
        if not reading.begun:
            return {}
        site_of = SiteOf(reading.config.scope.private_suffixes)
        names = list(dict.fromkeys(map(site_of, hosts)))[:SITES_SHOWN]
        keys = [name_key(name.encode()) for name in names]
        found = reading.sites.records(np.array(keys, np.uint64))
        return {name: found[key] for name, key in zip(names, keys, strict=True) if key in found}
