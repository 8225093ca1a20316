"""The verbs that ask about a crawl's inside: `report` and `why`. They read the disk and lock nothing."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from irlcrawl.config import ConfigError
from irlcrawl.job import ExitCode, JobDir
from irlcrawl.watch.progress import reader_may_leave


def report(args: argparse.Namespace) -> int:
    """Sites by what they are worth and cost; with --politeness, every gap against its rule (FAILED: one was short)."""
    job = JobDir(args.job).require()
    if args.politeness:
        from irlcrawl.watch import gapaudit

        told = gapaudit.audit(job)
        _tell(told, gapaudit.lines, args.json)
        return ExitCode.FAILED if told["broken"] else ExitCode.DONE
    if args.top < 0:
        raise ConfigError(f"--top {args.top}: takes how many sites to show")
    from irlcrawl.watch import report as sites

    _tell(sites.report(job, args.top, args.by), sites.lines, args.json)
    return ExitCode.DONE


def why(args: argparse.Namespace) -> int:
    from irlcrawl.watch import why as answers

    job = JobDir(args.job).require()
    _tell(answers.why(job, args.what, time.time()), answers.lines, args.json)
    return ExitCode.DONE


def _tell(told: dict[str, Any], lines: Callable[[dict[str, Any]], Iterable[str]], as_json: bool) -> None:
    with reader_may_leave():
        print(json.dumps(told) if as_json else "\n".join(lines(told)))
