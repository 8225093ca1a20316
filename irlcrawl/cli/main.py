"""The command line: which verbs there are, and which exit code an error becomes.

arguments.py has the options of the verbs, and verbs_*.py what each verb does; these import a heavy module only where a
verb needs it.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from irlcrawl import __version__
from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.job import JobError, command
from irlcrawl.base.job_files import WARCS
from irlcrawl.base.memory import ran_out
from irlcrawl.cli import (
    arguments,
    verbs_ask,
    verbs_cluster,
    verbs_crawl,
    verbs_export,
    verbs_rounds,
    verbs_steer,
    verbs_upkeep,
    verbs_watch,
)
from irlcrawl.config.keys import ConfigError
from irlcrawl.crawl.control import ControlError
from irlcrawl.terminal.progress import reader_may_leave, unheard
from irlcrawl.terminal.words import shortened, shown

DEPENDENCIES = (
    "aiodns", "aiohttp", "brotlicffi", "faust-cchardet", "google-re2", "h2", "httptools", "isal", "numpy", "orjson",
    "publicsuffixlist", "rich", "url-py", "uvloop", "warcio", "xxhash", "zstandard",
)  # fmt: skip


class Verb(NamedTuple):
    usage: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        # As argparse says of `--page-sitemaps=false`, which is refused all the same.
        message = message.replace(
            ": ignored explicit argument ", ": takes no value; write one of its names alone, not ="
        )
        self.exit(ExitCode.CONFIG, f"{self.prog}: {message}{self._meant(message)}\n")

    def _meant(self, message: str) -> str:
        """Of the first option that nobody knows: which one may have been meant."""
        unknown = "unrecognized arguments: "
        words = message.removeprefix(unknown).split() if message.startswith(unknown) else []
        wrong = next((word.partition("=")[0] for word in words if word.startswith("--")), "")
        near = difflib.get_close_matches(wrong, list(self._option_string_actions), n=1)
        return f"; did you mean {near[0]}?" if wrong and near and near[0] != wrong else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (ExitCode)."""
    _hold_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--version"]:
        return _guarded(_show, versions())
    if words[:1] == ["help"] and words[1:2] and words[1] in VERBS:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        return _guarded(_show, overview()) or (ExitCode.DONE if words else ExitCode.CONFIG)
    if words[0] not in VERBS:
        return _fail(_no_verb(words[0]), ExitCode.CONFIG)
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
        what = error.strerror or error
        what = f"{error.filename}: {what}" if error.filename else what
        if is_disk_full(error):
            return _fail(f"{what}; make room, and run the same command again", ExitCode.DISK_FULL)
        return _fail(what, ExitCode.FAILED)
    except Exception as error:
        if ran_out(error):
            return _fail("out of memory; what was committed is safe, and the same command goes on", ExitCode.FAILED)
        from drum import Damaged, UnknownVersion

        from budgets import LedgerError

        if isinstance(error, (Damaged, LedgerError)):
            look = f"; to check all of it: {command('fsck', args.job)}" if hasattr(args, "job") else ""
            if look and f"/{WARCS}/" in str(getattr(error, "file", "")):
                look += "; archives are not repaired: move this one away to go on without it"
            elif look:
                look += "; --repair mends it"
            return _fail(f"{error}{look}", ExitCode.DAMAGED)
        if isinstance(error, UnknownVersion):
            return _fail(error, ExitCode.FAILED)
        raise


def _show(text: str) -> ExitCode:
    with reader_may_leave():
        print(shown(text))
    return ExitCode.DONE


def _fail(what: object, code: ExitCode) -> ExitCode:
    with unheard(sys.stderr):  # the exit code says it, too
        print(shown(f"irlcrawl: {shortened(str(what))}"), file=sys.stderr)
    return code


