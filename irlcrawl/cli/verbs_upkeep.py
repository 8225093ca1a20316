"""The verbs that look after a crawl's files: `fsck`, `verify`, `takedown`, `snapshot`, `snapshots`, `key`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError, JobLocked, check_mounted, command
from irlcrawl.base.job_files import SNAPSHOT
from irlcrawl.cli.alone import check_alone
from irlcrawl.config.keys import ConfigError
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar, bar_for, reader_may_leave, unheard

if TYPE_CHECKING:
    from irlcrawl.config.lists import OptOut
    from irlcrawl.upkeep.findings import Finding
    from irlcrawl.upkeep.fsck import Fsck
    from irlcrawl.upkeep.snapshot import Snapshot
    from irlcrawl.upkeep.takedown import Takedown


def fsck(args: argparse.Namespace) -> int:
    """Check everything of a JOB that does not run. DAMAGED if something is not as it was written and --repair did not
    mend it."""
    from irlcrawl.upkeep.fsck import Fsck

    job = JobDir(args.job)
    if not job.lost_config():  # else it is told like all that is damaged
        job.require()
    is_snapshot = (job.path / SNAPSHOT).exists()
    if is_snapshot and args.repair:
        raise JobError(f"{job.path}: a snapshot stays as it is; make a crawl of it, and repair that")
    check_mounted(job.warcs)  # archives that are away are so one by one
    try:
        if args.repair:
            job.acquire(repairing=True)
        elif not is_snapshot:  # nobody writes to a snapshot
            job.acquire_to_look()
        check_alone(job)
    except JobLocked as error:
        job.release()
        raise JobLocked(
            f"{error}: its files change while it runs; "
            f"stop it, or check a copy: {command('snapshot', args.job, 'NAME')}"
        ) from None
    bar = bar_for(quiet=args.quiet)
    try:
        if args.repair:
            from irlcrawl.upkeep.repair import finish_interrupted

            finish_interrupted(job)
        check = Fsck(job, bar)
        code = _told(check.run(), bar, args.json)
        if args.repair and code == ExitCode.DAMAGED:
            code = _repair(job, check, bar, args.json)
        return code
    finally:
        bar.close()
        job.release()


def _repair(job: JobDir, check: Fsck, bar: Bar, as_json: bool) -> int:
    """Repair the crawl, say what could not be repaired, and check again."""
    from irlcrawl.base.clock import SystemClock
    from irlcrawl.upkeep.fsck import Fsck
    from irlcrawl.upkeep.repair import repair

    if os.fspath(job.config_file) in check.damaged:
        from irlcrawl.upkeep.repair import config_of_last_run

        job.write_config(config_of_last_run(job))
        _say_repair(f"{job.config_file.name}: written down again as the last run had it", as_json)
        check = Fsck(job, bar)  # without it much could not be looked at
        if _told(check.run(), bar, as_json) == ExitCode.DONE:
            return ExitCode.DONE
    damaged, leases = set(check.damaged), job.leases
    if os.fspath(leases) in damaged:  # a start that finds none does what it would do with this one
        leases.unlink()
        damaged.remove(os.fspath(leases))
        _say_repair(f"{leases.name}: deleted, so every host waits for its gap again", as_json)
    if any(not file.startswith(os.fspath(job.warcs)) or file in check.closed_to_starts for file in damaged):
        for told in repair(job, damaged, SystemClock(), bar):
            _say_repair(told, as_json)
    elif damaged:
        _say_repair("archives are not repaired: what a broken record held is gone, and its URL stays done", as_json)
        return ExitCode.DAMAGED
    return _told(Fsck(job, bar).run(), bar, as_json)


def _say_repair(told: str, as_json: bool) -> None:
    _say(json.dumps({"repair": told}) if as_json else told)


def _say(what: object) -> None:
    """Print, even if nobody reads any more: findings and repairs do not depend on the reader."""
    with unheard(sys.stdout):
        print(words.shown(what))


def doctor(args: argparse.Namespace) -> int:
    """Whether this machine is fit for a crawl in DIR. FAILED if something should be done."""
    from irlcrawl.cli.open_files import FILES_MIN
    from irlcrawl.config.toml import load
    from irlcrawl.upkeep.doctor import examine

    ill, config = False, load(args.config)
    checks = examine(Path(args.directory).absolute(), config, args.dependencies, FILES_MIN, args.config is not None)
    with reader_may_leave():
        for check in checks:
            ill = ill or bool(check.advice)
            told = words.shown(check.told)
            print(f"{'look' if check.advice else 'ok':<5}{check.name:<12}{told}", flush=True)
            if check.advice:
                print(f"{'':<17}{words.shown(check.advice)}", flush=True)
    return ExitCode.FAILED if ill else ExitCode.DONE


def signing_key(args: argparse.Namespace) -> int:
    """Make a key to sign requests with. FAILED if there is one already."""
    from irlcrawl.config import signing_key as key

    directory = Path(args.directory).absolute()
    try:
        keyid = key.make(directory)
    except FileExistsError:
        there = f"irlcrawl: {directory / key.KEY_FILE}: is there already; rename it to have a new key beside it"
        print(words.shown(there), file=sys.stderr)
        return ExitCode.FAILED
    print(
        words.shown(f"""\
{directory / key.KEY_FILE}: the private key, for this machine alone
{directory / key.DIRECTORY_FILE}: the key directory, with keyid {keyid}
Serve the directory at https://NAME{key.WELL_KNOWN}
as {key.MEDIA_TYPE}, and configure:
[fetch]
signing_key_file = {json.dumps(str(directory / key.KEY_FILE))}
signature_agent = "https://NAME\"""")
    )
    return ExitCode.DONE


