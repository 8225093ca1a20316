"""The command line: which verbs and options there are, and which exit code an error becomes.

What each verb does is in verbs_*.py, which import a heavy module only where a verb needs it. The options of `crawl` are
made from the table of configuration keys: `--section-key VALUE` for each key.
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
from irlcrawl.base.memory import ran_out
from irlcrawl.cli import (
    verbs_ask,
    verbs_cluster,
    verbs_crawl,
    verbs_export,
    verbs_rounds,
    verbs_steer,
    verbs_upkeep,
    verbs_watch,
)
from irlcrawl.cli.verbs_watch import DEFAULT_ADDRESS
from irlcrawl.config.keys import Config, ConfigError, Key, keys
from irlcrawl.config.toml import apply, parse_value
from irlcrawl.crawl.control import ControlError
from irlcrawl.terminal.progress import reader_may_leave, unheard
from irlcrawl.terminal.words import shown

DEPENDENCIES = (
    "aiodns", "aiohttp", "brotlicffi", "faust-cchardet", "google-re2", "h2", "httptools", "isal", "numpy",
    "publicsuffixlist", "rich", "url-py", "uvloop", "warcio", "xxhash", "zstandard",
)  # fmt: skip

COMMON = {
    "crawl.user_agent", "crawl.operator", "crawl.workers", "scope.kind", "scope.include", "scope.exclude",
    "scope.depth_max", "cluster.ray", "limits.pages", "limits.bytes", "limits.seconds", "limits.pages_per_host",
    "limits.pages_per_site", "politeness.gap_host_seconds", "archive.dedupe_from",
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
        self.exit(ExitCode.CONFIG, f"{self.prog}: {message}{self._meant(message)}\n")

    def _meant(self, message: str) -> str:
        """Of the first option that nobody knows: which one may have been meant."""
        words = message.removeprefix("unrecognized arguments: ").split()
        wrong = next((word.partition("=")[0] for word in words if word.startswith("--")), "")
        near = difflib.get_close_matches(wrong, list(self._option_string_actions), n=1)
        return f"; did you mean {near[0]}?" if wrong and near and near[0] != wrong else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (ExitCode)."""
    _hold_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--version"]:
        return _guarded(_show, versions())
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
            look = (
                f"; to check all of it: {command('fsck', args.job)}; --repair mends it" if hasattr(args, "job") else ""
            )
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
        print(shown(f"irlcrawl: {what}"), file=sys.stderr)
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


# -- arguments of the verbs -------------------------------------------------------------------------------------------


def _crawl_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", metavar="JOB", type=_directory, help="directory of the crawl; made if it does not exist, else resumed"
    )
    _seeds_arguments(parser)
    parser.set_defaults(going_on=False)
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
    parser.add_argument("--quiet", action="store_true", help="show no progress; the summary at the end is shown")
    parser.add_argument(
        "--allow-commands", action="store_true",
        help="let the commands that FILE and JOB/irlcrawl.toml name run, from now on, for this JOB on this machine",
    )  # fmt: skip
    group = parser.add_argument_group("configuration keys (all: irlcrawl config)")
    for key in keys():
        if key.single:
            _key_option(group, key)


def _key_option(group: Any, key: Key) -> None:
    """`--section-key`; for the section `crawl`, and for some more, also `--key`."""
    names = [f"--{key.path.replace('.', '-').replace('_', '-')}"]
    if key.section == "crawl" or key.path in ("archive.dedupe_from", "cluster.ray"):
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


def _seeds_arguments(parser: argparse.ArgumentParser) -> None:
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


def _job_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", type=_directory, help="directory of the crawl")


def _directory(name: str) -> str:
    """A crawl in the directory `https:` is none that anybody meant, nor one in this directory by an empty name."""
    if not name or "://" in name:
        raise argparse.ArgumentTypeError(f"{name!r}: takes the directory of the crawl, before any URL")
    return name


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--watch", action="store_true", help="print again every second until the crawl ends")


