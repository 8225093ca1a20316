"""The verbs of batch rounds: `generate`, `fetch` and `update`. Heavy modules are imported by the verbs that need
them."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError, command
from irlcrawl.cli.alone import check_alone
from irlcrawl.cli.open_files import allow_all
from irlcrawl.config import commands
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import from_dict, load_stored
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import bar_for, unheard

if TYPE_CHECKING:
    from irlcrawl.frontier.state.crawl_state import CrawlState

R = TypeVar("R")

HOURS_MAX = 10 * 366 * 24
"""Of --until: what is out longer than ten years is lost."""


def generate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="directory of the crawl, which does not run")
    parser.add_argument("-o", dest="out", metavar="DIR", required=True, help="where the lists go; made if need be")
    parser.add_argument("--urls", metavar="N", type=int, required=True, help="URLs in all lists together, at most")
    parser.add_argument(
        "--per-host", metavar="N", type=int, default=0, help="URLs of a host, at most. 0: off (default)"
    )
    parser.add_argument("--lists", metavar="K", type=int, default=1, help="how many lists (default: %(default)s)")
    parser.add_argument(
        "--until", metavar="HOURS", type=float, default=24.0,
        help="hours after which the crawl takes back what did not come back (default: %(default)s)",
    )  # fmt: skip


def fetch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("list", metavar="LIST", help="file that `generate` wrote")
    parser.add_argument(
        "-o", dest="out", metavar="DIR", required=True, help="where archives and harvests go; made if need be"
    )
    parser.add_argument("--workers", metavar="N", type=int, default=0, help="how many workers (default: one a core)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def update_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="directory of the crawl, which does not run")
    parser.add_argument("fetches", metavar="DIR", nargs="+", help="directory of a `fetch`, or a copy of it")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def generate(args: argparse.Namespace) -> int:
    """ConfigError, JobError, OSError, Damaged."""
    for option, value, least in (("urls", args.urls, 1), ("per-host", args.per_host, 0), ("lists", args.lists, 1)):
        if value < least:
            raise ConfigError(f"--{option} {value}: takes a whole number, at least {least}")
    if not 0 < args.until <= HOURS_MAX:
        raise ConfigError(f"--until {args.until:g}: takes a number of hours above 0, at most {HOURS_MAX:,}")
    from irlcrawl.rounds.generate import Wish, directory_for
    from irlcrawl.rounds.generate import generate as made_of

    job, wish = _begun(args.job), Wish(args.urls, args.per_host, args.lists, args.until * 3600)
    with job:
        check_alone(job)
        directory = directory_for(args.out)
        made = _open(job, lambda state, config: made_of(state, config, SystemClock(), wish, directory))
    with unheard(sys.stdout):
        for path, urls, hosts in made:
            print(words.shown(f"{path}: {words.plural(urls, 'URL')} of {words.plural(hosts, 'host')}"))
        if not made:
            print("no list: the crawl has no URL that may be asked now")
    return ExitCode.DONE if made else ExitCode.FAILED


def fetch(args: argparse.Namespace) -> int:
    """ConfigError, JobError, OSError, Damaged."""
    import asyncio

    from drum.sectors import Sectors

    import uvloop

    from irlcrawl.frontier.dispatch.machine_clocks import machine_clocks
    from irlcrawl.frontier.state.lease_log import boot_id
    from irlcrawl.rounds.fetch import Fetch, Told, WorkerDied, adopt
    from irlcrawl.rounds.fetch_list import head_of
    from irlcrawl.web.opt_out import OptOutFile
    from irlcrawl.worker.fetch.process import Process, start_worker

    if args.workers < 0:
        raise ConfigError(f"--workers {args.workers}: takes a whole number, at least 0")
    job, files, clock = JobDir(args.out), Sectors(), SystemClock()
    if job.exists():
        raise ConfigError(f"{job.path}: the JOB of a crawl; a fetch needs a directory of its own")
    until = head_of(files, args.list).until
    logging.basicConfig(stream=sys.stderr, format="irlcrawl: %(message)s", level=logging.WARNING)
    allow_all()

    def start(stream: int) -> tuple[Process, socket.socket]:
        return start_worker(job.path, job.lock_fds)

    bar = bar_for(quiet=args.quiet)

    async def run() -> Told:
        head = adopt(files, job, args.list)
        config = from_dict(head.config)
        OptOutFile.of_crawl(config, os.fspath(job.opt_outs))  # which may not have come with the list
        machine = machine_clocks(config, clock, boot_id(files))
        fetching = Fetch(job, head, clock, files, machine, bar)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, fetching.stop)
        return await fetching.run(start, args.workers or os.cpu_count() or 1)

    with job:
        try:
            told = uvloop.run(run())
        except WorkerDied as error:
            print(words.shown(f"irlcrawl: {error}; the same command goes on"), file=sys.stderr)
            return ExitCode.FAILED
        finally:
            bar.close()
    with unheard(sys.stdout):
        print(f"{words.count(told.done)} of {words.plural(told.urls, 'URL')} done")
        if told.over and told.done < told.urls:
            left = words.plural(told.urls - told.done, "URL")
            print(f"{left} left to the crawl: of hosts that are silent or may not be asked soon")
        elif not told.over and clock.now() >= until:
            print(f"the list was lent until {time.strftime('%Y-%m-%d %H:%M', time.localtime(until))}: that has passed")
    return ExitCode.DONE if told.over else ExitCode.INTERRUPTED


def update(args: argparse.Namespace) -> int:
    """ConfigError, JobError, OSError, Damaged."""
    from irlcrawl.rounds.update import update as taken_in

    job = _begun(args.job)
    fetches = [JobDir(path) for path in dict.fromkeys(map(os.path.abspath, args.fetches))]
    for each in fetches:
        if each.exists() or not each.state.is_dir():
            raise ConfigError(f"{each.path}: no list was fetched into it")
    with job, ExitStack() as stack:
        check_alone(job)
        for each in fetches:
            stack.enter_context(each)
        bar = bar_for(quiet=args.quiet)
        stack.callback(bar.close)
        backs = _open(job, lambda state, config: taken_in(state, config, SystemClock(), fetches, bar))
    with unheard(sys.stdout):
        for back in backs:
            told = "taken in" if back.taken else "nothing taken: its list is back already, or its date has passed"
            print(words.shown(f"{back.path}: {told}"))
        print(f"go on:     {command('resume', args.job)}")
    return ExitCode.DONE


def _begun(path: str) -> JobDir:
    """A JOB with a state. JobError."""
    job = JobDir(path).require()
    if not job.has_catalogue():
        raise JobError(f"{job.path}: its crawl has taken no seeds yet; crawl first, if only with limits.pages=1")
    return job


def _open(job: JobDir, work: Callable[[CrawlState, Config], Awaitable[R]]) -> R:
    """`work` with the state of a crawl that is locked and does not run. Commands of its configuration run for archives
    that come back, so they must have been allowed."""
    from drum.sectors import Sectors

    import uvloop

    from irlcrawl.crawl import journal
    from irlcrawl.frontier.state.crawl_state import CrawlState

    config = load_stored(job.config_file)
    commands.check(job.path, commands.named(config))

    async def opened() -> R:
        state = CrawlState.open(job, config, SystemClock(), Sectors())
        try:
            journal.note_start(job, state.files, state.clock.now(), state.edited, state.given)
            if owing := sorted({known["node"] for known in state.streams.values() if known.get("node")}):
                raise JobError(
                    f"{job.path}: machines have something to hand over ({', '.join(owing)}): let the crawl run with "
                    "cluster.listen until they have, and stop it"
                )
            return await work(state, config)
        finally:
            state.close()

    return uvloop.run(opened())
