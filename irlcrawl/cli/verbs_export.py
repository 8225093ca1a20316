"""The verb `export`: what a crawl has, for other tools. It reads the disk, whether the crawl runs or not."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import ConfigError
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar, bar_for, reader_may_leave

OPTIONS: dict[str, set[str]] = {
    "cdxj": {"output", "jobs"},
}  # fmt: skip
"""What each export takes beside JOB and --quiet."""


def export(args: argparse.Namespace) -> int:
    """Run one export. ConfigError for an option that it does not take."""
    names = {name for taken in OPTIONS.values() for name in taken}
    for name in sorted(names - OPTIONS[args.export]):
        if getattr(args, name) not in (None, False):
            raise ConfigError(f"--{name.replace('_', '-')}: export {args.export} takes no such option")
    if args.jobs is not None and args.jobs < 1:
        raise ConfigError(f"--jobs {args.jobs}: takes how many processes to use")
    job = JobDir(args.job).require()
    bar = bar_for(quiet=args.quiet)
    try:
        with reader_may_leave():
            EXPORTS[args.export](job, args, bar)
    finally:
        bar.close()
    return ExitCode.DONE


def _jobs(args: argparse.Namespace) -> int:
    from irlcrawl.export.processes import cores

    return int(args.jobs or cores())


def _note_open(bar: Bar, still_open: int) -> None:
    if still_open:
        what = words.plural(still_open, "archive is", "archives are")
        bar.note(f"{what} still written to and left out; export again when the crawl has closed them")


def _cdxj(job: JobDir, args: argparse.Namespace, bar: Bar) -> None:
    from drum.files import Files

    from irlcrawl.export import cdxj, output
    from irlcrawl.export.archives import closed

    files = Files()
    archives, still_open = closed(job, files)
    _note_open(bar, still_open)
    with tempfile.TemporaryDirectory() as directory:
        paths = cdxj.index(job, archives, directory, files, bar, _jobs(args))
        with output.to(args.output) as stream:
            stream.writelines(cdxj.all_lines(paths, directory))


EXPORTS: dict[str, Callable[[JobDir, argparse.Namespace, Bar], None]] = {"cdxj": _cdxj}
