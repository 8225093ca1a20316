"""The options of the verbs of the command line, a function for each verb or for several that take the same.

The options of `crawl` are made from the table of configuration keys: `--section-key VALUE` for each key.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from irlcrawl.cli import verbs_export
from irlcrawl.cli.verbs_watch import DEFAULT_ADDRESS
from irlcrawl.config.keys import Config, ConfigError, Key, keys
from irlcrawl.config.toml import apply, parse_value

COMMON = {
    "crawl.user_agent", "crawl.operator", "crawl.workers", "scope.kind", "scope.include", "scope.exclude",
    "scope.depth_max", "cluster.ray", "limits.pages", "limits.bytes", "limits.seconds", "limits.pages_per_host",
    "limits.pages_per_site", "politeness.gap_host_seconds", "archive.dedupe_from",
}  # fmt: skip
"""`crawl --help` shows the options of these keys; the options of all other keys work, too."""


def of_crawl(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", metavar="JOB", type=_directory, help="directory of the crawl; made if it does not exist, else resumed"
    )
    _seeds(parser)
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
    group.add_argument(*names, dest=key.path, default=None, help=_help(key) if shown else argparse.SUPPRESS, **more)


def _help(key: Key) -> str:
    more = " The option may be repeated; each adds one." if key.type == "list" else ""
    return (key.doc + more).replace("%", "%%")


def apply_options(config: Config, args: argparse.Namespace) -> None:
    """Set the keys given as `--section-key`. Raises ConfigError, which tells all that is wrong with them."""
    wrong = []
    for key in keys():
        value = getattr(args, key.path, None)
        if value is not None:
            try:
                typed = parse_value(key, value) if isinstance(value, str) else value
                if isinstance(value, list):
                    typed = [one for text in value for one in _texts(key, text)]
                apply(config, {key.section: {key.name: typed}})
            except ConfigError as error:
                wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))


def _texts(key: Key, text: str) -> list[str]:
    """The values in one use of an option that may be repeated: a list of texts in TOML, as `-s` takes it, or the text
    itself. Read as a pattern, such a list would be a class of characters that is found in nearly every URL."""
    value = parse_value(key, text) if text.startswith("[") else [text]
    return value if all(isinstance(one, str) for one in value) else [text]


def _seeds(parser: argparse.ArgumentParser) -> None:
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


def of_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", type=_directory, help="directory of the crawl")


def _directory(name: str) -> str:
    """A crawl in the directory `https:` is none that anybody meant, nor one in this directory by an empty name."""
    if not name or "://" in name:
        raise argparse.ArgumentTypeError(f"{name!r}: takes the directory of the crawl, before any URL")
    return name


def of_status(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--watch", action="store_true", help="print again every second until the crawl ends")


def of_watch(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
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


def of_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="directory of a crawl; none: the reference of all keys")
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML), as `crawl` takes it")
    parser.add_argument("-s", dest="set", metavar="SECTION.KEY=VALUE", action="append", default=[], help="one value")
    parser.add_argument("--all", action="store_true", help="also the keys that have their default")


def of_urls(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument(
        "--status",
        help="only URLs of this status (404, -1), class (4xx) or outcome: fetched, failed, excluded, errors (failed, "
        "or answered with an error), retry (a line each time a URL was to be asked again later), returned (a line each "
        "time one was put back), queued (URLs that wait; with --reason visited, pages between two visits)",
    )
    parser.add_argument("--host", help="only URLs of this host: name or name:port")
    parser.add_argument("--site", help="only URLs of this registrable domain, all of its hosts")
    parser.add_argument(
        "--reason", help="only URLs with this reason (robots, dns, timeout, ...), or, if queued, in this place"
    )
    parser.add_argument(
        "--with", dest="note", metavar="NOTE", help="only URLs whose line in the crawl log has an annotation of this "
        "name, and its value: wishes (of owners about use), truncated, beyond_max (links over page.links_max), "
        "partly_read, damaged, faults, canonical and redirect (the URL to which a page leads), ...; of a "
        "robots.txt (a line each time it was asked for): crawl_delay, crawl_delay_asked, ...; NOTE=WORD: whose "
        "value is or has this word, as in wishes=noai or wishes=train-ai (=n or =y). If queued: "
        "rest (why a URL rests, and until when), throttled (the address of its host is asked more seldom than others)",
    )  # fmt: skip
    parser.add_argument(
        "--machine", action="store_true",
        help="one column more: the machine on which the page is archived; -: this one, or none. Not with queued",
    )  # fmt: skip


def of_retry(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    for name, text in {
        "--reason": "only URLs that are done for this reason (timeout, dns, blocked, robots, ...), excluded ones too",
        "--status": "only URLs of this status (404, -1) or class (5xx), fetched ones too; or failed, excluded, or "
        "errors (failed, or answered with an error)",
        "--host": "only URLs of this host and of all hosts below it: name or name:port",
    }.items():
        parser.add_argument(name, metavar=name[2].upper(), action="append", default=[], help=f"{text}; may be repeated")
    parser.add_argument("--dry-run", action="store_true", help="list the URLs, and put none back")


def of_revisit(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument(
        "what", metavar="URL|HOST", nargs="*", default=[],
        help="a page, which has a path or a scheme; or all pages of a host and of all hosts below it",
    )  # fmt: skip
    parser.add_argument(
        "--match", metavar="P", action="append", default=[],
        help="also pages in whose URL this pattern (RE2) is found; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--earlier", action="store_true",
        help="instead, make pages of the URLs that were fetched while revisit.enabled was false; each is visited again "
        "when it is due. Without URL, HOST and --match: of all",
    )  # fmt: skip


def of_set(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument(
        "changes", metavar="SECTION.KEY=VALUE", nargs="*", default=[],
        help="value of one configuration key; none: take JOB/irlcrawl.toml over as it was edited",
    )  # fmt: skip


def of_block(verb: str) -> Callable[[argparse.ArgumentParser], None]:
    def arguments(parser: argparse.ArgumentParser) -> None:
        of_job(parser)
        parser.add_argument(
            "names", metavar="HOST|SITE", nargs="*", default=[], help="this host and all hosts below it"
        )
        parser.add_argument(
            "--pattern", metavar="RE2", action="append", default=[], help="URLs in which it is found; may be repeated"
        )
        parser.set_defaults(verb=verb)

    return arguments


def of_pause(verb: str) -> Callable[[argparse.ArgumentParser], None]:
    def arguments(parser: argparse.ArgumentParser) -> None:
        of_job(parser)
        parser.add_argument("names", metavar="HOST|SITE", nargs="*", default=[], help="none: the whole crawl")
        parser.set_defaults(verb=verb)

    return arguments


def of_prefer(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument("what", metavar="HOST|URL", help="a URL has a path or a scheme; else it is a name")
    parser.add_argument(
        "--weight", metavar="N", type=int,
        help="its URLs go before others of their site as if they were so many links nearer to a seed, from -10 to "
        "10; below 0: behind",
    )  # fmt: skip
    parser.add_argument("--off", action="store_true", help="take the rule away again")


def of_parameters(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument(
        "--pages", metavar="N", type=int, default=10,
        help="least number of pages, different from one another, that are the same whatever value the parameter has "
        "(default 10); none of its site may differ by it",
    )  # fmt: skip
    parser.add_argument(
        "--write", action="store_true", help='leave them out of links from now on: site."NAME".parameters'
    )


def of_hand_in(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    _seeds(parser)


def of_get(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument("url", metavar="URL", help="a URL the crawl fetched")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--headers", action="store_true", help="the header of the response instead of its body")
    what.add_argument("--record", action="store_true", help="the WARC record as it is stored, decompressed")


def of_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "export", metavar="WHAT", choices=tuple(verbs_export.EXPORTS),
        help="pages: a row a response, with title, description, media type, place in the archive; links: a row a link, "
        "with its words and rel; listed: a row an entry of a sitemap or feed, with lastmod, priority and changefreq; "
        "hosts: a row a host, with what came of its URLs; graph: which site links to which; "
        "cdxj: the index of all captures, by which replay tools find them; wacz: archives, index and pages in one "
        "file, which ReplayWeb.page opens",
    )  # fmt: skip
    of_job(parser)
    parser.add_argument(
        "-o", dest="output", metavar="PATH",
        help="where to write it: a file (cdxj, hosts, wacz) or a directory (pages, links, listed, graph), which gets a "
        "file for each archive; exported there again, only new archives are added. Default: all of it to standard "
        "output, as JSON lines (cdxj: as it is); not for graph, wacz and --format parquet",
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
        help="pages, links, graph: a revisit record (its body is stored with another record) counts with the title, "
        "text, links and so on of that other record, if it is in a closed archive of JOB. Without it a row of pages "
        "names the row that has them (original_url, original_time), and links and graph lack the links",
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


def of_report(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument(
        "--politeness", action="store_true", help="every gap against its rule; exit code 1 if one is too short"
    )
    parser.add_argument("--steering", action="store_true", help="who changed how the crawl goes on, when, and how")
    parser.add_argument(
        "--freshness", action="store_true", help="how fresh the copies of pages are that are visited again, by host"
    )
    parser.add_argument(
        "--top", metavar="N", type=int,
        help="how many sites to show, or hosts with --freshness (default: 20); with --politeness, how many hosts, "
        "addresses and sites, the closest to their rule first (default: the closest one of each, and up to 20 that "
        "broke it)",
    )  # fmt: skip
    parser.add_argument(
        "--by",
        choices=("reputation", "budget", "spent", "waiting", "yield"),
        help="what to order the sites by (default: reputation); not with --politeness",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object; with --steering one a change")


def of_plan(parser: argparse.ArgumentParser) -> None:
    for name, text in {
        "--ram": "memory, such as 8GB",
        "--disk": "room for JOB, such as 2TB",
        "--bandwidth": "of the line, such as 100Mbit or 12MB (a second)",
    }.items():
        parser.add_argument(name, metavar=name[2:].upper(), help=f"{text}; without it: no bound")
    parser.add_argument("--cores", metavar="N", type=int, help="how many cores (default: those of this machine)")
    parser.add_argument("--hosts", metavar="N", type=float, help="hosts that have URLs at any moment, on average "
                        "(sites or addresses, if these are politeness.unit); default: as in JOB of --like, else no "
                        "bound")  # fmt: skip
    parser.add_argument("--pages", metavar="N", type=float, default=1e8, help="how many pages (default: 100,000,000)")
    parser.add_argument("--like", metavar="JOB", help="a crawl whose pages are like those to come")
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML), as `crawl` takes it")
    parser.add_argument(
        "--measure", action="store_true",
        help="measure first what a page costs on this machine, with files in the current directory: some 20 seconds",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object")


def of_why(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument(
        "what", metavar="URL|HOST|SITE", nargs="?", help="a URL has a path or a scheme; a bare name is a host"
    )
    parser.add_argument(
        "--slow", action="store_true", help="what keeps the crawl from being faster, and the key that would change it"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--json", action="store_true", help="one JSON object a finding")


def of_fsck(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument("--repair", action="store_true", help="make a whole crawl of what can still be read")
    _check(parser)


def of_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help="where crawls are to lie (default: here)"
    )
    parser.add_argument("--config", metavar="FILE", help="configuration file (TOML), as `crawl` takes it")


def of_signing_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="where to write both; a key directory there keeps its keys")


def of_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="JOB|FILE", nargs="+", help="a crawl, a directory of archives, or single archives"
    )
    _check(parser)


def of_takedown(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
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


def of_snapshot(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    parser.add_argument("name", metavar="NAME", help="name of the snapshot")


def of_snapshots(parser: argparse.ArgumentParser) -> None:
    of_job(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--open", nargs=2, metavar=("NAME", "DIR"), help="make the snapshot NAME a new crawl in DIR")
    what.add_argument("--delete", metavar="NAME", help="delete the snapshot NAME; files it shares stay with the others")
    parser.add_argument("--json", action="store_true", help="one JSON object a snapshot")
