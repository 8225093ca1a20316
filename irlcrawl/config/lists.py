"""Files of names that a configuration points to, read and checked at each start."""

from __future__ import annotations

import re

from irlcrawl.config.keys import ConfigError

PARAMETERS_MAX = 100_000
_PARAMETER = re.compile(r"[^\s&=?#*]+\*?")


def parameter_names(path: str) -> list[str]:
    """The names in a file of query parameters (urls.parameters_file): one a line, `#` begins a comment. ConfigError."""
    where = f"urls.parameters_file = {path}"
    try:
        with open(path, encoding="utf-8") as stream:
            lines = [line.partition("#")[0].strip() for line in stream]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line and not _PARAMETER.fullmatch(line):
            raise ConfigError(f"{where}, line {number}: {line!r} is no name of a parameter, such as ref or utm_*")
    names = [line for line in lines if line]
    if len(names) > PARAMETERS_MAX:
        raise ConfigError(f"{where}: has {len(names)} names; at most {PARAMETERS_MAX} are taken")
    return names
