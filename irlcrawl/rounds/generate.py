"""`irlcrawl generate`: what a crawl would lease next becomes lists, lent until they are back or their date passes.

The crawl is opened as by any start (what a crash left is recovered), turns bring URLs into runs as long as those at
hand do not suffice, and the URLs chosen move from their runs into ready segments of their own, in one commit. A site is
in one list, and so are sites of which hosts are known to share an address, as far as lists can be balanced.

The files are complete under another name before the commit, and get their own after it. So a kill leaves a list that
nothing lent and nobody sees, or one that the next `generate` into the same directory finishes.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from drum import Batch, Edits, Ragged

import numpy as np

from irlcrawl.base.clock import Clock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobError
from irlcrawl.base.job_files import list_name, parse_list
from irlcrawl.base.keys import origin_of
from irlcrawl.base.rows import Robots
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_dict
from irlcrawl.crawl import lists
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.status import ENDED
from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import HostRecord, state_batch
from irlcrawl.frontier.state.runs import LISTS, RUN, Lent
from irlcrawl.rounds.fetch_list import WAITING_RUN, Head, head_of, write

STREAMS = 256
"""Kept for each list: one for each worker of each time that its fetch is begun."""
UNNAMED = ".unnamed"
"""Behind the name of a list that no commit has lent yet."""


@dataclass(frozen=True, slots=True)
class Wish:
    """urls: in all lists together; per_host: of a host, at most (0: as many as it has at hand)."""

    urls: int
    per_host: int
    lists: int
    seconds: float  # until the crawl takes back what did not come back


class Made(NamedTuple):
    """A list on the disk."""

    path: str
    urls: int
    hosts: int


class _Pick(NamedTuple):
    """URLs of a host, the best first: (segment, rows) of each part."""

    host: Host
    parts: list[tuple[int, range]]

    @property
    def rows(self) -> int:
        return sum(len(rows) for _, rows in self.parts)


async def generate(state: CrawlState, config: Config, clock: Clock, wish: Wish, directory: str) -> list[Made]:
    """Lists with fewer URLs than wished where the crawl has no more that may be asked; none if it has none at all.
    `state` is open, and its JOB locked. JobError, OSError, Damaged."""
    _finish(state, directory)
    _check_free(state, directory)
    ended = state.catalog.get("status", {}).get("state")
    loop = CrawlLoop(state, config, clock)
    await loop.open(None, list(state.streams))
    loop.bring_all()
    picks = _picks(loop, wish)
    while sum(pick.rows for pick in picks) < wish.urls:
        before = _waiting(state)
        if not await loop.turns.bring(wish.urls) or _waiting(state) == before:
            break
        picks = _picks(loop, wish)
    made = _lend(state, loop, _spread(picks, wish.lists), clock.now() + wish.seconds, directory) if picks else []
    loop.dispatcher.lend(lists.sites(state))
    loop.dispatcher.runs.committed(state.runs.segments())
    # A crawl that is done, and has nothing to lend, is done.
    as_before = next((code for code, word in ENDED.items() if word == ended and not made), ExitCode.INTERRUPTED)
    loop.stop(as_before)
    await loop.run()
    return made


def _waiting(state: CrawlState) -> tuple[int, ...]:
    """What a turn that brings anything changes. Pages that are not worth a visit yet are looked at by each turn and
    stay, and no time passes here."""
    sites = state.sites
    rows = (store.rows for store in (state.runs, state.calendar, state.rests, state.pages))
    return (*rows, sites.queued_rows, sites.deferred_rows, sites.current, state.seen.pending_rows)


def _finish(state: CrawlState, directory: str) -> None:
    """Lists that were lent, and not named before a kill, get their names."""
    for segment, lent in state.runs.lent.items():
        path = os.path.join(directory, list_name(segment))
        if state.files.exists(path + UNNAMED) and head_of(state.files, path + UNNAMED).id == lent.id:
            state.files.rename(path + UNNAMED, path)
            state.files.fsync_dir(directory)


def _check_free(state: CrawlState, directory: str) -> None:
    """JobError where a list of another crawl, or of this one before JOB was restored, has a name that one of this
    crawl would get: it would be gone."""
    for name in sorted(state.files.listdir(directory)):
        number = parse_list(name)
        if number is not None and number >= state.runs.next:
            path = os.path.join(directory, name)
            raise JobError(f"{path}: a list that this crawl did not lend: move it away, or name another directory")


def _picks(loop: CrawlLoop, wish: Wish) -> list[_Pick]:
    """What would be leased next, hosts in the order of their next URL's worth and of their clocks."""
    dispatcher, found, left = loop.dispatcher, list[_Pick](), wish.urls
    hosts = [host for host in dispatcher.hosts.values() if host.runs and dispatcher.asks(host)]
    for host in sorted(hosts, key=lambda host: (host.runs[0].worth, dispatcher.politeness.due(host))):
        parts, room = [], min(left, wish.per_host or left)
        for run in host.runs:
            rows = range(run.at, min(run.end, run.at + room))
            if rows:
                parts.append((run.segment, rows))
                room -= len(rows)
        if parts:
            found.append(_Pick(host, parts))
            left -= found[-1].rows
    return found