def _no_verb(name: str) -> str:
    near = difflib.get_close_matches(name, list(VERBS), n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    return f"no verb {name!r}{meant} Verbs: {', '.join(VERBS)}; `irlcrawl help` explains them"


def overview() -> str:
    lines = ["usage: irlcrawl VERB JOB ...", "", "JOB is the directory of a crawl. Verbs (each has --help):", ""]
    lines += [f"  {name:<12}{verb.help}" for name, verb in VERBS.items()]
    lines += ["", "  --version  this program's version and those of what it is built on", ""]
    lines += ["Every configuration key, explained: irlcrawl config"]
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


def _crawl(args: argparse.Namespace) -> int:
    return verbs_crawl.crawl(args, arguments.apply_options)


def _resume(args: argparse.Namespace) -> int:
    args.going_on = True
    return verbs_crawl.crawl(args, arguments.apply_options)


def _seeds(args: argparse.Namespace) -> int:
    return verbs_steer.seeds(args, verbs_crawl.read_seeds)


def _doctor(args: argparse.Namespace) -> int:
    args.dependencies = DEPENDENCIES
    return verbs_upkeep.doctor(args)


VERBS = {
    "crawl": Verb(
        "%(prog)s JOB [URL ...] [--seeds FILE|-] [--config FILE] [-s SECTION.KEY=VALUE] [options]",
        "start a crawl, or go on with it if JOB exists, with more seeds if some are given",
        arguments.of_crawl,
        _crawl,
    ),
    "resume": Verb(
        "%(prog)s JOB [the same arguments as crawl]", "the same as crawl; it also ends a pause", arguments.of_crawl,
        _resume,
    ),
    "status": Verb(
        "%(prog)s JOB [--watch] [--json]",
        "what the crawl is doing, or how it ended",
        arguments.of_status,
        verbs_ask.status,
    ),
    "watch": Verb(
        "%(prog)s JOB [--http [ADDRESS]] [--token-file FILE] [--name HOST ...] [--private]",
        "show what the crawl is doing until it ends, on a terminal or on a web page that can steer it",
        arguments.of_watch,
        verbs_watch.watch,
    ),
    "stop": Verb(
        "%(prog)s JOB", "ask a running crawl to end cleanly, and wait for it", arguments.of_job, verbs_crawl.stop
    ),
    "retry": Verb(
        "%(prog)s JOB [--reason R ...] [--status S ...] [--host H ...] [--dry-run]",
        "put URLs back that failed or were excluded, to be asked again; also while the crawl runs",
        arguments.of_retry, verbs_steer.retry,
    ),
    "revisit": Verb(
        "%(prog)s JOB [URL|HOST ...] [--match P ...] [--earlier]",
        "visit pages again now, with revisit.enabled; also while the crawl runs", arguments.of_revisit,
        verbs_steer.revisit,
    ),
    "seeds": Verb(
        "%(prog)s JOB [URL ...] [--seeds FILE|-] [--ranks FILE --top N]",
        "hand more seeds in; also while the crawl runs", arguments.of_hand_in, _seeds,
    ),
    "set": Verb(
        "%(prog)s JOB [SECTION.KEY=VALUE ...]", "change the configuration; also while the crawl runs", arguments.of_set,
        verbs_steer.set_keys,
    ),
    "block": Verb(
        "%(prog)s JOB [HOST|SITE ...] [--pattern RE2 ...]",
        "request nothing more of hosts or URLs, and exclude those that wait; also while the crawl runs",
        arguments.of_block("block"), verbs_steer.block,
    ),
    "unblock": Verb(
        "%(prog)s JOB [HOST|SITE ...] [--pattern RE2 ...]", "lift a block", arguments.of_block("unblock"),
        verbs_steer.block,
    ),
    "pause": Verb(
        "%(prog)s JOB [HOST|SITE ...]", "request nothing for now, of all or of some hosts; also while the crawl runs",
        arguments.of_pause("pause"), verbs_steer.pause,
    ),
    "unpause": Verb(
        "%(prog)s JOB [HOST|SITE ...]", "end a pause", arguments.of_pause("unpause"), verbs_steer.pause
    ),
    "prefer": Verb(
        "%(prog)s JOB HOST|URL --weight N | --off", "let URLs go before or behind others of their site",
        arguments.of_prefer, verbs_steer.prefer,
    ),
    "config": Verb(
        "%(prog)s [JOB] [--config FILE] [-s SECTION.KEY=VALUE ...] [--all]",
        "explain every key of the configuration; or show the values of a crawl, and where each comes from",
        arguments.of_config, verbs_ask.config,
    ),
    "inspect": Verb("%(prog)s JOB", "what is in JOB, in words", arguments.of_job, verbs_ask.inspect),
    "urls": Verb(
        "%(prog)s JOB [--status S] [--host H] [--site S] [--reason R] [--with NOTE] [--machine]",
        "list URLs with their outcome and reason",
        arguments.of_urls, verbs_ask.urls,
    ),
    "parameters": Verb(
        "%(prog)s JOB [--pages N] [--write]",
        "query parameters that change nothing, by the pages that were fetched; they can be left out of links",
        arguments.of_parameters, verbs_ask.parameters,
    ),
    "report": Verb(
        "%(prog)s JOB [--by ORDER] [--top N] [--politeness | --freshness | --steering] [--json]",
        "sites by reputation, budget, cost and yield; every gap of the crawl against its rule; or how fresh copies are",
        arguments.of_report, verbs_ask.report,
    ),
    "why": Verb(
        "%(prog)s JOB URL|HOST|SITE | --slow [--json]",
        "where a URL, a host or a site stands, and why; or why the crawl is not faster",
        arguments.of_why, verbs_ask.why,
    ),
    "plan": Verb(
        "%(prog)s [--ram R] [--disk D] [--bandwidth B] [--cores N] [--hosts N] [--pages N] [--like JOB]\n"
        "       [--config FILE] [--measure] [--json]",
        "how fast a crawl would go on a machine, and what it would need", arguments.of_plan, verbs_ask.plan,
    ),
    "get": Verb(
        "%(prog)s JOB URL [--headers | --record]", "write a page out of the archive to standard output",
        arguments.of_get, verbs_ask.get,
    ),
    "export": Verb(
        "%(prog)s WHAT JOB [-o PATH] [options]",
        "write pages, links, sitemap entries, hosts, the graph, an index or WACZ; while the crawl runs or not",
        arguments.of_export, verbs_export.export,
    ),
    "generate": Verb(
        "%(prog)s JOB -o DIR --urls N [--per-host N] [--lists K] [--until HOURS]",
        "write the URLs that a stopped crawl would fetch next as lists, for `fetch` on any machine",
        verbs_rounds.generate_arguments, verbs_rounds.generate,
    ),
    "fetch": Verb(
        "%(prog)s LIST -o DIR [--workers N] [--quiet]", "fetch a list, without its crawl: archives and harvests in DIR",
        verbs_rounds.fetch_arguments, verbs_rounds.fetch,
    ),
    "update": Verb(
        "%(prog)s JOB DIR ... [--quiet]", "take the results of fetches into a crawl that does not run",
        verbs_rounds.update_arguments, verbs_rounds.update,
    ),
    "worker-node": Verb(
        "%(prog)s DIR --frontier HOST:PORT --token-file FILE [--cert FILE] [--name NAME] [--workers N]",
        "on another machine: fetch for a crawl that listens (cluster.listen)",
        verbs_cluster.worker_node_arguments, verbs_cluster.worker_node,
    ),
    "cluster": Verb(
        "%(prog)s up|add|status|down|check JOB [NAME ...] [--ray HOST:PORT] [-s SECTION.KEY=VALUE]",
        "the machines of a Ray cluster that fetch for a crawl: bring them up, add some, show them, send them home",
        verbs_cluster.cluster_arguments, verbs_cluster.cluster,
    ),
    "snapshot": Verb(
        "%(prog)s JOB NAME", "keep the crawl as it is now, while it runs or not", arguments.of_snapshot,
        verbs_upkeep.snapshot,
    ),
    "snapshots": Verb(
        "%(prog)s JOB [--open NAME DIR | --delete NAME] [--json]", "list snapshots, delete one, or make a crawl of one",
        arguments.of_snapshots, verbs_upkeep.snapshots,
    ),
    "fsck": Verb(
        "%(prog)s JOB [--repair] [--json] [--quiet]", "check every file of a crawl, and that all files belong together",
        arguments.of_fsck, verbs_upkeep.fsck,
    ),
    "doctor": Verb(
        "%(prog)s [DIR] [--config FILE]", "whether this machine is fit for a crawl, and what to do if it is not",
        arguments.of_doctor, _doctor,
    ),
    "key": Verb(
        "%(prog)s DIR", "make a key for signing requests, and the directory by which servers know it",
        arguments.of_signing_key, verbs_upkeep.signing_key,
    ),
    "takedown": Verb(
        "%(prog)s JOB [URL ...] [--host H] [--site S] [--match P] [--opt-out FILE] --reason TEXT [--dry-run]\n"
        "       [--quiet]",
        "remove stored pages from the archives of a crawl that does not run",
        arguments.of_takedown, verbs_upkeep.takedown,
    ),
    "verify": Verb(
        "%(prog)s JOB|FILE ... [--json] [--quiet]", "check archives alone: records, digests, units",
        arguments.of_verify, verbs_upkeep.verify,
    ),
}  # fmt: skip
