"""The verbs that start and end a crawl: `crawl`, `resume` and `stop`. Heavy modules are imported where they are
needed."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.interrupt import interrupt_on
from irlcrawl.base.job import JobDamaged, JobDir, JobError, JobLocked, command
from irlcrawl.base.job_files import COMPRESSED
from irlcrawl.cli.alone import check_alone
from irlcrawl.cli.hand_in import hand_in_seeds, tell_handed_in
from irlcrawl.cli.open_files import FILES_MIN, allow_all
from irlcrawl.cli.steer import steer
from irlcrawl.config import commands
from irlcrawl.config.checks import absolute, changes, check_resume, check_start, validate
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import load, load_stored, to_toml
from irlcrawl.crawl import status as status_record
from irlcrawl.crawl.control import ask
from irlcrawl.crawl.means import check_means
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import bar_for, progress_for, reader_may_leave, unheard

STOP_WAIT_SECONDS = 30.0
"""A clean stop takes at most 10 s; after this long something is wrong, and a person should know."""

LOG_BYTES_MAX = 10_000_000
LOGS_KEPT = 3
"""How many older files are kept beside logs/irlcrawl.log."""


def crawl(args: argparse.Namespace, apply_options: Callable[[Config, argparse.Namespace], None]) -> int:
    """Check everything, then take JOB and crawl. Nothing is created or changed before all checks have passed."""
    # Until the crawl listens to signals itself, both end it the same way: nothing was begun (main.py, _guarded).
    interrupt_on(signal.SIGTERM)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that is closed ends no crawl
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # asked too early how far it is, a crawl does not answer
    job = JobDir(args.job)
    job.check_configured()
    if not args.seeds and not args.urls and args.ranks is None and args.top is None:
        _check_exists(job, args)
    config, changed = _configuration(job, args, apply_options)
    if (paused := config.crawl.pause) and args.going_on:
        config.crawl.pause = False
    seeds = read_seeds(args)
    if not seeds:
        _check_exists(job, args)
    job.check_usable()
    _check_open_files()
    if args.dry_run:
        return _dry_run(job, config, len(seeds))
    if job.exists() and ask(job.socket, "status") is not None:
        return _beside(job, args, seeds, changed, paused)
    if config.cluster.ray:
        _on_ray("check", job, config)
    from irlcrawl.crawl.start import run_crawl

    with job:
        check_alone(job)
        if config.cluster.ray:
            _on_ray("up", job, config)
        progress = progress_for(status_record.VIEW, quiet=args.quiet)
        _log_to(job.own_log, progress.note)
        ended = ["crawl.pause was true, now false"] if paused and args.going_on else []
        told = changed + ended + _proxies_left_out(config)
        _tell_changes(told, None if args.quiet else progress.note)
        try:
            code = ExitCode(run_crawl(job, config, seeds, progress=progress))
        finally:
            progress.close()
    with unheard(sys.stdout):
        _tell_end(job, code, args.job, load_stored(job.config_file))
    return code


def _on_ray(action: str, job: JobDir, config: Config) -> None:
    """See to the machines, in a process beside this one, which is about to fork. ConfigError."""
    from irlcrawl.cluster.on_ray import beside

    if beside(action, job.path, config.cluster):
        raise ConfigError(f"cluster.ray = {config.cluster.ray}: no crawl without its machines; without Ray: --ray ''")


def _beside(job: JobDir, args: argparse.Namespace, seeds: list[bytes], changed: list[str], paused: bool) -> int:
    """The crawl runs already: seeds are handed to it, and `resume` ends its pause. JobLocked for anything else. paused:
    by its file, which a crawl that is just taking the pause over is behind."""
    if changed:
        how = command("set", args.job, "SECTION.KEY=VALUE")
        raise JobLocked(f"{job.locked_by()}; to change a crawl while it runs: {how} ({'; '.join(changed)})")
    if seeds:
        tell_handed_in(args.job, len(seeds), hand_in_seeds(job, seeds))
    if paused and args.going_on:
        return steer(args.job, "unpause", [])
    if seeds:
        return ExitCode.DONE
    if paused:
        raise JobLocked(f"{job.locked_by()}; it runs, and is paused; to end the pause: {command('unpause', args.job)}")
    raise JobLocked(f"{job.locked_by()}; it runs: {command('status', args.job)}, {command('stop', args.job)}")


def _check_open_files() -> None:
    if (most := allow_all()) < FILES_MIN:
        raise JobError(
            f"`ulimit -Hn` lets a process open {most} files, and a crawl needs {FILES_MIN}: raise that limit"
        )


def _check_exists(job: JobDir, args: argparse.Namespace) -> None:
    if not job.exists():
        raise ConfigError(f"{job.path}: no crawl here to go on with, and no seeds ({_wanted(args)}) to start one")


def _wanted(args: argparse.Namespace) -> str:
    """Where seeds might have been."""
    files = getattr(args, "seeds", None)
    return f"none in {', '.join(files)}" if files else "URL or --seeds FILE"


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
    config = _laid_over(args, old, apply_options)
    validate(config)
    absolute(config)
    check_start(config)
    check_means(config)
    _check_commands(job, config, old, args)
    if old is None:
        return config, []
    check_resume(old, config)
    return config, changes(old, config)


def _laid_over(
    args: argparse.Namespace, old: Config | None, apply_options: Callable[[Config, argparse.Namespace], None]
) -> Config:
    """File, `-s` and options over what the crawl has. ConfigError tells all that is wrong with any of them."""
    wrong = []
    try:
        config = load(args.config, args.set, base=old)
    except ConfigError as error:
        config, wrong = Config(), [str(error)]
    try:
        apply_options(config, args)
    except ConfigError as error:
        wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))
    return config


def _check_commands(job: JobDir, config: Config, old: Config | None, args: argparse.Namespace) -> None:
    """ConfigError for a command out of a file that was not allowed for this JOB. What was typed is."""
    if not (named := commands.named(config)):
        return
    of_files = commands.named(load(args.config, [], base=old))
    ours = {key: text for key, text in named.items() if args.allow_commands or of_files.get(key) != text}
    commands.check(job.path, {key: text for key, text in named.items() if key not in ours})
    if not args.dry_run:
        commands.allow(job.path, ours)


def _proxies_left_out(config: Config) -> list[str]:
    """What to say of a proxy that only the environment names."""
    names = [name for name in ("http_proxy", "https_proxy", "all_proxy") if os.environ.get(name)]
    if not names or config.network.proxy:
        return []
    return [f"{', '.join(names)} of the environment: not used; a proxy is named by network.proxy"]


def _tell_changes(changed: list[str], note: Callable[[str], None] | None) -> None:
    import logging

    for text in changed:
        logging.getLogger(__name__).info(text)
        if note is not None:
            note(f"irlcrawl: {text}")


def read_seeds(args: argparse.Namespace) -> list[bytes]:
    if (args.ranks is None) != (args.top is None):
        raise ConfigError("--ranks FILE and --top N go together: the first N domains of the file are seeds")
    if args.top is not None and args.top < 1:
        raise ConfigError(f"--top {args.top}: takes a whole number, at least 1")
    if not args.seeds and not args.urls and args.ranks is None:
        return []
    from irlcrawl.crawl import seeds as lists

    bar = bar_for(quiet=getattr(args, "quiet", False)) if _large(args.seeds) else None
    try:
        seeds = lists.read_seeds(args.seeds, args.urls, bar=bar)
        return seeds if args.ranks is None else seeds + lists.read_ranks(args.ranks, args.top)
    except lists.SeedsError as error:
        raise ConfigError(f"seeds are malformed, or cannot be read; nothing was done\n{error}") from error
    finally:
        if bar is not None:
            bar.close()


def _large(files: list[str]) -> bool:
    """Whether reading them is worth a progress bar."""
    from irlcrawl.crawl.seeds import SHOWN_FROM_BYTES

    return any(os.path.isfile(name) and os.path.getsize(name) >= SHOWN_FROM_BYTES for name in files)


def _dry_run(job: JobDir, config: Config, seeds: int) -> int:
    with reader_may_leave():
        print(to_toml(config), end="")
    verb = "resume" if job.exists() else "create"
    would = f"would {verb} {job.path} with {words.plural(seeds, 'seed')}; nothing was touched"
    print(words.shown(would), file=sys.stderr)
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

    class Shown(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return words.shown(super().format(record))

    def pack(source: str, target: str) -> None:
        with open(source, "rb") as text, gzip.open(target, "wb") as packed:
            shutil.copyfileobj(text, packed)
        os.unlink(source)

    to_file = RotatingFileHandler(
        file, maxBytes=LOG_BYTES_MAX, backupCount=LOGS_KEPT, encoding="utf-8", delay=True, errors="backslashreplace"
    )
    to_file.namer, to_file.rotator = (lambda name: name + COMPRESSED), pack
    to_file.setFormatter(Shown("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    to_person = ToPerson(logging.WARNING)
    to_person.setFormatter(Shown("irlcrawl: %(message)s"))
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
    print(words.shown("\n".join(status_record.lines(record))))
    if code in (ExitCode.DISK_FULL, ExitCode.INTERRUPTED, ExitCode.FORCED, ExitCode.TIME_LIMIT):
        print(f"go on:     {command('resume', name)}")
    elif code == ExitCode.SIZE_LIMIT:
        print(f"go on:     {command('resume', name)} {_bound(config, record)} MORE")
    elif code == ExitCode.NOTHING_HAD:
        print(f"go on:     {command('retry', name, *what_to_retry(record))}; {command('resume', name)}")
    print(words.shown(f"archives:  {job.warcs}"))
    commands = ("urls", name, "--status", "errors"), ("get", name, "URL"), ("inspect", name)
    print(f"look at:   {';  '.join(command(*parts) for parts in commands)}")


def what_to_retry(record: dict[str, Any]) -> tuple[str, ...]:
    """Options of `retry` for a crawl that had no page: those that name the most of what it did not have."""
    errors, excluded = status_record.errors_by_reason(record), record["excluded_by_reason"] or {}
    if not errors and excluded:
        return "--reason", max(excluded, key=lambda reason: excluded[reason])
    return ("--status", "errors") if sum(errors.values()) > (record["failed"] or 0) else ()


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
