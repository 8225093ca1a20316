"""The verbs that change how a crawl goes on: `crawl`, `resume`, `stop` and `retry`. What is heavy is imported
where it is needed."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDamaged, JobDir, JobError, command
from irlcrawl.base.job_files import COMPRESSED, SEEDS_STREAM, harvest_name, returns_name
from irlcrawl.cli.alone import check_alone
from irlcrawl.cli.filters import host_named
from irlcrawl.cli.open_files import FILES_MIN, allow_all
from irlcrawl.config.checks import changes, check_resume, check_start, validate
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import load, load_stored, to_toml
from irlcrawl.crawl import status as status_record
from irlcrawl.crawl.control import ask
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import progress_for, reader_may_leave, unheard

if TYPE_CHECKING:
    from irlcrawl.crawl.returns import Drawing, Selection

Counts: TypeAlias = Counter[tuple[str, str]]
"""(outcome, reason) -> URLs."""

STOP_WAIT_SECONDS = 30.0
"""A clean stop takes at most 10 s; after this long something is wrong, and a person should know."""

RETRY_ROUNDS, RETRY_ANSWER_SECONDS, RETRY_WAIT_SECONDS = 5, 30.0, 2.0
"""A crawl that starts, ends, or takes in other URLs meanwhile is asked again so often."""

LOG_BYTES_MAX = 10_000_000
LOGS_KEPT = 3
"""How many older files are kept beside logs/irlcrawl.log."""


def crawl(args: argparse.Namespace, apply_options: Callable[[Config, argparse.Namespace], None]) -> int:
    """Check everything, then take JOB and crawl. Nothing is created or changed before all checks have passed."""
    # Until the crawl listens to signals itself, both end it the same way: nothing was begun (main.py, _guarded).
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that is closed ends no crawl
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # asked too early how far it is, a crawl does not answer
    job = JobDir(args.job)
    job.check_configured()
    if not args.seeds and not args.urls and args.ranks is None:
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
        progress = progress_for(status_record.VIEW, quiet=args.quiet)
        _log_to(job.own_log, progress.note)
        _tell_changes(changed, None if args.quiet else progress.note)
        try:
            code = ExitCode(run_crawl(job, config, seeds, progress=progress))
        finally:
            progress.close()
    if not args.quiet:
        with unheard(sys.stdout):
            _tell_end(job, code, args.job, config)
    return code


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
    """The configuration to crawl with, and its differences from that of the crawl that is here."""
    try:
        old = load_stored(job.config_file) if job.exists() else None
    except JobDamaged:
        from irlcrawl.frontier.state.formats import check_before_config

        check_before_config(job.state)
        raise
    config = load(args.config, args.set, base=old)
    apply_options(config, args)
    validate(config)
    if config.fetch.tls_ca_file:  # a resumed crawl may be started elsewhere
        config.fetch.tls_ca_file = os.path.abspath(config.fetch.tls_ca_file)
    if config.network.proxy_logins_file:
        config.network.proxy_logins_file = os.path.abspath(config.network.proxy_logins_file)
    for site in config.site.values():
        if site.secrets_file:
            site.secrets_file = os.path.abspath(site.secrets_file)
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
    if (args.ranks is None) != (args.top is None):
        raise ConfigError("--ranks FILE and --top N go together: the first N domains of the file are seeds")
    if args.top is not None and args.top < 1:
        raise ConfigError(f"--top {args.top}: takes a whole number, at least 1")
    if not args.seeds and not args.urls and args.ranks is None:
        return []
    from irlcrawl.crawl.seeds import SeedsError, read_ranks, read_seeds

    try:
        seeds = read_seeds(args.seeds, args.urls)
        return seeds if args.ranks is None else seeds + read_ranks(args.ranks, args.top)
    except SeedsError as error:
        raise ConfigError(f"malformed seeds; nothing was started\n{error}") from error


def _dry_run(job: JobDir, config: Config, seeds: int) -> int:
    with reader_may_leave():
        print(to_toml(config), end="")
    verb = "resume" if job.exists() else "create"
    print(f"would {verb} {job.path} with {words.plural(seeds, 'seed')}; nothing was touched", file=sys.stderr)
    return ExitCode.DONE


def _log_to(file: Path, note: Callable[[str], None]) -> None:
    """The program's own log: all events go to `file` (bounded), those that a person should know also to `note`."""
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
    to_file.namer, to_file.rotator = (lambda name: name + COMPRESSED), pack
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
    """Print how the crawl ended, what it did, and what to look at next."""
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
    """The option that raises the limit which the crawl has reached."""
    limits = config.limits
    if limits.pages and (record["fetched"] or 0) >= limits.pages:
        return "--limits-pages"
    return "--limits-bytes" if limits.bytes and (record["bytes"] or 0) >= limits.bytes else "--frontier-bytes-max"


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
    for _ in range(RETRY_ROUNDS):
        running = ask(job.socket, "status") is not None
        counts = (_retry_beside if running else _retry_alone)(job, config, selection)
        if counts is not None:
            with unheard(sys.stdout):
                _tell_returned(counts, running, args.job)
            return ExitCode.DONE
    raise JobError(f"{job.locked_by()}, which starts or ends, or takes in other URLs, each time; run the command again")


