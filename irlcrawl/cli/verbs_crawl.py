"""What each verb of the command line does; imports what is heavy only where it is needed, so that asking is quick."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from irlcrawl.base.job import ExitCode, JobDir, JobError, command
from irlcrawl.base.reasons import DONE_NAMES
from irlcrawl.cli.open_files import FILES_MIN, allow_all
from irlcrawl.config.checks import changes, check_resume, check_start, validate
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import load, to_toml
from irlcrawl.crawl import status as status_record
from irlcrawl.crawl.control import ControlError, NotOurs, ask
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import progress_for, reader_may_leave, unheard

WATCH_SECONDS = 1.0
STOP_WAIT_SECONDS = 30.0
"""A clean stop takes at most 10 s; after this long something is wrong, and a person should know."""

LOG_BYTES_MAX = 10_000_000
LOGS_KEPT = 3
"""logs/irlcrawl.log, and how many older ones beside it."""

CLASSES = (*DONE_NAMES, "retry")


# -- crawl, resume ----------------------------------------------------------------------------------------------------


def crawl(args: argparse.Namespace, apply_options: Callable[[Config, argparse.Namespace], None]) -> int:
    """Check everything, then take JOB and crawl. Nothing is created or changed before all checks have passed."""
    # Until the crawl listens to signals itself, both end it the same way: nothing was begun (cli.py, _guarded).
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # whoever watches may leave: a terminal that is closed ends no crawl
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # and whoever asks too early how far it is gets no answer
    job = JobDir(args.job)
    job.check_configured()
    if not args.seeds and not args.urls:
        _check_exists(job)
    config, changed = _configuration(job, args, apply_options)
    seeds = _seeds(args)
    if not seeds:
        _check_exists(job)
    job.check_usable()
    _check_open_files()
    if args.dry_run:
        return _dry_run(job, config, len(seeds))
    from irlcrawl.crawl.start import run_crawl

    with job:
        check_alone(job)
        progress = progress_for(quiet=args.quiet)
        _log_to(job.logs / "irlcrawl.log", progress.note)
        _tell_changes(changed, None if args.quiet else progress.note)
        try:
            code = ExitCode(run_crawl(job, config, seeds, progress=progress))
        finally:
            progress.close()
    if not args.quiet:
        with unheard(sys.stdout):
            _tell_end(job, code, args.job, config)
    return code


def check_alone(job: JobDir) -> None:
    """JobLocked when a crawl answers although its locks could be had."""
    try:
        alone = ask(job.socket, "status") is None
    except NotOurs:
        alone = True
    except ControlError:
        alone = False
    if not alone:
        raise job.unlocked_in_use()


def _check_open_files() -> None:
    if (most := allow_all()) < FILES_MIN:
        raise JobError(
            f"`ulimit -Hn` lets a process open {most} files, and a crawl needs {FILES_MIN}: raise that limit"
        )


def _check_exists(job: JobDir) -> None:
    if not job.exists():
        raise ConfigError(f"{job.path}: no crawl here to go on with, and no seeds (URL or --seeds FILE) to start one")


def _configuration(
    job: JobDir, args: argparse.Namespace, apply_options: Callable[[Config, argparse.Namespace], None]
) -> tuple[Config, list[str]]:
    """The configuration to crawl with, and what in it is not as the crawl that is here has it."""
    try:
        old = load(job.config_file) if job.exists() else None
    except ConfigError:
        from irlcrawl.frontier.state.formats import check_before_config

        check_before_config(job.state)
        raise
    config = load(args.config, args.set, base=old)
    apply_options(config, args)
    validate(config)
    if config.fetch.tls_ca_file:  # a resumed crawl may be started elsewhere
        config.fetch.tls_ca_file = os.path.abspath(config.fetch.tls_ca_file)
    check_start(config)
    if old is None:
        return config, []
    check_resume(old, config)
    return config, changes(old, config)


def _tell_changes(changed: list[str], note: Callable[[str], None] | None) -> None:
    import logging

    for text in changed:
        logging.getLogger(__name__).info(text)
        if note is not None:
            note(f"irlcrawl: {text}")


def _seeds(args: argparse.Namespace) -> list[bytes]:
    if not args.seeds and not args.urls:
        return []
    from irlcrawl.crawl.seeds import SeedsError, read_seeds

    try:
        return read_seeds(args.seeds, args.urls)
    except SeedsError as error:
        raise ConfigError(f"malformed seeds; nothing was started\n{error}") from error


def _dry_run(job: JobDir, config: Config, seeds: int) -> int:
    with reader_may_leave():
        print(to_toml(config), end="")
    verb = "resume" if job.exists() else "create"
    print(f"would {verb} {job.path} with {words.plural(seeds, 'seed')}; nothing was touched", file=sys.stderr)
    return ExitCode.DONE


def _log_to(file: Path, note: Callable[[str], None]) -> None:
    """The program's own log: what happened goes to `file` (bounded), what a person should know also to `note`."""
    import gzip
    import logging
    import shutil
    from logging.handlers import RotatingFileHandler

    class ToPerson(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(self.format(record))

    def pack(source: str, target: str) -> None:
        with open(source, "rb") as text, gzip.open(target, "wb") as packed:
            shutil.copyfileobj(text, packed)
        os.unlink(source)

    to_file = RotatingFileHandler(
        file, maxBytes=LOG_BYTES_MAX, backupCount=LOGS_KEPT, encoding="utf-8", delay=True, errors="backslashreplace"
    )
    to_file.namer, to_file.rotator = (lambda name: name + ".gz"), pack
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    to_person = ToPerson(logging.WARNING)
    to_person.setFormatter(logging.Formatter("irlcrawl: %(message)s"))
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(to_file)
    root.addHandler(to_person)
    # On a full disk the log is the least of what cannot be written: no traceback per line of it.
    logging.raiseExceptions = False


def _tell_end(job: JobDir, code: ExitCode, name: str, config: Config) -> None:
    """How the crawl ended, what it did, and what to look at next."""
    record = status_record.read_status(job)
    record["state"] = status_record.ENDED[code]
    print("\n".join(status_record.lines(record)))
    if code in (ExitCode.DISK_FULL, ExitCode.INTERRUPTED, ExitCode.FORCED, ExitCode.TIME_LIMIT):
        print(f"go on:     {command('resume', name)}")
    elif code == ExitCode.SIZE_LIMIT:
        print(f"go on:     {command('resume', name)} {_bound(config, record)} MORE")
    print(f"archives:  {job.warcs}")
    commands = ("urls", name, "--status", "failed"), ("get", name, "URL"), ("inspect", name)
    print(f"look at:   {';  '.join(command(*parts) for parts in commands)}")


def _bound(config: Config, record: dict[str, Any]) -> str:
    """The option that says how large a crawl at its size limit may be."""
    limits = config.limits
    if limits.pages and (record["fetched"] or 0) >= limits.pages:
        return "--limits-pages"
    return "--limits-bytes" if limits.bytes and (record["bytes"] or 0) >= limits.bytes else "--frontier-bytes-max"


# -- asking -----------------------------------------------------------------------------------------------------------


def status(args: argparse.Namespace) -> int:
    job = JobDir(args.job).require()
    pause = threading.Event()
    try:
        with reader_may_leave():
            while _print_status(job, args.json) in status_record.ALIVE and args.watch:
                pause.wait(WATCH_SECONDS)
    except KeyboardInterrupt:
        print()
    return ExitCode.DONE


def _print_status(job: JobDir, as_json: bool) -> str:
    """Print the record once, over the last one on a terminal; returns its state."""
    record = status_record.read_status(job)
    if as_json:
        print(json.dumps(record), flush=True)
    else:
        clear = "\x1b[H\x1b[J" if sys.stdout.isatty() else ""
        print(f"{clear}{job.path}", *status_record.lines(record), "", sep="\n", end="", flush=True)
    return str(record["state"])


def stop(args: argparse.Namespace) -> int:
    job = JobDir(args.job).require()
    if ask(job.socket, "stop") is None:
        if job.is_locked():
            raise JobError(f"{job.locked_by()} but does not answer (it may be starting or ending); try again")
        with unheard(sys.stdout):
            print("not running")
        return ExitCode.DONE
    if not job.wait_unlocked(STOP_WAIT_SECONDS):
        raise JobError(f"{job.locked_by()}, still after {STOP_WAIT_SECONDS:g} s")
    with unheard(sys.stdout):
        print("stopped")
    return ExitCode.DONE


def inspect(args: argparse.Namespace) -> int:
    from irlcrawl.ask.inspect import describe

    with reader_may_leave():
        print("\n".join(describe(JobDir(args.job).require(), args.job)))
    return ExitCode.DONE


# -- getting out ------------------------------------------------------------------------------------------------------


def urls(args: argparse.Namespace) -> int:
    """Lines of status, reason and URL (tab-separated); of `queued`, the place and the URL."""
    job = JobDir(args.job).require()
    found = _queued(job, args) if args.status == "queued" else _outcomes(job, args)
    with reader_may_leave():
        for fields in found:
            print(*fields, sep="\t")
    return ExitCode.DONE


def _outcomes(job: JobDir, args: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    import re

    from irlcrawl.ask.outcomes import outcomes
    from irlcrawl.base.reasons import Reason

    wanted = args.status
    outcome = wanted if wanted in CLASSES else None
    if wanted is not None and outcome is None and not re.fullmatch(r"-?\d{1,4}|[1-5]xx", wanted):
        raise ConfigError(
            f"--status {wanted}: takes a status such as 404 or -1, a class such as 4xx, queued, " + ", ".join(CLASSES)
        )
    reasons = [reason.name.lower() for reason in Reason]
    if args.reason is not None and args.reason not in reasons:
        raise ConfigError(f"--reason {args.reason}: takes one of {', '.join(reasons)}")
    code = wanted if outcome is None else None
    for entry in outcomes(job, status=code, host=_host(args.host), reason=args.reason):
        # A line a URL unless asked for retries; robots.txt (no outcome of these) stands behind no URL of the queue.
        if entry.outcome == outcome or (outcome is None and entry.outcome in DONE_NAMES):
            yield str(entry.status), entry.reason, entry.url.decode()


def _queued(job: JobDir, args: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    from irlcrawl.frontier.state.view import PLACES, queued
    from irlcrawl.worker.archive.log_parts import host_names

    if args.reason is not None and args.reason not in PLACES:
        raise ConfigError(f"--reason {args.reason}: of what is queued it takes one of {', '.join(PLACES)}")
    host = _host(args.host)
    for url, origin, place in queued(job):
        if args.reason in (None, place) and (host is None or host.encode() in host_names(origin)):
            yield "queued", place, url.decode()


def _host(asked: str | None) -> str | None:
    """What --host names, as URLs have it: `name`, or `name:port` where a port was given. ConfigError."""
    from irlcrawl.base.url import SeedError, named_host

    if asked is None:
        return None
    try:
        name, port = named_host(asked)
    except SeedError as error:
        raise ConfigError(f"--host {asked}: {error}") from error
    name = f"[{name}]" if ":" in name else name
    return name if port is None else f"{name}:{port}"


def get(args: argparse.Namespace) -> int:
    from irlcrawl.ask import get as archive_get
    from irlcrawl.ask.outcomes import check_log
    from irlcrawl.base.url import SeedError, seed_url

    job = JobDir(args.job).require()
    try:
        url = seed_url(args.url)
    except SeedError as error:
        raise ConfigError(f"{args.url[:200]!r}: {error}") from error
    try:
        found = archive_get.get(job.path, url, "headers" if args.headers else "record" if args.record else "payload")
    except archive_get.Unavailable as error:
        check_log(job)
        raise JobError(str(error)) from error
    with reader_may_leave():
        sys.stdout.buffer.write(found)
    return ExitCode.DONE
