"""The verbs that ask about the inside of a crawl: `report` and `why`. They read the disk and lock nothing."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from irlcrawl.base.job import ExitCode, JobDir
from irlcrawl.config.keys import ConfigError
from irlcrawl.terminal.progress import reader_may_leave

SHOWN = 20
"""How many are shown without --top."""


def report(args: argparse.Namespace) -> int:
    """Sites by worth and cost; with --politeness, every gap against its rule (FAILED if one was too short)."""
    job = JobDir(args.job).require()
    top = SHOWN if args.top is None else args.top
    if top < 0:
        raise ConfigError(f"--top {top}: takes how many to show")
    if args.politeness:
        from irlcrawl.ask import politeness_audit

        if args.by is not None:
            raise ConfigError(f"--by {args.by}: orders sites; --politeness shows clocks, closest to their rule first")
        told = politeness_audit.audit(job, top)
        _tell(told, partial(politeness_audit.lines, every=args.top is not None), args.json)
        return ExitCode.FAILED if told["broken"] else ExitCode.DONE
    from irlcrawl.ask import report as sites

    _tell(sites.report(job, top, args.by or "reputation"), sites.lines, args.json)
    return ExitCode.DONE


def why(args: argparse.Namespace) -> int:
    from irlcrawl.ask import why as answers

    job = JobDir(args.job).require()
    _tell(answers.why(job, args.what, time.time()), answers.lines, args.json)
    return ExitCode.DONE


def _tell(told: dict[str, Any], lines: Callable[[dict[str, Any]], Iterable[str]], as_json: bool) -> None:
    with reader_may_leave():
        print(json.dumps(told) if as_json else "\n".join(lines(told)))