def _drawing(job: JobDir, selection: Selection) -> Drawing | None:
    """What the selection chooses now; None before the first commit."""
    from drum.sectors import Sectors

    from irlcrawl.crawl.returns import Drawing
    from irlcrawl.frontier.state import formats

    try:
        return Drawing(job, formats.look(job.state), Sectors(), selection)
    except FileNotFoundError:
        return None


def _dry_retry(job: JobDir, selection: Selection) -> ExitCode:
    """The same lines as `urls` prints."""
    drawing = _drawing(job, selection)
    with reader_may_leave():
        for entry in drawing.entries() if drawing is not None else ():
            print(entry.status, entry.reason, entry.url.decode(), sep="\t")
    return ExitCode.DONE


def _retry_alone(job: JobDir, config: Config, selection: Selection) -> Counts | None:
    """Write the harvest that the next start takes in; how many URLs of each (outcome, reason) it has."""
    from drum import Files

    from irlcrawl.crawl.returns import write

    with job:
        check_alone(job)
        drawing = _drawing(job, selection)
        if drawing is None:
            return Counter()
        path = job.state / harvest_name(SEEDS_STREAM, drawing.number)
        write(Files(), os.fspath(path), drawing.number, drawing.rows(config))
        return drawing.counts


def _retry_beside(job: JobDir, config: Config, selection: Selection) -> Counts | None:
    """Hand a harvest over to the crawl that runs; None when it did not take that one, and another may do."""
    from drum import Files

    from irlcrawl.crawl.returns import BUSY, TAKEN, write

    drawing = _drawing(job, selection)
    if drawing is None:
        return Counter()
    path = job.state / returns_name(os.getpid())
    try:
        if not write(Files(), os.fspath(path), drawing.number, drawing.rows(config)):
            return drawing.counts
        answer = ask(job.socket, "retry", seconds=RETRY_ANSWER_SECONDS, file=path.name)
    except FileNotFoundError:  # a turn took in, and deleted, what had waited for it
        return None
    finally:
        path.unlink(missing_ok=True)  # one that was taken has another name now
    if answer == BUSY:
        job.wait_unlocked(RETRY_WAIT_SECONDS)
    return drawing.counts if answer == TAKEN else None


def _tell_returned(counts: Counts, running: bool, name: str) -> None:
    if not counts:
        print("nothing to put back: no URL that is done is one of these")
        return
    told = ", ".join(f"{words.count(urls)} {outcome} ({reason})" for (outcome, reason), urls in counts.most_common())
    print(f"put back {words.plural(sum(counts.values()), 'URL')}: {told}")
    print("the crawl asks for them from its next turn on" if running else f"go on:     {command('resume', name)}")
