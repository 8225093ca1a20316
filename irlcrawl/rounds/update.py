"""`irlcrawl update`: what fetches of lists brought is taken into the crawl.

The streams of a list were kept for it when it was made, so the files of a fetch have names that nothing else has. They
are put where a worker of the crawl would have written them, archives first, and one commit names the streams and ends
the list. From then on they are streams of dead workers, and the crawl is opened as after any death: harvests are folded
by their places, hosts learn, and what was not fetched is leased as before.

A kill before the commit leaves files that nothing names: the same command puts them there again. After it the list is
not out any more, so that the same command takes nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import NamedTuple

from drum import Edits, Files

from irlcrawl.base.clock import Clock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import LIST, parse_harvest, parse_rules_log, temporary
from irlcrawl.cluster.shipping import PIECE_BYTES
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.crawl import recovery
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.frontier.politeness.clocks import REBOOT
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.frontier.state.runs import LISTS
from irlcrawl.rounds.fetch import harvests, recover
from irlcrawl.rounds.fetch_list import Head, head_of
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.archive.warc import warc_files
from irlcrawl.worker.harvest.rules_log import PART


class Back(NamedTuple):
    """A fetch that was looked at. `taken`: its list was out; else it was back already, or its date had passed."""

    path: str
    segment: int
    taken: bool


async def update(
    state: CrawlState, config: Config, clock: Clock, fetches: Sequence[JobDir], bar: Bar | None = None
) -> list[Back]:
    """Take in what lies in the directories of fetches, each of them locked, as JOB is. bar: shows how far what lies on
    another disk is copied. ConfigError before anything was changed; OSError, Damaged."""
    files = state.files
    heads = [_head(files, state, each) for each in fetches]
    backs = list[Back]()
    for fetch, head in zip(fetches, heads, strict=True):
        lent = state.runs.lent.get(head.segment)
        taken = lent is not None and lent.id == head.id
        if taken:
            recover(files, fetch, head, clock)
            _keep_promises(files, fetch, state.job)
            _end_list(state, head, _bring(files, fetch, state.job, head, bar or Bar()))
        backs.append(Back(str(fetch.path), head.segment, taken))
    if any(back.taken for back in backs):
        loop = CrawlLoop(state, config, clock)
        await loop.open(None, list(state.streams))
        loop.bring_all()
        loop.stop(ExitCode.INTERRUPTED)
        await loop.run()
    return backs


def _head(files: Files, state: CrawlState, fetch: JobDir) -> Head:
    path = os.path.join(fetch.state, LIST)
    if not files.exists(path):
        raise ConfigError(f"{fetch.path}: no list was fetched into it")
    head = head_of(files, path)
    if head.crawl != state.crawl_id:
        raise ConfigError(f"{fetch.path}: the list that was fetched into it is another crawl's")
    return head


def _bring(files: Files, fetch: JobDir, job: JobDir, head: Head, bar: Bar) -> list[int]:
    """Put the files of a fetch into JOB; the streams that they are of. Harvests last: they point to the others."""
    own = range(head.first, head.first + head.streams)
    archives = [file for file in warc_files(files, str(fetch.warcs)) if file.stream in own]
    texts = [name for name in files.listdir(fetch.state) if (parse_rules_log(name) or 0) % PART in own]
    told = [name for name in harvests(files, fetch) if (parse_harvest(name) or (0,))[0] in own]
    bar.stage("archives", sum(files.size(os.path.join(fetch.warcs, file.name)) for file in archives))
    for file in archives:
        _put(files, os.path.join(fetch.warcs, file.name), os.path.join(job.warcs, file.name), bar)
    bar.stage("harvests", sum(files.size(os.path.join(fetch.state, name)) for name in (*texts, *told)))
    files.fsync_dir(job.warcs)
    for name in [*texts, *told]:
        _put(files, os.path.join(fetch.state, name), os.path.join(job.state, name), bar)
    files.fsync_dir(job.state)
    return sorted({file.stream for file in archives} | {(parse_harvest(name) or (0,))[0] for name in told})


def _keep_promises(files: Files, fetch: JobDir, job: JobDir) -> None:
    """Into JOB's leases.log goes what DIR's has: a fetch that was killed had requests in flight that no archive tells
    of. After a reboot all clocks of JOB wait for their gap anyway."""
    known, fetched = LeaseLog.read(files, job.leases), LeaseLog.read(files, fetch.leases)
    promises = [promise for promise in fetched.promises if promise.kind != REBOOT]
    if promises and not known.rebooted:
        log = LeaseLog(files, job.leases)
        log.roll(known.promises + promises)
        log.close()


def _end_list(state: CrawlState, head: Head, streams: Sequence[int]) -> None:
    edits = Edits()
    for stream in streams:
        state.streams[stream] = dict(recovery.NEW_STREAM)
        edits.set(f"streams/{stream}", state.streams[stream])
    edits.remove(f"{LISTS}{head.segment}")
    state.catalog.commit(edits)
    del state.runs.lent[head.segment]


def _put(files: Files, old: str, new: str, bar: Bar) -> None:
    """The same file in another directory: under both names where they are on one disk, else copied. It changes no
    more. Durable but for its name."""
    if files.exists(new) and files.size(new) == files.size(old):
        return
    files.unlink(new, missing_ok=True)
    try:
        files.link(old, new)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        _copy(files, old, new, bar)


def _copy(files: Files, old: str, new: str, bar: Bar) -> None:
    files.unlink(temporary(new), missing_ok=True)
    source, copy = files.open(old), files.create(temporary(new))
    try:
        at = 0
        while data := files.pread(source, PIECE_BYTES, at):
            files.write(copy, data)
            at += len(data)
            bar.read(len(data))
        files.fsync(copy)
    finally:
        files.close(source)
        files.close(copy)
    files.rename(temporary(new), new)