def _watch_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "--http", metavar="ADDRESS", nargs="?", const=DEFAULT_ADDRESS,
        help="serve a web page, and /metrics for Prometheus, at this address and port of this machine, or port alone "
        f"({DEFAULT_ADDRESS}); it prints where, with the token that steering takes. Without: on this terminal",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", metavar="FILE",
        help="file with the token, which is made if it is not there; without: another token each time",
    )  # fmt: skip
    parser.add_argument(
        "--name", metavar="HOST", action="append", default=[],
        help="a name by which browsers reach this page, such as a proxy's; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--private", action="store_true",
        help="looking takes the token, too; it always does at an address that other machines reach",
    )  # fmt: skip


def _config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="directory of a crawl; none: the reference of all keys")
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML), as `crawl` takes it")
    parser.add_argument("-s", dest="set", metavar="SECTION.KEY=VALUE", action="append", default=[], help="one value")
    parser.add_argument("--all", action="store_true", help="also the keys that have their default")


def _urls_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "--status",
        help="only URLs of this status (404, -1), class (4xx) or outcome (fetched, failed, excluded; errors: "
        "failed, and answered with an error; retry, returned: each time one was to be asked again later, or put back); "
        "queued: URLs that wait",
    )
    parser.add_argument("--host", help="only URLs of this host: name or name:port")
    parser.add_argument("--site", help="only URLs of this registrable domain, all of its hosts")
    parser.add_argument(
        "--reason", help="only URLs with this reason (robots, dns, timeout, ...), or, if queued, in this place"
    )
    parser.add_argument(
        "--with", dest="note", metavar="NOTE", help="only URLs whose line in the crawl log has an annotation of this "
        "name, and its value: wishes (of owners about use), truncated, beyond_max (links over page.links_max), "
        "partly_read, damaged, faults, ...; NOTE=WORD: whose value is or has this word, as in wishes=noai. If queued: "
        "rest (why a URL rests, and until when), throttled (the address of its host is asked more seldom than others)",
    )  # fmt: skip
    parser.add_argument(
        "--machine", action="store_true",
        help="one column more: the machine on which the page is archived; -: this one, or none. Not with queued",
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


def _revisit_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "what", metavar="URL|HOST", nargs="*", default=[],
        help="a page, which has a path or a scheme; or all pages of a host and of all hosts below it",
    )  # fmt: skip
    parser.add_argument(
        "--match", metavar="P", action="append", default=[],
        help="pages in whose URL this pattern (RE2) is found; may be repeated",
    )  # fmt: skip


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "changes", metavar="SECTION.KEY=VALUE", nargs="*", default=[],
        help="value of one configuration key; none: take JOB/irlcrawl.toml over as it was edited",
    )  # fmt: skip


def _block_arguments(verb: str) -> Callable[[argparse.ArgumentParser], None]:
    def arguments(parser: argparse.ArgumentParser) -> None:
        _job_argument(parser)
        parser.add_argument(
            "names", metavar="HOST|SITE", nargs="*", default=[], help="this host and all hosts below it"
        )
        parser.add_argument(
            "--pattern", metavar="RE2", action="append", default=[], help="URLs in which it is found; may be repeated"
        )
        parser.set_defaults(verb=verb)

    return arguments


def _pause_arguments(verb: str) -> Callable[[argparse.ArgumentParser], None]:
    def arguments(parser: argparse.ArgumentParser) -> None:
        _job_argument(parser)
        parser.add_argument("names", metavar="HOST|SITE", nargs="*", default=[], help="none: the whole crawl")
        parser.set_defaults(verb=verb)

    return arguments


def _prefer_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("what", metavar="HOST|URL", help="a URL has a path or a scheme; else it is a name")
    parser.add_argument(
        "--weight", metavar="N", type=int,
        help="its URLs go before others of their site as if they were so many links nearer to a seed, from -10 to "
        "10; below 0: behind",
    )  # fmt: skip
    parser.add_argument("--off", action="store_true", help="take the rule away again")


def _parameters_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "--pages", metavar="N", type=int, default=10,
        help="least number of pages, different from one another, that are the same whatever value the parameter has "
        "(default 10); none of its site may differ by it",
    )  # fmt: skip
    parser.add_argument(
        "--write", action="store_true", help='leave them out of links from now on: site."NAME".parameters'
    )


