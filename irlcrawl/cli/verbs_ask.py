"""The verbs that ask: `status`, `inspect`, `urls`, `get`, `report`, `why` and `plan`. They lock nothing.

Heavy modules are imported where they are needed, so that asking is quick.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError
from irlcrawl.base.job_files import CRAWL_LOG, node_of
from irlcrawl.cli.filters import host_named, page_named, site_filter, site_named
from irlcrawl.config.keys import ConfigError
from irlcrawl.crawl import status as status_record
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar, bar_for, beside_output, reader_may_leave

if TYPE_CHECKING:
    from drum import Files

    from irlcrawl.config.keys import Site
    from irlcrawl.upkeep.measure import Machine
    from irlcrawl.worker.archive.crawl_log import LogEntry

WATCH_SECONDS = 1.0
DONE = ("fetched", "failed", "excluded", "errors")
OUTCOMES = (*DONE, "retry", "returned")
SHOWN = 20
"""How many are shown without --top."""
CORES_MAX, PAGES_MAX = 100_000, 1e15
"""What a plan can be made for."""


def status(args: argparse.Namespace) -> int:
    job = JobDir(args.job).require()
    pause = threading.Event()
    try:
        with reader_may_leave():
            if args.watch and not args.json:
                from irlcrawl.watch.terminal import show

                show(job)
                return ExitCode.DONE
            while _print_status(job, args.json) in status_record.ALIVE and args.watch:
                pause.wait(WATCH_SECONDS)
    except KeyboardInterrupt:
        print()
    return ExitCode.DONE


def _print_status(job: JobDir, as_json: bool) -> str:
    """Print the record once; returns its state."""
    record = status_record.read_status(job)
    if as_json:
        print(json.dumps(record), flush=True)
    else:
        print(words.shown("\n".join([str(job.path), *status_record.lines(record), ""])), end="", flush=True)
    return str(record["state"])


def config(args: argparse.Namespace) -> int:
    """The reference of all keys; or the values that a crawl in JOB would go by, each with where it comes from."""
    from irlcrawl.config.toml import effective, reference

    with reader_may_leave():
        if args.job is None and args.config is None and not args.set:
            print(reference(), end="")
            return ExitCode.DONE
        job = None if args.job is None else JobDir(args.job).require()
        file = None if job is None else job.config_file
        print(words.shown("\n".join(effective(file, args.config, args.set, args.all))))
    return ExitCode.DONE


def inspect(args: argparse.Namespace) -> int:
    from irlcrawl.ask.inspect import describe

    with reader_may_leave():
        print(words.shown("\n".join(describe(JobDir(args.job).require(), args.job))))
    return ExitCode.DONE


def urls(args: argparse.Namespace) -> int:
    """Lines of status, reason and URL (tab-separated), and of what --with asked for; of `queued`, the place and the
    URL."""
    from irlcrawl.ask.shown_state import shown_waiting
    from irlcrawl.worker.archive.shown_log import shown_reads

    job = JobDir(args.job).require()
    with reader_may_leave():
        if args.status == "queued":
            with shown_waiting(job, beside_output) as files:
                _print_rows(_queued(job, args, files))
        elif args.host is not None or args.site is not None:  # most of it is looked up
            _print_rows(_outcomes(job, args, None))
        else:
            times = 1 if args.status in ("retry", "returned") else 2
            with shown_reads(job, beside_output, times) as files:
                _print_rows(_outcomes(job, args, files))
    return ExitCode.DONE


def parameters(args: argparse.Namespace) -> int:
    """Lines of site, parameter and pages (tab-separated); with --write they are left out of links from now on."""
    from irlcrawl.ask.parameters import idle_parameters
    from irlcrawl.cli.steer import steer
    from irlcrawl.config.lists import PARAMETER
    from irlcrawl.config.toml import load_stored

    if args.pages < 1:
        raise ConfigError("--pages: takes a number of pages, at least 1")
    job = JobDir(args.job).require()
    found = idle_parameters(job, args.pages, bar_for)
    with reader_may_leave():
        for one in found:
            print(words.printable(one.site), words.printable(one.parameter), one.pages, sep="\t")
    if not found:
        pages = words.plural(args.pages, "page")
        print(f"none: no parameter is known by {pages} or more to change nothing (--pages)", file=sys.stderr)
    if not args.write:
        return ExitCode.DONE
    names: dict[str, list[str]] = {}
    for one in found:
        if PARAMETER.fullmatch(one.parameter):
            names.setdefault(one.site, []).append(one.parameter)
    changes = _left_out(load_stored(job.config_file).site, names)
    if changes:
        return steer(args.job, "set", changes)
    print("nothing to write: no parameter that is not left out already is one of these")
    return ExitCode.DONE


def _left_out(sites: Mapping[str, Site], names: Mapping[str, list[str]]) -> list[str]:
    """The changes (KEY=VALUE) that leave parameters of sites out, also for hosts that have `parameters` of their own,
    which would hide those of the site."""
    from irlcrawl.config.overrides import Overrides
    from irlcrawl.config.toml import toml_value

    overrides, changes = Overrides(sites), []
    sections = {name.lower().rstrip("."): name for name in sites}
    for site, fresh in names.items():
        below = (name for known, name in sections.items() if known.endswith(f".{site}"))
        hiding = [name for name in below if sites[name].parameters is not None]
        for section in (sections.get(site, site), *hiding):
            known = overrides.of(section.lower()).parameters or []
            if more := [name for name in fresh if name not in known]:
                changes.append(f"site.{toml_value(section)}.parameters={toml_value([*known, *more])}")
    return changes


def _print_rows(rows: Iterable[tuple[str, ...]]) -> None:
    for fields in rows:
        print(*map(words.printable, fields), sep="\t")


def _outcomes(job: JobDir, args: argparse.Namespace, files: Files | None) -> Iterator[tuple[str, ...]]:
    import re

    from irlcrawl.ask.outcomes import last_words, outcomes
    from irlcrawl.base.reasons import Reason
    from irlcrawl.config.toml import load_stored
    from irlcrawl.crawl.returns import is_error

    wanted = args.status
    outcome = wanted if wanted in OUTCOMES else None
    if wanted is not None and outcome is None and not re.fullmatch(r"-\d{1,4}|0|\d{3}|[1-5]xx", wanted):
        raise ConfigError(
            f"--status {wanted}: takes a status such as 404 or -1, a class such as 4xx, queued, " + ", ".join(OUTCOMES)
        )
    reasons = [reason.name.lower() for reason in Reason]
    if args.reason is not None and args.reason not in reasons:
        raise ConfigError(f"--reason {args.reason}: takes one of {', '.join(reasons)}")
    code = wanted if outcome is None else None
    # A line a URL, unless asked for each time that one was put off, or put back.
    entries = last_words if outcome is None or outcome in DONE else outcomes
    prefix = load_stored(job.config_file).archive.prefix if args.machine else None
    asked = {"host": host_named(args.host), "site": site_named(job, args.site), "reason": args.reason}
    for entry in entries(job, status=code, note=args.note, bar_of=bar_for, files=files, **asked):
        if outcome is None or entry.outcome == outcome or (outcome == "errors" and is_error(entry)):
            told = (entry.notes.get(args.note.partition("=")[0], ""),) if args.note is not None else ()
            yield str(entry.status), entry.reason, entry.url.decode(), *told, *_machine(entry, prefix)


def _machine(entry: LogEntry, prefix: str | None) -> tuple[str, ...]:
    """On which machine its page is archived; `-`: on this one, or nowhere. prefix: archive.prefix; None: not asked."""
    if prefix is None:
        return ()
    return ((entry.warc and node_of(entry.warc[0], prefix)) or "-",)


def _queued(job: JobDir, args: argparse.Namespace, files: Files) -> Iterator[tuple[str, ...]]:
    from irlcrawl.ask.obstacles import OBSTACLES
    from irlcrawl.frontier.state.view import PLACES, TO_FETCH, queued
    from irlcrawl.worker.archive.log_parts import host_names

    if args.reason is not None and args.reason not in PLACES:
        raise ConfigError(f"--reason {args.reason}: of what is queued it takes one of {', '.join(PLACES)}")
    if args.note is not None and args.note.partition("=")[0] not in OBSTACLES:
        raise ConfigError(
            f"--with {args.note}: of URLs that are done; what is queued has no line in the crawl log. Of that it takes "
            f"{' or '.join(OBSTACLES)}"
        )
    host, site = host_named(args.host), site_named(job, args.site)
    in_site = site_filter(job, site)
    places = TO_FETCH if args.reason is None else (args.reason,)
    waiting = queued(job, files, places) if args.note is None else _held_up(job, args.note, files)
    for url, origin, place, *told in waiting:
        if args.reason in (None, place) and (host is None or host.encode() in host_names(origin)) and in_site(url):
            yield "queued", place, url.decode(), *told


def _held_up(job: JobDir, note: str, files: Files) -> Iterator[tuple[bytes, bytes, str, str]]:
    """As `queued`, of URLs that an obstacle holds up, and that in words."""
    from irlcrawl.ask.obstacles import held_up
    from irlcrawl.base.keys import origin_of

    name, _, word = note.partition("=")
    for url, place, told in held_up(job, name, time.time(), files):
        if not word or word in told.split():
            yield url, origin_of(url), place, told


def get(args: argparse.Namespace) -> int:
    from irlcrawl.ask import get as archive_get
    from irlcrawl.ask.outcomes import check_log

    job = JobDir(args.job).require()
    url = page_named(job, args.url, bar_for)
    try:
        found = archive_get.get(job.path, url, "headers" if args.headers else "record" if args.record else "payload",
                                bar_of=bar_for)  # fmt: skip
    except archive_get.Unavailable as error:
        check_log(job)
        raise JobError(str(error)) from error
    with reader_may_leave():
        sys.stdout.buffer.write(found)
    return ExitCode.DONE


def report(args: argparse.Namespace) -> int:
    """Sites by worth and cost; with --politeness, every gap against its rule (FAILED if one was too short); with
    --freshness, how fresh copies are."""
    job = JobDir(args.job).require()
    top = SHOWN if args.top is None else args.top
    if top < 0:
        raise ConfigError(f"--top {top}: takes how many to show")
    if args.politeness + args.freshness + args.steering > 1:
        raise ConfigError("--politeness, --freshness, --steering: one of them")
    if args.steering:
        return _steering(job, args)
    if args.politeness:
        from irlcrawl.ask import politeness_audit

        if args.by is not None:
            raise ConfigError(f"--by {args.by}: orders sites; --politeness shows clocks, closest to their rule first")
        told = politeness_audit.audit(job, top, bar_for)
        _tell(told, partial(politeness_audit.lines, every=args.top is not None), args.json)
        return ExitCode.FAILED if told["broken"] else ExitCode.DONE
    if args.freshness:
        from irlcrawl.ask import freshness

        if args.by is not None:
            raise ConfigError(f"--by {args.by}: orders sites; --freshness shows hosts by the weight of their pages")
        _tell(freshness.freshness(job, top, time.time(), bar_for), freshness.lines, args.json)
        return ExitCode.DONE
    from irlcrawl.ask import report as sites

    _tell(sites.report(job, top, args.by or "reputation", bar_for), sites.lines, args.json)
    return ExitCode.DONE


def _steering(job: JobDir, args: argparse.Namespace) -> int:
    from irlcrawl.crawl import journal

    if args.politeness or args.by is not None:
        raise ConfigError("--steering goes with --top and --json alone")
    steered = journal.read(job)
    with reader_may_leave():
        if not steered and not args.json:
            print("nobody has steered this crawl")
        for one in steered if args.top is None else steered[len(steered) - min(args.top, len(steered)) :]:
            print(json.dumps(one._asdict()) if args.json else words.printable("  ".join(one)))
    return ExitCode.DONE


def why(args: argparse.Namespace) -> int:
    job = JobDir(args.job).require()
    if args.slow == (args.what is not None):
        raise ConfigError("why takes a URL, a host or a site, or --slow")
    if args.slow:
        from irlcrawl.ask import slow

        _tell(slow.slow(job, len(os.sched_getaffinity(0))), slow.lines, args.json)
        return ExitCode.DONE
    from irlcrawl.ask import why as answers

    _tell(answers.why(job, args.what, time.time(), bar_for), answers.lines, args.json)
    return ExitCode.DONE


def plan(args: argparse.Namespace) -> int:
    """What a crawl would need and how fast it would be."""
    from irlcrawl.ask import plan as plans
    from irlcrawl.config.toml import load, load_stored
    from irlcrawl.upkeep.measure import DEVELOPERS, kept, measure

    sizes = {
        name: None if (text := getattr(args, name)) is None else plans.parse_size(f"--{name}", text)
        for name in ("ram", "disk", "bandwidth")
    }
    cores = len(os.sched_getaffinity(0)) if args.cores is None else args.cores
    for name, number, most in (("cores", cores, CORES_MAX), ("pages", args.pages, PAGES_MAX),
                               ("hosts", args.hosts, PAGES_MAX)):  # fmt: skip
        if number is not None and not 1 <= number <= most:
            raise ConfigError(f"--{name} {number:g}: takes a number from 1 to {most:g}")
    machine = _measured(measure) if args.measure else kept() or DEVELOPERS
    pages, at_hand, base = plans.WEB, None, None
    if args.like is not None:
        job = JobDir(args.like).require()
        record, base = status_record.read_status(job), load_stored(job.config_file)
        log = sum(entry.stat().st_size for entry in os.scandir(job.logs) if entry.name.startswith(CRAWL_LOG))
        pages = plans.pages_like(record, log, args.like)
        at_hand = (record["pace"] or {}).get("hosts") or None
    config = load(args.config, base=base)
    hosts = args.hosts or (at_hand if config.politeness.unit == "host" else None)  # it counts no sites or addresses
    means = plans.Means(sizes["ram"], sizes["disk"], sizes["bandwidth"], cores, hosts)
    told = plans.plan(means, machine, pages, config, args.pages)
    _tell(told, plans.lines, args.json)
    return ExitCode.DONE


def _measured(measure: Callable[[Path, Bar], Machine]) -> Machine:
    bar = bar_for()
    try:
        return measure(Path.cwd(), bar)
    finally:
        bar.close()


def _tell(told: dict[str, Any], lines: Callable[[dict[str, Any]], Iterable[str]], as_json: bool) -> None:
    with reader_may_leave():
        print(json.dumps(told) if as_json else words.shown("\n".join(lines(told))))
