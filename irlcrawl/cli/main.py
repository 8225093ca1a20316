"""The command line: which verbs and options there are, and which exit code an error becomes.

What a verb does is in irlcrawl/verbs.py, which imports what is heavy only where a verb needs it. Options of `crawl` are
made from the table of configuration keys: `--section-key VALUE` for every key there is.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from irlcrawl import __version__
from irlcrawl.base.job import ExitCode, JobError, command
from irlcrawl.base.memory import ran_out
from irlcrawl.cli import verbs_ask as watch_verbs
from irlcrawl.cli import verbs_crawl
from irlcrawl.cli import verbs_upkeep as upkeep_verbs
from irlcrawl.config.keys import Config, ConfigError, Key, keys
from irlcrawl.config.toml import apply, parse_value
from irlcrawl.crawl.control import ControlError
from irlcrawl.terminal.progress import reader_may_leave, unheard

DEPENDENCIES = (
    "aiodns", "aiohttp", "brotlicffi", "faust-cchardet", "google-re2", "httptools", "isal", "numpy", "protego",
    "publicsuffixlist", "rich", "url-py", "uvloop", "warcio", "xxhash", "zstandard",
)  # fmt: skip

COMMON = {
    "crawl.user_agent", "crawl.operator", "crawl.workers", "scope.kind", "scope.include", "scope.exclude",
    "scope.depth_max", "limits.pages", "limits.bytes", "limits.seconds", "limits.pages_per_host",
    "limits.pages_per_site", "politeness.gap_host_seconds",
}  # fmt: skip
"""Keys whose options `crawl --help` shows; the options of the others work too."""


class Verb(NamedTuple):
    usage: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(ExitCode.CONFIG, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (ExitCode)."""
    _hold_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--version"]:
        return _guarded(_show, versions())
    if not words or words[0] in ("-h", "--help", "help"):
        return _guarded(_show, overview()) or (ExitCode.DONE if words else ExitCode.CONFIG)
    if words[0] not in VERBS:
        return _fail(f"no verb {words[0]!r}\n\n{overview()}", ExitCode.CONFIG)
    verb = VERBS[words[0]]
    parser = _Parser(f"irlcrawl {words[0]}", usage=verb.usage, description=verb.help, allow_abbrev=False)
    verb.arguments(parser)
    try:
        args = parser.parse_intermixed_args(words[1:])
    except SystemExit as end:  # --help, or an error that was told
        return int(end.code or 0)
    return _guarded(verb.run, args)


