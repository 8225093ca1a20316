"""Files of names that a configuration points to, read and checked at each start, and again when they change.

A line of an opt-out list (scope.opt_out_file) says what its owner wants left alone, since when, and why; `#` begins a
line that is a comment:

    host   shop.example.com        2026-11-02  asked by mail; `host example.com:8080` is one port of it
    site   example.org             2026-11-02  this name and all names below it
    url    https://example.net/me  2026-11-03  this URL alone
    match  [?&]patient=            2026-11-03  every URL in which this pattern (RE2) is found
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from irlcrawl.base.pattern import compiled
from irlcrawl.config.keys import Config, ConfigError

PARAMETERS_MAX = 100_000
HOSTS_MAX = 10_000_000
LINE_BYTES_MAX = 1000
PARAMETER = re.compile(r"[^\s&=?#*]+\*?")
_HOST = re.compile(r"[a-z0-9_.:-]+")


def parameter_names(path: str) -> list[str]:
    """The names in a file of query parameters (urls.parameters_file): one a line, `#` begins a comment. ConfigError."""
    where = f"urls.parameters_file = {path}"
    names = []
    for number, line in _said(path, where):
        check_parameter(line, f"{where}, line {number}")
        names.append(line)
    if len(names) > PARAMETERS_MAX:
        raise ConfigError(f"{where}: has {len(names)} names; at most {PARAMETERS_MAX} are taken")
    return names


def check_parameter(name: str, where: str) -> None:
    """ConfigError for what cannot be a name of query parameters."""
    if not PARAMETER.fullmatch(name):
        raise ConfigError(f"{where}: {name[:200]!r} is no name of a parameter, such as ref or utm_*")


def host_names(path: str) -> list[str]:
    """The names in a file of hosts (scope.block_file): one a line, `#` begins a comment. ConfigError."""
    from irlcrawl.base.url import SeedError, named_host  # loaded only if the configuration names such a file

    where = f"scope.block_file = {path}"
    names = []
    for number, line in _said(path, where):
        try:
            name, port = named_host(line)
        except SeedError:
            name, port = "", None
        if port is not None or not _HOST.fullmatch(name):
            raise ConfigError(f"{where}, line {number}: {line[:100]!r} is no name of a host, such as example.org")
        names.append(name.rstrip("."))
    if len(names) > HOSTS_MAX:
        raise ConfigError(f"{where}: has {len(names)} names; at most {HOSTS_MAX} are taken")
    return names


OPT_OUTS_MAX = 200_000
OPT_OUT_BYTES_MAX = 8_000
MATCHES_MAX = 10_000
MATCH_STEPS_MAX = 500_000
"""Of the programs of all patterns of an opt-out list: one of 60 letters has some 60 steps."""
MATCH_BYTES = 256 << 10
"""For one pattern: its program has at most 4,096 steps."""
OPT_OUT_KINDS = ("host", "site", "url", "match")
_OPT_OUT = re.compile(r"(\S+)[ \t]+(\S+)[ \t]+(\S+)(?:[ \t]+(.*))?")


class OptOut(NamedTuple):
    """A line of such a list."""

    kind: str  # one of OPT_OUT_KINDS
    what: str  # `name` or `name:port` as URLs have them, a stored URL, or a pattern
    since: str  # a date, YYYY-MM-DD
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.what} ({self.since}{': ' if self.reason else ''}{self.reason})"


def opt_out(kind: str, what: str, since: str, reason: str = "") -> OptOut:
    """One of them, as a person writes it. ConfigError, whose message says what is wrong."""
    from irlcrawl.base.url import SeedError, named_host, seed_url  # slow to load, and few have a list

    if kind not in OPT_OUT_KINDS:
        raise ConfigError(f"{kind!r}: a line begins with one of {', '.join(OPT_OUT_KINDS)}")
    try:
        date.fromisoformat(since)
    except ValueError:
        raise ConfigError(f"{since!r} is no date such as 2026-11-02") from None
    if kind == "match":
        try:
            compiled(what, MATCH_BYTES)
        except ValueError as error:
            raise ConfigError(f"{what!r} is not an RE2 pattern: {error}") from error
        return OptOut(kind, what, since, reason)
    try:
        if kind == "url":
            return OptOut(kind, seed_url(what).decode("ascii"), since, reason)
        name, port = named_host(what)
    except SeedError as error:
        raise ConfigError(f"{what!r}: {error}") from error
    if not _HOST.fullmatch(name):
        raise ConfigError(f"{what!r} is no name of a {kind}, such as example.org; `site` has all of its hosts")
    if port is not None and kind == "site":
        raise ConfigError(f"{what!r}: a site has no port")
    return OptOut(kind, name if port is None else f"{name}:{port}", since, reason)


def opt_outs(path: str, where: str = "scope.opt_out_file") -> list[OptOut]:
    """The lines of an opt-out list. ConfigError, which names the line."""
    where = f"{where} = {path}"
    found, matches, steps = list[OptOut](), 0, 0
    for number, line in enumerate(_lines(path, where, OPT_OUT_BYTES_MAX), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _OPT_OUT.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"{where}, line {number}: {text[:200]!r} is not `host|site|url|match NAME YYYY-MM-DD reason`"
            )
        try:
            found.append(opt_out(match[1], match[2], match[3], match[4] or ""))
        except ConfigError as error:
            raise ConfigError(f"{where}, line {number}: {error}") from error
        if found[-1].kind == "match":
            matches, steps = matches + 1, steps + compiled(found[-1].what, MATCH_BYTES).programsize
            if matches > MATCHES_MAX or steps > MATCH_STEPS_MAX:
                raise ConfigError(
                    f"{where}, line {number}: the patterns so far are too many, or too long together; name pages and "
                    f"hosts by `url` and `host` (at most {MATCHES_MAX:,} patterns of {MATCH_STEPS_MAX:,} steps)"
                )
        if len(found) > OPT_OUTS_MAX:
            raise ConfigError(f"{where}: has more than {OPT_OUTS_MAX} lines")
    return found


def ranked_floors(config: Config) -> dict[str, int]:
    """Site -> the least budget that its rank in a list gives it (budgets.ranks_file; empty without one): that of the
    curve `rank`, top_budget / rank, where it is more than `base`. Lines are `rank,domain`, by rank; those behind the
    last that counts are not read, and of a site that stands there twice the better rank counts. ConfigError."""
    path, budgets = config.budgets.ranks_file, config.budgets
    if not path:
        return {}
    from irlcrawl.base.url import SeedError, SiteOf, named_host  # slow to load, and few have a list

    where = f"budgets.ranks_file = {path}"
    site_of = SiteOf(config.scope.private_suffixes)
    floors: dict[str, int] = {}
    last = 0
    for number, line in enumerate(_lines(path, where), 1):
        rank, _, domain = line.strip().partition(",")
        try:
            host = named_host(domain)[0]
        except SeedError:
            host = ""
        if not host or not re.fullmatch(r"[0-9]{1,18}", rank) or int(rank) <= last:
            raise ConfigError(
                f"{where}, line {number}: {line.strip()[:100]!r} is not rank,domain with a rank above {last}; a list "
                "such as Tranco's is sorted by rank"
            )
        last = int(rank)
        if budgets.top_budget // last <= budgets.base:
            break
        floors.setdefault(site_of(host), budgets.top_budget // last)
    if not last:
        raise ConfigError(f"{where}: has no line rank,domain")
    return floors


def _said(path: str, where: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, without comments, with their numbers. ConfigError."""
    for number, line in enumerate(_lines(path, where), 1):
        if text := line.partition("#")[0].strip():
            yield number, text


def _lines(path: str, where: str, bytes_max: int = LINE_BYTES_MAX) -> Iterator[str]:
    """ConfigError."""
    try:
        with open(path, encoding="utf-8-sig") as stream:  # some editors begin a file with a mark
            while line := stream.readline(bytes_max):
                yield line
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{where}: cannot be read: {reason}") from error


def lists_of(config: Config) -> dict[str, str]:
    """The files of names that a configuration points to: key -> path."""
    named = {
        "urls.parameters_file": config.urls.parameters_file, "scope.block_file": config.scope.block_file,
        "budgets.ranks_file": config.budgets.ranks_file,
    }  # fmt: skip
    return {key: path for key, path in named.items() if path}


Marks = dict[str, tuple[int, ...] | None]
"""Key -> what changes when its file does; None while there is no such file."""


def marks(config: Config) -> Marks:
    """Of the files as they are now."""
    return {key: _mark(path) for key, path in lists_of(config).items()}


def _mark(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
