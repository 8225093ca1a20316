"""The command line: which verbs and options there are, and which exit code an error becomes.

What each verb does is in verbs_crawl.py, verbs_ask.py and verbs_upkeep.py, which import a heavy module only where a
verb needs it. The options of `crawl` are made from the table of configuration keys: `--section-key VALUE` for each key.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from irlcrawl import __version__
from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.job import JobError, command
from irlcrawl.base.memory import ran_out
from irlcrawl.cli import verbs_ask, verbs_crawl, verbs_upkeep
from irlcrawl.config.keys import Config, ConfigError, Key, keys
from irlcrawl.config.toml import apply, parse_value
from irlcrawl.crawl.control import ControlError
from irlcrawl.terminal.progress import reader_may_leave, unheard

DEPENDENCIES = (
    "aiodns", "aiohttp", "brotlicffi", "faust-cchardet", "google-re2", "httptools", "isal", "numpy",
    "publicsuffixlist", "rich", "url-py", "uvloop", "warcio", "xxhash", "zstandard",
)  # fmt: skip

COMMON = {
    "crawl.user_agent", "crawl.operator", "crawl.workers", "scope.kind", "scope.include", "scope.exclude",
    "scope.depth_max", "limits.pages", "limits.bytes", "limits.seconds", "limits.pages_per_host",
    "limits.pages_per_site", "politeness.gap_host_seconds",
}  # fmt: skip
"""`crawl --help` shows the options of these keys; the options of all other keys work, too."""


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
    """Open a closed standard stream on the null device: the next file that is opened must not get its number, and then
    the words meant for the stream."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(nowhere := os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(nowhere, "w" if number else "r"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":  # JOB may be called anything
        sys.stdout.reconfigure(errors="backslashreplace")


def _guarded(run: Callable[[Any], int], args: Any) -> int:
    """Run a verb. A known failure becomes a message and an exit code, any other one a traceback."""
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
        if is_disk_full(error):
            return _fail(f"{what}; make room, and run the same command again", ExitCode.DISK_FULL)
        return _fail(what, ExitCode.FAILED)
    except Exception as error:
        if ran_out(error):
            return _fail("out of memory; what was committed is safe, and the same command goes on", ExitCode.FAILED)
        from drum import Damaged, UnknownVersion

        from budgets import LedgerError

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
    parser.add_argument("job", metavar="JOB", help="directory of the crawl; made if it does not exist, else resumed")
    parser.add_argument("urls", metavar="URL", nargs="*", default=[], help="a seed; a bare host means http://host/")
    parser.add_argument(
        "--seeds",
        metavar="FILE",
        action="append",
        default=[],
        help="file with one seed a line (plain, gzip or zstd); -: standard input",
    )
    parser.add_argument(
        "--ranks", metavar="FILE",
        help="list of sites, lines `rank,domain` such as Tranco's (plain, gzip or zstd): the home pages of the first "
        "--top N of them are seeds, too",
    )  # fmt: skip
    parser.add_argument("--top", metavar="N", type=int, help="how many domains of --ranks are seeds")
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML)")
    parser.add_argument(
        "-s",
        dest="set",
        metavar="SECTION.KEY=VALUE",
        action="append",
        default=[],
        help="value of one configuration key",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, print the configuration, touch nothing"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    group = parser.add_argument_group("configuration keys (all: python -m irlcrawl.config)")
    for key in keys():
        if key.single:
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
    parser.add_argument("--watch", action="store_true", help="print again every second until the crawl ends")


def _urls_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "--status",
        help="only URLs of this status (404, -1), class (4xx) or outcome (fetched, failed, excluded; retry, "
        "returned: each time one was put off, or put back); queued: URLs that wait",
    )
    parser.add_argument("--host", help="only URLs of this host: name or name:port")
    parser.add_argument(
        "--reason", help="only URLs with this reason (robots, dns, timeout, ...), or, if queued, in this place"
    )
    parser.add_argument(
        "--with", dest="note", metavar="NOTE", help="only URLs whose line in the crawl log has an annotation of this "
        "name, and its value: truncated, beyond_max (links over page.links_max), partly_read, damaged, faults, ...",
    )  # fmt: skip