def _hand_in_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    _seeds_arguments(parser)


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("url", metavar="URL", help="a URL the crawl fetched")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--headers", action="store_true", help="the header of the response instead of its body")
    what.add_argument("--record", action="store_true", help="the WARC record as it is stored, decompressed")


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "export", metavar="WHAT", choices=tuple(verbs_export.EXPORTS),
        help="pages: a row a response, with title, description, media type, place in the archive; links: a row a link, "
        "with its words and rel; listed: a row an entry of a sitemap or feed, with lastmod, priority and changefreq; "
        "hosts: a row a host, with what came of its URLs; graph: which site links to which; "
        "cdxj: the index of all captures, by which replay tools find them; wacz: archives, index and pages in one "
        "file, which ReplayWeb.page opens",
    )  # fmt: skip
    _job_argument(parser)
    parser.add_argument(
        "-o", dest="output", metavar="PATH",
        help="where to write it: a file (cdxj, hosts, wacz) or a directory (pages, links, listed, graph), which gets a "
        "file for each archive; exported there again, only new archives are added. Default: all of it as JSON lines to "
        "standard output",
    )  # fmt: skip
    parser.add_argument(
        "--format", metavar="|".join(verbs_export.FORMATS), choices=verbs_export.FORMATS,
        help="JSON lines (the default) or Parquet; graph also as Common Crawl (cc) or WebGraph's text form has it",
    )  # fmt: skip
    parser.add_argument(
        "--text", action="store_true", help="pages: a column with the main text, without navigation and the like"
    )
    parser.add_argument(
        "--language", action="store_true", help="pages: the detected language, in the column content_languages"
    )
    parser.add_argument(
        "--pdf", action="store_true", help="pages, links: read PDFs, too: title, language, links and, with --text, text"
    )
    parser.add_argument(
        "--originals", action="store_true",
        help="pages: rows of revisit records (a page was as before) have title, language, text and so on of the record "
        "to which they refer, if it is in a closed archive of JOB; without it they are empty, and original_url and "
        "original_time say which row has them",
    )  # fmt: skip
    parser.add_argument(
        "--crawl", metavar="NAME",
        help="pages, links: files under crawl=NAME/subset=warc, crawldiagnostics and robotstxt, as in Common Crawl's "
        "index",
    )  # fmt: skip
    parser.add_argument("--title", metavar="TEXT", help="wacz: what the archive is called (default: JOB's name)")
    parser.add_argument("--by", choices=("site", "host"), help="graph: what a vertex is (site)")
    parser.add_argument("--jobs", metavar="N", type=int, help="how many processes to use (default: one a core)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "--politeness", action="store_true", help="every gap against its rule; exit code 1 if one is too short"
    )
    parser.add_argument("--steering", action="store_true", help="who changed how the crawl goes on, when, and how")
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
    parser.add_argument("--json", action="store_true", help="one JSON object; with --steering one a change")


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    for name, text in {
        "--ram": "memory, such as 8GB",
        "--disk": "room for JOB, such as 2TB",
        "--bandwidth": "of the line, such as 100Mbit or 12MB (a second)",
    }.items():
        parser.add_argument(name, metavar=name[2:].upper(), help=f"{text}; without it: no bound")
    parser.add_argument("--cores", metavar="N", type=int, help="how many cores (default: those of this machine)")
    parser.add_argument("--hosts", metavar="N", type=float, help="hosts that have URLs at any moment, on average; "
                        "default: as in JOB of --like, else no bound")  # fmt: skip
    parser.add_argument("--pages", metavar="N", type=float, default=1e8, help="how many pages (100,000,000)")
    parser.add_argument("--like", metavar="JOB", help="a crawl whose pages are like those to come")
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML), as `crawl` takes it")
    parser.add_argument(
        "--measure", action="store_true",
        help="measure first what a page costs on this machine, with files in the current directory: some 20 seconds",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _why_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument(
        "what", metavar="URL|HOST|SITE", nargs="?", help="a URL has a path or a scheme; a bare name is a host"
    )
    parser.add_argument(
        "--slow", action="store_true", help="what keeps the crawl from being faster, and the key that would change it"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--json", action="store_true", help="one JSON object a finding")


def _fsck_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("--repair", action="store_true", help="make a whole crawl of what can still be read")
    _check_arguments(parser)


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(dependencies=DEPENDENCIES)
    parser.add_argument("directory", metavar="DIR", nargs="?", default=".", help="where crawls are to lie (here)")
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML), as `crawl` takes it")


def _signing_key_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="where to write both; a key directory there keeps its keys")


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="JOB|FILE", nargs="+", help="a crawl, a directory of archives, or single archives"
    )
    _check_arguments(parser)