def _hold_standard_streams() -> None:
    """What was closed leads nowhere instead: the next file that is opened must not get its number, and words in it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(nowhere := os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(nowhere, "w" if number else "r"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":  # JOB may be called anything
        sys.stdout.reconfigure(errors="backslashreplace")


def _guarded(run: Callable[[Any], int], args: Any) -> int:
    """Run a verb; what goes wrong in known ways is a message and an exit code, the rest a traceback."""
    try:
        return run(args)
    except ConfigError as error:
        return _fail(error, ExitCode.CONFIG)
    except JobError as error:
        return _fail(error, error.code)
    except ControlError as error:
        return _fail(error, ExitCode.FAILED)
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):  # a second one must not turn this into a death by a signal
            signal.signal(number, signal.SIG_IGN)
        return ExitCode.INTERRUPTED
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _fail(f"{what}; make room, and run the same command again", ExitCode.DISK_FULL)
        return _fail(what, ExitCode.FAILED)
    except Exception as error:
        if ran_out(error):
            return _fail("out of memory; what was committed is safe, and the same command goes on", ExitCode.FAILED)
        from budgets import LedgerError
        from drum import Damaged, UnknownVersion

        if isinstance(error, (Damaged, LedgerError)):
            look = (
                f"; to check all of it: {command('fsck', args.job)}; --repair mends it" if hasattr(args, "job") else ""
            )
            return _fail(f"{error}{look}", ExitCode.DAMAGED)
        if isinstance(error, UnknownVersion):
            return _fail(error, ExitCode.FAILED)
        raise


def _show(text: str) -> ExitCode:
    with reader_may_leave():
        print(text)
    return ExitCode.DONE


def _fail(what: object, code: ExitCode) -> ExitCode:
    with unheard(sys.stderr):  # the exit code says it, too
        print(f"irlcrawl: {what}", file=sys.stderr)
    return code


def overview() -> str:
    lines = ["usage: irlcrawl VERB JOB ...", "", "JOB is the directory of a crawl. Verbs (each has --help):", ""]
    lines += [f"  {name:<10}{verb.help}" for name, verb in VERBS.items()]
    lines += ["", "  --version  this program's version and those of what it is built on", ""]
    lines += ["Every configuration key, explained: python -m irlcrawl.config"]
    return "\n".join(lines)


def versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    def of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "missing"

    python = ".".join(map(str, sys.version_info[:3]))
    return "\n".join([f"irlcrawl {__version__}", f"Python {python}", *(f"{name} {of(name)}" for name in DEPENDENCIES)])


# -- arguments of the verbs -------------------------------------------------------------------------------------------


def _crawl_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="directory of the crawl; made if it is not there, else resumed")
    parser.add_argument("urls", metavar="URL", nargs="*", default=[], help="seeds; a bare host means http://host/")
    parser.add_argument(
        "--seeds", metavar="FILE", action="append", default=[], help="a seed a line; - is standard input"
    )
    parser.add_argument("--config", metavar="FILE", help="configuration (TOML)")
    parser.add_argument(
        "-s", dest="set", metavar="SECTION.KEY=VALUE", action="append", default=[], help="one key of it"
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, print the configuration, do nothing")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    group = parser.add_argument_group("configuration keys (all: python -m irlcrawl.config)")
    for key in keys():
        if key.section != "site":
            _key_option(group, key)


def _key_option(group: Any, key: Key) -> None:
    """`--section-key`; for the section `crawl` also `--key`."""
    names = [f"--{key.path.replace('.', '-').replace('_', '-')}"]
    if key.section == "crawl":
        names.append(f"--{key.name.replace('_', '-')}")
    more: dict[str, Any] = {"metavar": "|".join(key.choices) or {"int": "N", "float": "X"}.get(key.type, "TEXT")}
    if key.type == "bool":
        more = {"action": argparse.BooleanOptionalAction}
    elif key.type == "list":
        more["action"] = "append"
    shown = key.path in COMMON
    # argparse formats help texts with %, and the reference is the place for what is not common.
    group.add_argument(
        *names, dest=key.path, default=None, help=key.doc.replace("%", "%%") if shown else argparse.SUPPRESS, **more
    )


def apply_options(config: Config, args: argparse.Namespace) -> None:
    """Set the keys given as `--section-key`. Raises ConfigError."""
    for key in keys():
        value = getattr(args, key.path, None)
        if value is not None:
            typed = parse_value(key, value) if isinstance(value, str) else value
            apply(config, {key.section: {key.name: typed}})


def _job_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="directory of the crawl")


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--watch", action="store_true", help="again and again until the crawl ends")


def _urls_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "--status", help="a status (404, -1), a class (4xx), fetched, failed, excluded, retry, or queued"
    )
    parser.add_argument("--host", help="only this host: name or name:port")
    parser.add_argument("--reason", help="only this reason: robots, dns, timeout, ...; of queued: the place")


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("url", metavar="URL", help="a URL the crawl fetched")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--headers", action="store_true", help="the response's header instead of its payload")
    what.add_argument("--record", action="store_true", help="the WARC record as it is stored, unpacked")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--politeness", action="store_true", help="every gap against its rule; exit 1 if one broke")
    parser.add_argument(
        "--top", metavar="N", type=int,
        help="how many sites to show (20); with --politeness, how many hosts, addresses and sites, the closest to "
        "their rule first (else the closest of each, and up to 20 that broke it)",
    )  # fmt: skip
    parser.add_argument(
        "--by",
        choices=("reputation", "budget", "spent", "waiting", "yield"),
        help="their order (reputation); not of --politeness",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _why_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("what", metavar="URL|HOST|SITE", help="a URL has a path or a scheme; a bare name is a host")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="a JSON object a finding")


def _fsck_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--repair", action="store_true", help="make a whole crawl of what can still be read")
    _check_arguments(parser)


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="JOB|FILE", nargs="+", help="a crawl, its archives, or some of them")
    _check_arguments(parser)


def _snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("name", metavar="NAME", help="what to call it")


def _snapshots_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--open", nargs=2, metavar=("NAME", "DIR"), help="make DIR a crawl that goes on from it")
    what.add_argument("--delete", metavar="NAME", help="forget it; what it shares stays with the others")
    parser.add_argument("--json", action="store_true", help="a JSON object each")


def _crawl(args: argparse.Namespace) -> int:
    return verbs_crawl.crawl(args, apply_options)


VERBS = {
    "crawl": Verb(
        "%(prog)s JOB [URL ...] [--seeds FILE|-] [--config FILE] [-s SECTION.KEY=VALUE] [options]",
        "start a crawl, or go on with it if JOB exists; seeds are added to it",
        _crawl_arguments,
        _crawl,
    ),
    "resume": Verb("%(prog)s JOB [the same arguments as crawl]", "the same as crawl", _crawl_arguments, _crawl),
    "status": Verb(
        "%(prog)s JOB [--watch] [--json]",
        "what the crawl is doing, or how it ended",
        _status_arguments,
        verbs_crawl.status,
    ),
    "stop": Verb(
        "%(prog)s JOB", "ask a running crawl to end cleanly, and wait for it", _job_argument, verbs_crawl.stop
    ),
    "inspect": Verb("%(prog)s JOB", "what is in JOB, in a person's words", _job_argument, verbs_crawl.inspect),
    "urls": Verb(
        "%(prog)s JOB [--status S] [--host H] [--reason R]", "list URLs with their outcome and reason",
        _urls_arguments, verbs_crawl.urls,
    ),
    "report": Verb(
        "%(prog)s JOB [--by ORDER] [--top N] [--politeness] [--json]",
        "sites by reputation, budget, cost and yield; or how polite the crawl was",
        _report_arguments, watch_verbs.report,
    ),
    "why": Verb(
        "%(prog)s JOB URL|HOST|SITE [--json]", "where a URL, a host or a site stands, and why",
        _why_arguments, watch_verbs.why,
    ),
    "get": Verb(
        "%(prog)s JOB URL [--headers | --record]", "write a page out of the archive to standard output",
        _get_arguments, verbs_crawl.get,
    ),
    "snapshot": Verb(
        "%(prog)s JOB NAME", "keep the crawl as it is now, also while it runs", _snapshot_arguments,
        upkeep_verbs.snapshot,
    ),
    "snapshots": Verb(
        "%(prog)s JOB [--open NAME DIR | --delete NAME] [--json]", "list snapshots, delete one, or crawl on from one",
        _snapshots_arguments, upkeep_verbs.snapshots,
    ),
    "fsck": Verb(
        "%(prog)s JOB [--repair] [--json] [--quiet]", "check every file of a crawl, and that they belong together",
        _fsck_arguments, upkeep_verbs.fsck,
    ),
    "verify": Verb(
        "%(prog)s JOB|FILE ... [--json] [--quiet]", "check archives alone: records, digests, units",
        _verify_arguments, upkeep_verbs.verify,
    ),
}  # fmt: skip