def _retry_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    for name, text in {
        "--reason": "only URLs that are done for this reason (timeout, dns, blocked, robots, ...), excluded ones too",
        "--status": "only URLs of this status (404, -1) or class (5xx), fetched ones too; or failed, or excluded",
        "--host": "only URLs of this host and of all hosts below it: name or name:port",
    }.items():
        parser.add_argument(name, metavar=name[2].upper(), action="append", default=[], help=f"{text}; may be repeated")
    parser.add_argument("--dry-run", action="store_true", help="list the URLs, and put none back")


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("url", metavar="URL", help="a URL the crawl fetched")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--headers", action="store_true", help="the header of the response instead of its body")
    what.add_argument("--record", action="store_true", help="the WARC record as it is stored, decompressed")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "--politeness", action="store_true", help="every gap against its rule; exit code 1 if one is too short"
    )
    parser.add_argument(
        "--freshness", action="store_true", help="how fresh the copies of pages are that are visited again, by host"
    )
    parser.add_argument(
        "--top", metavar="N", type=int,
        help="how many sites to show (20), or hosts with --freshness; with --politeness, how many hosts, addresses and "
        "sites, the closest to their rule first (default: the closest one of each, and up to 20 that broke it)",
    )  # fmt: skip
    parser.add_argument(
        "--by",
        choices=("reputation", "budget", "spent", "waiting", "yield"),
        help="what to order the sites by (reputation); not with --politeness",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _why_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("what", metavar="URL|HOST|SITE", help="a URL has a path or a scheme; a bare name is a host")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--json", action="store_true", help="one JSON object a finding")


def _fsck_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--repair", action="store_true", help="make a whole crawl of what can still be read")
    _check_arguments(parser)


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="JOB|FILE", nargs="+", help="a crawl, a directory of archives, or single archives"
    )
    _check_arguments(parser)


def _snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("name", metavar="NAME", help="name of the snapshot")


def _snapshots_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--open", nargs=2, metavar=("NAME", "DIR"), help="make the snapshot NAME a new crawl in DIR")
    what.add_argument("--delete", metavar="NAME", help="delete the snapshot NAME; files it shares stay with the others")
    parser.add_argument("--json", action="store_true", help="one JSON object a snapshot")


def _crawl(args: argparse.Namespace) -> int:
    return verbs_crawl.crawl(args, apply_options)


VERBS = {
    "crawl": Verb(
        "%(prog)s JOB [URL ...] [--seeds FILE|-] [--config FILE] [-s SECTION.KEY=VALUE] [options]",
        "start a crawl, or go on with it if JOB exists, with more seeds if some are given",
        _crawl_arguments,
        _crawl,
    ),
    "resume": Verb("%(prog)s JOB [the same arguments as crawl]", "the same as crawl", _crawl_arguments, _crawl),
    "status": Verb(
        "%(prog)s JOB [--watch] [--json]",
        "what the crawl is doing, or how it ended",
        _status_arguments,
        verbs_ask.status,
    ),
    "stop": Verb(
        "%(prog)s JOB", "ask a running crawl to end cleanly, and wait for it", _job_argument, verbs_crawl.stop
    ),
    "retry": Verb(
        "%(prog)s JOB [--reason R ...] [--status S ...] [--host H ...] [--dry-run]",
        "put back what failed for good, or was excluded, to be asked again; also while the crawl runs",
        _retry_arguments, verbs_crawl.retry,
    ),
    "inspect": Verb("%(prog)s JOB", "what is in JOB, in words", _job_argument, verbs_ask.inspect),
    "urls": Verb(
        "%(prog)s JOB [--status S] [--host H] [--reason R] [--with NOTE]", "list URLs with their outcome and reason",
        _urls_arguments, verbs_ask.urls,
    ),
    "report": Verb(
        "%(prog)s JOB [--by ORDER] [--top N] [--politeness] [--freshness] [--json]",
        "sites by reputation, budget, cost and yield; every gap of the crawl against its rule; or how fresh copies are",
        _report_arguments, verbs_ask.report,
    ),
    "why": Verb(
        "%(prog)s JOB URL|HOST|SITE [--json]", "where a URL, a host or a site stands, and why",
        _why_arguments, verbs_ask.why,
    ),
    "get": Verb(
        "%(prog)s JOB URL [--headers | --record]", "write a page out of the archive to standard output",
        _get_arguments, verbs_ask.get,
    ),
    "snapshot": Verb(
        "%(prog)s JOB NAME", "keep the crawl as it is now, while it runs or not", _snapshot_arguments,
        verbs_upkeep.snapshot,
    ),
    "snapshots": Verb(
        "%(prog)s JOB [--open NAME DIR | --delete NAME] [--json]", "list snapshots, delete one, or make a crawl of one",
        _snapshots_arguments, verbs_upkeep.snapshots,
    ),
    "fsck": Verb(
        "%(prog)s JOB [--repair] [--json] [--quiet]", "check every file of a crawl, and that they belong together",
        _fsck_arguments, verbs_upkeep.fsck,
    ),
    "verify": Verb(
        "%(prog)s JOB|FILE ... [--json] [--quiet]", "check archives alone: records, digests, units",
        _verify_arguments, verbs_upkeep.verify,
    ),
}  # fmt: skip