def _takedown_arguments(parser: argparse.ArgumentParser) -> None:
    _job_argument(parser)
    parser.add_argument("urls", metavar="URL", nargs="*", default=[], help="a URL, this one alone")
    for name, text in {
        "--host": "a host: name (all its ports) or name:port",
        "--site": "a name, and all names below it",
        "--match": "every URL in which this pattern (RE2) is found",
        "--opt-out": "file with an opt-out list, such as scope.opt_out_file names: all URLs that it names",
    }.items():
        metavar = "FILE" if name == "--opt-out" else name[2].upper()
        parser.add_argument(name, metavar=metavar, action="append", default=[], help=f"{text}; may be repeated")
    parser.add_argument(
        "--reason", metavar="TEXT",
        help="why, for those who find the gap later; required, but for URLs of --opt-out, whose lines have one, and "
        "for --dry-run",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="list what is stored of the URLs, and touch nothing")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


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


def _resume(args: argparse.Namespace) -> int:
    args.going_on = True
    return verbs_crawl.crawl(args, apply_options)


def _seeds(args: argparse.Namespace) -> int:
    return verbs_steer.seeds(args, verbs_crawl.read_seeds)


VERBS = {
    "crawl": Verb(
        "%(prog)s JOB [URL ...] [--seeds FILE|-] [--config FILE] [-s SECTION.KEY=VALUE] [options]",
        "start a crawl, or go on with it if JOB exists, with more seeds if some are given",
        _crawl_arguments,
        _crawl,
    ),
    "resume": Verb(
        "%(prog)s JOB [the same arguments as crawl]", "the same as crawl, and the end of a pause", _crawl_arguments,
        _resume,
    ),
    "status": Verb(
        "%(prog)s JOB [--watch] [--json]",
        "what the crawl is doing, or how it ended",
        _status_arguments,
        verbs_ask.status,
    ),
    "watch": Verb(
        "%(prog)s JOB [--http [ADDRESS]] [--token-file FILE] [--name HOST ...] [--private]",
        "the same as it goes, on a terminal or on a web page from which the crawl is steered", _watch_arguments,
        verbs_watch.watch,
    ),
    "stop": Verb(
        "%(prog)s JOB", "ask a running crawl to end cleanly, and wait for it", _job_argument, verbs_crawl.stop
    ),
    "retry": Verb(
        "%(prog)s JOB [--reason R ...] [--status S ...] [--host H ...] [--dry-run]",
        "put back what failed for good, or was excluded, to be asked again; also while the crawl runs",
        _retry_arguments, verbs_steer.retry,
    ),
    "revisit": Verb(
        "%(prog)s JOB [URL|HOST ...] [--match P ...]",
        "visit pages again now, with revisit.enabled; also while the crawl runs", _revisit_arguments,
        verbs_steer.revisit,
    ),
    "seeds": Verb(
        "%(prog)s JOB [URL ...] [--seeds FILE|-] [--ranks FILE --top N]",
        "hand more seeds in; also while the crawl runs", _hand_in_arguments, _seeds,
    ),
    "set": Verb(
        "%(prog)s JOB [SECTION.KEY=VALUE ...]", "change the configuration; also while the crawl runs", _set_arguments,
        verbs_steer.set_keys,
    ),
    "block": Verb(
        "%(prog)s JOB [HOST|SITE ...] [--pattern RE2 ...]",
        "request nothing more of hosts or URLs, and exclude those that wait; also while the crawl runs",
        _block_arguments("block"), verbs_steer.block,
    ),
    "unblock": Verb(
        "%(prog)s JOB [HOST|SITE ...] [--pattern RE2 ...]", "lift such a block", _block_arguments("unblock"),
        verbs_steer.block,
    ),
    "pause": Verb(
        "%(prog)s JOB [HOST|SITE ...]", "request nothing for now, of all or of some hosts; also while the crawl runs",
        _pause_arguments("pause"), verbs_steer.pause,
    ),
    "unpause": Verb("%(prog)s JOB [HOST|SITE ...]", "end such a pause", _pause_arguments("unpause"), verbs_steer.pause),
    "prefer": Verb(
        "%(prog)s JOB HOST|URL --weight N | --off", "let URLs go before or behind others of their site",
        _prefer_arguments, verbs_steer.prefer,
    ),
    "config": Verb(
        "%(prog)s [JOB] [--config FILE] [-s SECTION.KEY=VALUE ...]",
        "every key of the configuration explained; of a crawl, what it goes by and where each value comes from",
        _config_arguments, verbs_ask.config,
    ),
    "inspect": Verb("%(prog)s JOB", "what is in JOB, in words", _job_argument, verbs_ask.inspect),
    "urls": Verb(
        "%(prog)s JOB [--status S] [--host H] [--site S] [--reason R] [--with NOTE] [--machine]",
        "list URLs with their outcome and reason",
        _urls_arguments, verbs_ask.urls,
    ),
    "parameters": Verb(
        "%(prog)s JOB [--pages N] [--write]",
        "query parameters that change nothing, by the pages that were fetched; they can be left out of links",
        _parameters_arguments, verbs_ask.parameters,
    ),
    "report": Verb(
        "%(prog)s JOB [--by ORDER] [--top N] [--politeness | --freshness | --steering] [--json]",
        "sites by reputation, budget, cost and yield; every gap of the crawl against its rule; or how fresh copies are",
        _report_arguments, verbs_ask.report,
    ),
    "why": Verb(
        "%(prog)s JOB URL|HOST|SITE | --slow [--json]",
        "where a URL, a host or a site stands, and why; or why the crawl is not faster",
        _why_arguments, verbs_ask.why,
    ),
    "plan": Verb(
        "%(prog)s [--ram R] [--disk D] [--bandwidth B] [--cores N] [--hosts N] [--pages N] [--like JOB] [--measure]",
        "how fast a crawl would go on a machine, and what it would need", _plan_arguments, verbs_ask.plan,
    ),
    "get": Verb(
        "%(prog)s JOB URL [--headers | --record]", "write a page out of the archive to standard output",
        _get_arguments, verbs_ask.get,
    ),
    "export": Verb(
        "%(prog)s WHAT JOB [-o PATH] [options]",
        "write pages, links, hosts, the graph or an index for other tools, while the crawl runs or not",
        _export_arguments, verbs_export.export,
    ),
    "generate": Verb(
        "%(prog)s JOB -o DIR --urls N [--per-host N] [--lists K] [--until HOURS]",
        "write what a crawl that does not run would lease next as lists, for `fetch` on any machine",
        verbs_rounds.generate_arguments, verbs_rounds.generate,
    ),
    "fetch": Verb(
        "%(prog)s LIST -o DIR [--workers N] [--quiet]", "fetch a list, without its crawl: archives and harvests in DIR",
        verbs_rounds.fetch_arguments, verbs_rounds.fetch,
    ),
    "update": Verb(
        "%(prog)s JOB DIR ... [--quiet]", "take what fetches brought into a crawl that does not run",
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
    "doctor": Verb(
        "%(prog)s [DIR] [--config FILE]", "whether this machine is fit for a crawl, and what to do if it is not",
        _doctor_arguments, verbs_upkeep.doctor,
    ),
    "key": Verb(
        "%(prog)s DIR", "make a key that requests are signed with, and the directory by which servers know it",
        _signing_key_arguments, verbs_upkeep.signing_key,
    ),
    "takedown": Verb(
        "%(prog)s JOB [URL ...] [--host H] [--site S] [--match P] [--opt-out FILE] --reason TEXT [--dry-run] [--quiet]",
        "take what is stored of some URLs out of the archives of a crawl that does not run",
        _takedown_arguments, verbs_upkeep.takedown,
    ),
    "verify": Verb(
        "%(prog)s JOB|FILE ... [--json] [--quiet]", "check archives alone: records, digests, units",
        _verify_arguments, verbs_upkeep.verify,
    ),
}  # fmt: skip