def _spread(picks: Iterable[_Pick], count: int) -> list[list[_Pick]]:
    """The picks of each list that gets any: all of a site go into one, each site into the shortest, unless one of its
    hosts has an address that another list's has."""
    of_site = defaultdict[int, list[_Pick]](list)
    for pick in picks:
        of_site[pick.host.site].append(pick)
    spread, rows, of_address = [list[_Pick]() for _ in range(count)], [0] * count, dict[str, int]()
    for site in of_site.values():
        addresses = [pick.host.address for pick in site if pick.host.address]
        known = [of_address[address] for address in addresses if address in of_address]
        at = known[0] if known else rows.index(min(rows))
        of_address.update(dict.fromkeys(addresses, at))
        spread[at] += site
        rows[at] += sum(pick.rows for pick in site)
    return [each for each in spread if each]


def _lend(state: CrawlState, loop: CrawlLoop, spread: list[list[_Pick]], until: float, directory: str) -> list[Made]:
    catalog, edits, made = state.catalog, Edits(), dict[int, Made]()
    stream = catalog.get("stream-next")
    scope = [entry.decode("ascii") for entry in state.scope.entries()]
    with state.new_segment() as writer:
        for picks in spread:
            urls, index = _rows(state, loop, picks)
            segment = state.runs.add(writer, edits, urls, index.select([*RUN]))
            sites = sorted({pick.host.site for pick in picks})
            lent = state.runs.lent[segment] = Lent(token_hex(8), until - state.clock_set, stream, STREAMS, sites)
            edits.set(f"{LISTS}{segment}", [*lent])
            head = Head(
                state.crawl_id, lent.id, segment, until, stream, STREAMS, state.seed, to_dict(state.config), scope
            )  # fmt: skip
            path = os.path.join(directory, list_name(segment))
            write(state.files, path + UNNAMED, head, urls, index)
            made[segment] = Made(path, urls.rows, index.rows)
            stream += STREAMS
        edits.set("stream-next", stream)
        state.runs.save(lambda: writer, edits)
    for segment in made:
        state.runs.opened(segment)
    state.ledger.check(state.live())
    catalog.commit(edits)
    state.delete_unnamed([])
    _finish(state, directory)
    return list(made.values())


def _rows(state: CrawlState, loop: CrawlLoop, picks: list[_Pick]) -> tuple[Batch, Batch]:
    """(LINK rows, WAITING_RUN rows) of a list; the rows leave their runs."""
    parts = [part for pick in picks for part in pick.parts]
    segments = np.repeat([segment for segment, _ in parts], [len(of) for _, of in parts])
    rows = np.concatenate([np.arange(of.start, of.stop) for _, of in parts])
    urls = state.runs.take(segments, rows)
    state.runs.fold(segments, rows)
    counts = np.array([pick.rows for pick in picks])
    start = np.cumsum(counts) - counts
    now = loop.clock.now()
    wait = [max(0.0, loop.dispatcher.politeness.due(pick.host) - now) for pick in picks]
    records = state_batch((pick.host.key, _without_robots(pick.host.record)) for pick in picks)
    index = records.with_(
        site=np.array([pick.host.site for pick in picks], np.uint64), start=start.astype(np.uint32),
        rows=counts.astype(np.uint32), priority=urls["priority"][start], wait=np.array(wait),
        origin=Ragged.from_list([origin_of(url) for url in urls["url"].take(start).tolist()]),
    )  # fmt: skip
    return urls, index.select([*WAITING_RUN])


def _without_robots(record: HostRecord) -> HostRecord:
    """Texts of robots.txt stay with the crawl: a fetch asks for them."""
    return replace(record, robots=int(Robots.UNKNOWN), robots_until=0.0, rules_log=0, rules_offset=0, rules_length=0)


def directory_for(path: str) -> str:
    """Where lists go; made if it does not exist. OSError."""
    directory = Path(os.path.abspath(path))
    directory.mkdir(parents=True, exist_ok=True)
    return os.fspath(directory)
