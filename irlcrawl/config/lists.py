"""Files of names that a configuration points to, read and checked at each start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from irlcrawl.config.keys import Config, ConfigError

PARAMETERS_MAX = 100_000
LINE_BYTES_MAX = 1000
_PARAMETER = re.compile(r"[^\s&=?#*]+\*?")


def parameter_names(path: str) -> list[str]:
    """The names in a file of query parameters (urls.parameters_file): one a line, `#` begins a comment. ConfigError."""
    where = f"urls.parameters_file = {path}"
    lines = [line.partition("#")[0].strip() for line in _lines(path, where)]
    for number, line in enumerate(lines, 1):
        if line and not _PARAMETER.fullmatch(line):
            raise ConfigError(f"{where}, line {number}: {line!r} is no name of a parameter, such as ref or utm_*")
    names = [line for line in lines if line]
    if len(names) > PARAMETERS_MAX:
        raise ConfigError(f"{where}: has {len(names)} names; at most {PARAMETERS_MAX} are taken")
    return names


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
        if not host or not rank.isascii() or not rank.isdecimal() or int(rank) <= last:
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


def _lines(path: str, where: str) -> Iterator[str]:
    """ConfigError."""
    try:
        with open(path, encoding="utf-8") as stream:
            while line := stream.readline(LINE_BYTES_MAX):
                yield line
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: cannot be read: {error}") from error
