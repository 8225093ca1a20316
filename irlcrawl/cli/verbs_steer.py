"""The verbs that steer a crawl, whether it runs or not: `set`, `block`, `unblock`, `pause`, `unpause`, `prefer`,
`seeds`, `retry`, `revisit`. Heavy modules are imported where they are needed."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, command
from irlcrawl.cli.filters import host_named, page_named
from irlcrawl.cli.hand_in import hand_in, hand_in_seeds, tell_handed_in
from irlcrawl.cli.steer import steer
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import load_stored
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import bar_for, beside_output, reader_may_leave, unheard

if TYPE_CHECKING:
    from drum import Catalog, Files

    from irlcrawl.crawl.orders import Order
    from irlcrawl.crawl.returns import Drawing, Selection

Counts: TypeAlias = Counter[tuple[str, str]]
"""(outcome, reason) -> URLs."""


def set_keys(args: argparse.Namespace) -> int:
    """Change keys of the configuration; without any, take irlcrawl.toml over as it was edited."""
    return steer(args.job, "set" if args.changes else "reload", args.changes)


def block(args: argparse.Namespace) -> int:
    return steer(args.job, args.verb, _names_and_patterns(args))


def pause(args: argparse.Namespace) -> int:
    return steer(args.job, args.verb, args.names)


def prefer(args: argparse.Namespace) -> int:
    if args.off == (args.weight is not None):
        raise ConfigError("prefer takes --weight N or --off")
    return steer(args.job, "prefer", [args.what, "off" if args.off else str(args.weight)])


def _names_and_patterns(args: argparse.Namespace) -> list[str]:
    from irlcrawl.crawl.steering import PATTERN

    if not args.names and not args.pattern:
        raise ConfigError(f"{args.verb} takes names of hosts or sites, or --pattern")
    return [*args.names, *(PATTERN + pattern for pattern in args.pattern)]


# -- URLs that are handed in -------------------------------------------------------------------------------------------


def seeds(args: argparse.Namespace, read: Callable[[argparse.Namespace], list[bytes]]) -> int:
    job = JobDir(args.job).require()
    job.check_usable()
    urls = read(args)
    if not urls:
        of_files = (
            f"none in {', '.join(args.seeds)}" if args.seeds else "URL, --seeds FILE, or --ranks FILE with --top N"
        )
        raise ConfigError(f"no seeds: {of_files}")
    running = hand_in_seeds(job, urls)
    tell_handed_in(args.job, len(urls), running)
    return ExitCode.DONE


def retry(args: argparse.Namespace) -> int:
    """Put URLs back: into the running crawl, or for the next start."""
    from irlcrawl.crawl.returns import Selection

    job = JobDir(args.job).require()
    hosts = tuple(name.encode() for name in map(host_named, args.host) if name is not None)
    selection = Selection(tuple(args.reason), tuple(args.status), hosts)
    if args.dry_run:
        return _dry_retry(job, selection)
    job.check_usable()
    config = load_stored(job.config_file)
    counts: Counts = Counter()

    def make(catalog: Catalog, path_of: Callable[[int], str]) -> str | None:
        from drum import Files

        from irlcrawl.crawl.returns import Drawing, write
        from irlcrawl.worker.archive.shown_log import shown_reads

        nonlocal counts
        with shown_reads(job, bar_for, times=2) as files:
            drawing = Drawing(job, catalog, files, selection)
            write(Files(), path_of(drawing.number), drawing.number, drawing.rows(config))
        counts = drawing.counts
        return f"put back {words.plural(sum(counts.values()), 'URL')}" if counts else None

    given = {"reason": args.reason, "status": args.status, "host": args.host}
    arguments = [f"--{name}={value}" for name, values in given.items() for value in values]
    running = hand_in(job, "retry", arguments, make)
    with unheard(sys.stdout):
        _tell_returned(counts, running, args.job)
        if not args.status:
            _tell_resting(job, selection, args.job)
    return ExitCode.DONE


def revisit(args: argparse.Namespace) -> int:
    """Order visits to pages, or make pages of what was fetched earlier: of the running crawl, or for the next start."""
    job = JobDir(args.job).require()
    job.check_usable()
    config = load_stored(job.config_file)
    if not config.revisit.enabled:
        raise ConfigError(f"revisit.enabled is false; to switch it on: {command('set', args.job)} revisit.enabled=true")
    if not args.what and not args.match and not args.earlier:
        raise ConfigError("revisit takes URLs, hosts, --match or --earlier")
    order, make = _order(job, args), _earlier if args.earlier else _orders
    count, told = 0, ""

    def made(catalog: Catalog, path_of: Callable[[int], str]) -> str | None:
        nonlocal count, told
        count = make(job, config, catalog, order, path_of)
        urls, pages = words.plural(count, "URL"), words.plural(count, "page")
        told = f"made pages of {urls} that were fetched earlier" if args.earlier else f"ordered visits to {pages}"
        return told if count else None

    earlier = ["--earlier"] if args.earlier else []
    asked = [*args.what, *(f"--match={pattern}" for pattern in args.match), *earlier]
    running = hand_in(job, "revisit", asked, made)
    with unheard(sys.stdout):
        if count:
            print(told)
            print("the crawl begins within seconds" if running else f"go on:     {command('resume', args.job)}")
        elif args.earlier:
            print("none of these is a URL that was fetched well and is no page")
        else:
            print("no page between two visits is one of these")
    return ExitCode.DONE


def _order(job: JobDir, args: argparse.Namespace) -> Order:
    """ConfigError for a URL that is none."""
    from irlcrawl.crawl.orders import Order

    urls, hosts = [], []
    for asked in args.what:
        if "/" in asked:
            urls.append(page_named(job, asked, bar_for))
        elif (name := host_named(asked)) is not None:
            hosts.append(name.encode())
    return Order(tuple(urls), tuple(hosts), tuple(args.match))


def _orders(job: JobDir, config: Config, catalog: Catalog, order: Order, path_of: Callable[[int], str]) -> int:
    """A harvest of orders for pages; how many."""
    from drum import Files
    from drum.sectors import Sectors

    from irlcrawl.ask.outcomes import entries_of
    from irlcrawl.ask.shown_state import shown_waiting
    from irlcrawl.crawl.orders import next_number
    from irlcrawl.crawl.returns import write

    number = next_number(job, catalog, Sectors())
    with shown_waiting(job, bar_for) as files:
        rows = order.rows(job, config, lambda url: entries_of(job, url, bar_for, files), files)
        return write(Files(), path_of(number), number, rows, "signals")


def _earlier(job: JobDir, config: Config, catalog: Catalog, order: Order, path_of: Callable[[int], str]) -> int:
    """A harvest of URLs that were fetched earlier and are to be pages; how many."""
    from drum import Files
    from drum.sectors import Sectors

    from irlcrawl.crawl import earlier
    from irlcrawl.crawl.orders import next_number
    from irlcrawl.crawl.returns import write
    from irlcrawl.worker.archive.shown_log import shown_reads

    number = next_number(job, catalog, Sectors())
    with shown_reads(job, bar_for, times=2) as files:
        rows = earlier.rows(job, catalog, config, order, files)
        return write(Files(), path_of(number), number, rows, "signals")


def _drawing(job: JobDir, selection: Selection, files: Files) -> Drawing | None:
    """What the selection chooses now; None before the first commit."""
    from irlcrawl.crawl.returns import Drawing
    from irlcrawl.frontier.state import formats

    try:
        return Drawing(job, formats.look(job.state), files, selection)
    except FileNotFoundError:
        return None


def _dry_retry(job: JobDir, selection: Selection) -> ExitCode:
    """The same lines as `urls` prints."""
    from irlcrawl.worker.archive.shown_log import shown_reads

    with reader_may_leave(), shown_reads(job, beside_output, times=2) as files:
        drawing = _drawing(job, selection, files)
        for entry in drawing.entries() if drawing is not None else ():
            print(entry.status, entry.reason, words.printable(entry.url.decode()), sep="\t")
    return ExitCode.DONE


def _tell_resting(job: JobDir, selection: Selection, name: str) -> None:
    """URLs that failed and are not done: they need not be put back, for they are asked again by themselves."""
    from irlcrawl.ask.obstacles import resting_like
    from irlcrawl.ask.shown_state import shown_waiting

    with shown_waiting(job, bar_for) as files:
        urls, first = resting_like(job, selection.hosts, selection.reasons, files)
    if urls:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(first))
        of_these = " of these" if selection.hosts or selection.reasons else ""
        listed = f"{command('urls', name)} --status queued --with rest"
        print(
            f"at rest after a failure: {words.plural(urls, 'URL')}{of_these}, asked again from {when} on; see {listed}"
        )


def _tell_returned(counts: Counts, running: bool, name: str) -> None:
    if not counts:
        print("nothing to put back: no URL that is done is one of these")
        return
    told = ", ".join(f"{words.count(urls)} {outcome} ({reason})" for (outcome, reason), urls in counts.most_common())
    print(f"put back {words.plural(sum(counts.values()), 'URL')}: {told}")
    print("the crawl asks for them within seconds" if running else f"go on:     {command('resume', name)}")
