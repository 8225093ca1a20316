"""Headers that the operator adds to requests, as the configuration and files of secrets have them: read and checked.

A secret stands in a file of its own (`secrets_file` of a site), never in the configuration, which is written into JOB
and printed. So errors about such a file name its line and the header, not what the line says.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping

from irlcrawl.config.keys import Config, ConfigError, Site

Header = tuple[str, str]
"""Name and value, as they are sent."""

SECRET = ("authorization", "cookie")
"""They go to the hosts of one section of sites, out of a file."""
_OURS = {
    "host": "the URL says it", "user-agent": "crawl.user_agent says it", "from": "crawl.operator says it",
    **dict.fromkeys(("signature", "signature-input", "signature-agent"), "fetch.signing_key_file says it"),
    "accept-encoding": "it is what irlcrawl can undo", "accept-language": "fetch.accept_language says it",
}  # fmt: skip
_FRAMING = (
    "content-length", "transfer-encoding", "te", "trailer", "connection", "keep-alive", "upgrade", "expect", "range",
    "proxy-authorization", "proxy-connection",
)  # fmt: skip
_BASIC = "basic-auth"
"""In a file of secrets: `Basic-Auth: NAME:PASSWORD` stands for the Authorization header."""
_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([!-~](?:[ -~]*[!-~])?)[ \t]*")


def parse(lines: Iterable[str], where: str, site: bool = False) -> list[Header]:
    """The headers of a key that lists `Name: value`. `site`: of one site, which may have its own Accept-Language.
    ConfigError."""
    found: list[Header] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(f"{where}: {line!r} is no header of printable ASCII, such as 'X-Archive: example'")
        name = match[1].lower()
        if name in SECRET:
            raise ConfigError(f'{where}: {match[1]} is a secret: put it into the secrets_file of a [site."NAME"]')
        _check_name(match[1], where, site)
        found.append((match[1], match[2]))
    return _once(found, where)


def read_secrets(path: str) -> list[Header]:
    """The headers in a file of secrets, one a line; `#` begins a line of comment. ConfigError."""
    where = f"secrets_file = {path}"
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{where}: cannot be read: {what}") from None
    found: list[Header] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        here, match = f"{where}, line {number}", _LINE.fullmatch(line.strip())
        if match is None:
            raise ConfigError(f"{here}: is no header of printable ASCII, such as 'Cookie: name=value'")
        name, value = match[1], match[2]
        if name.lower() == _BASIC:
            if ":" not in value:
                raise ConfigError(f"{here}: Basic-Auth takes NAME:PASSWORD")
            name, value = "Authorization", f"Basic {base64.b64encode(value.encode()).decode()}"
        _check_name(name, here, site=True)
        found.append((name, value))
    return _once(found, where)


def check(config: Config) -> None:
    """Refuses headers of the configuration that cannot be sent. ConfigError. Files of secrets are not looked at."""
    parse(config.fetch.headers, "fetch.headers")
    if config.fetch.accept_language:
        parse([f"X-A: {config.fetch.accept_language}"], "fetch.accept_language")
    for name, site in config.site.items():
        parse(site.headers or [], f'site."{name}".headers', site=True)


def secrets_of(sites: Mapping[str, Site]) -> dict[str, list[Header]]:
    """The headers in each secrets_file of the configuration, by its path. ConfigError."""
    return {site.secrets_file: read_secrets(site.secrets_file) for site in sites.values() if site.secrets_file}


def _check_name(name: str, where: str, site: bool) -> None:
    key = name.lower()
    if key in _OURS and not (site and key == "accept-language"):
        raise ConfigError(f"{where}: {name} is not set here: {_OURS[key]}")
    if key in _FRAMING or key.startswith("if-"):
        raise ConfigError(f"{where}: {name} is not set here: it frames a request or changes what is answered")


def _once(headers: list[Header], where: str) -> list[Header]:
    names = [name.lower() for name, _ in headers]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}: has {name} twice")
    return headers