def verify(args: argparse.Namespace) -> int:
    """Check archives alone: those of a JOB, or single files."""
    from drum.sectors import Sectors

    from irlcrawl.upkeep.verify import elsewhere, warcs_of
    from irlcrawl.upkeep.verify import verify as check

    files, paths, notes = Sectors(), list[str](), []
    for what in args.what:
        if not os.path.isdir(what):
            if not os.path.exists(what):
                raise JobError(f"{what}: no such file or directory")
            paths.append(what)
            continue
        warcs = JobDir(what).warcs
        check_mounted(warcs)
        found = list(warcs_of(files, os.fspath(warcs) if warcs.is_dir() else what))
        if not found and not JobDir(what).exists():
            raise JobError(f"{what}: no archives here")
        paths += found
        notes.append(elsewhere(JobDir(what), files))
    bar = bar_for(quiet=args.quiet)
    try:
        return _told(itertools.chain(check(files, paths, bar), *notes), bar, args.json)
    finally:
        bar.close()


def takedown(args: argparse.Namespace) -> int:
    """Take what is stored of some URLs out of a crawl that does not run. FAILED where an archive is away."""
    from irlcrawl.config.toml import load_stored
    from irlcrawl.upkeep.takedown import Takedown, told
    from irlcrawl.web.opt_out import OptOuts
    from irlcrawl.web.spelling import Spelling

    job, now = JobDir(args.job).require(), time.time()
    config = load_stored(job.config_file)
    spelling = Spelling(config.urls, config.site, config.url_rule)
    opt_outs = OptOuts(_named(args, time.strftime("%Y-%m-%d", time.gmtime(now))), spelling.of)
    bar = bar_for(quiet=args.quiet)
    work = Takedown(job, opt_outs, args.reason or "", now, bar)
    if args.dry_run:
        _would_take_down(work)
        return ExitCode.DONE
    check_mounted(job.warcs)
    try:
        with job:
            check_alone(job)
            work.run()
            bar.close()
            done = told(work, _say)
            work.end()
    finally:
        bar.close()
    return ExitCode.DONE if done else ExitCode.FAILED


def _would_take_down(work: Takedown) -> None:
    search = work.search()
    with reader_may_leave():
        for entry, _ in search.found():
            print(entry.status, entry.reason, words.printable(entry.url.decode()), sep="\t")
        for entry in search.bereft:
            url = words.printable(entry.url.decode())
            print(entry.status, entry.reason, url, "not named: its body is stored with one of these", sep="\t")
    for beyond in work.left(search):
        for line in beyond.told("would NOT be cleaned"):
            _say(line)
    if not search.places:
        _say("nothing of what was named is stored here; --host names all URLs of a host")


def _named(args: argparse.Namespace, today: str) -> list[OptOut]:
    """The URLs that the arguments name, as lines of an opt-out list. ConfigError."""
    from irlcrawl.config.lists import opt_out, opt_outs

    chosen = {"url": args.urls, "host": args.host, "site": args.site, "match": args.match}
    lines = [opt_out(kind, what, today) for kind, each in chosen.items() for what in each]
    if lines and not args.reason and not args.dry_run:
        raise ConfigError("--reason: required: the archive has to say why a record was taken down")
    for path in args.opt_out:
        lines += opt_outs(path, "--opt-out")
    if not lines:
        raise ConfigError("nothing named: takes a URL, --host, --site, --match or --opt-out")
    return lines


def snapshot(args: argparse.Namespace) -> int:
    from irlcrawl.upkeep import snapshot as shots

    job = JobDir(args.job).require()
    bar = bar_for()
    try:
        taken = shots.take(job, args.name, bar=bar)
    finally:
        bar.close()
    _say(f"{taken.path}: as of commit {taken.commit}, {words.plural(taken.fetched, 'URL')} fetched")
    return ExitCode.DONE


def snapshots(args: argparse.Namespace) -> int:
    """List snapshots, delete one, or make a crawl of one."""
    from irlcrawl.upkeep import snapshot as shots

    job = JobDir(args.job).require()
    if args.delete is not None:
        shots.delete(job, args.delete)
    elif args.open:
        name, target = args.open
        shots.open_as(job, name, Path(target))
        _say(f"go on from it: {command('resume', target)}")
    else:
        with reader_may_leave():
            for one in shots.snapshots(job):
                print(json.dumps({**vars(one), "path": str(one.path)}) if args.json else words.printable(_line(one)))
    return ExitCode.DONE


def _line(one: Snapshot) -> str:
    taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.taken))
    fetched = words.plural(one.fetched, "URL")
    return f"{one.name:<24} {taken}  commit {one.commit}, {fetched} fetched, {words.size(one.bytes)}"


def _told(findings: Iterable[Finding], bar: Bar, as_json: bool) -> int:
    """Print each finding as it comes, then their sum; returns the exit code."""
    damaged = notes = 0
    for finding in findings:
        damaged, notes = damaged + finding.damage, notes + (not finding.damage)
        if sys.stdout.isatty() and not as_json:
            bar.note(str(finding))
        else:
            _say(json.dumps(vars(finding)) if as_json else finding)
    bar.close()
    if not as_json:
        told = f"{damaged} damaged" if damaged else "all is as it was written"
        _say(f"{told} ({words.plural(notes, 'note')})" if notes else told)
    return ExitCode.DAMAGED if damaged else ExitCode.DONE
