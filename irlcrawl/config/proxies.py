"""Proxies: network.proxy and those of sites, read and checked, and the file of their logins.

A login is a secret, so it stands in a file of its own (network.proxy_logins_file); errors about that file name its line
and tell nothing of it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple

from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.overrides import Overrides

_PROXY = re.compile(r"(http|socks5h?)://(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})/?")
_NAMED_BY_PLACE = "http://"
"""Put before what has no kind: a login is for whatever kind of proxy there is at a place."""


class Proxy(NamedTuple):
    kind: str  # http, socks5, socks5h
    host: str
    port: int

    def __str__(self) -> str:
        """As the configuration names it."""
        return f"{self.kind}://{self.place}"

    @property
    def place(self) -> str:
        """As the file of logins names it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def by_name(self) -> bool:
        """The proxy is told the names of hosts, and resolves them; else it is told addresses, which are ours."""
        return self.kind != "socks5"


def parse(text: str, where: str) -> Proxy | None:
    """None for an empty text. ConfigError, which does not tell the text: it may hold a login."""
    if not text:
        return None
    match = _PROXY.fullmatch(text)
    if match is None or not 0 < int(match[4]) < 65_536:
        raise ConfigError(
            f"{where}: takes http://HOST:PORT, socks5://HOST:PORT (names are resolved here) or socks5h://HOST:PORT; a "
            "login goes into network.proxy_logins_file"
        )
    host = match[3].lower() if match[3] else match[2]
    with suppress(ValueError):
        host = str(ip_address(host))
    return Proxy(match[1], host, int(match[4]))


class Proxies:
    """Which proxy stands before a host."""

    def __init__(self, config: Config) -> None:
        """ConfigError for one that is none."""
        self._general = parse(config.network.proxy, "network.proxy")
        self._overrides = Overrides(config.site)
        own = [parse(site.proxy or "", f'site."{name}".proxy') for name, site in config.site.items()]
        self.any = any((self._general, *own))

    def of(self, name: str) -> Proxy | None:
        if not self.any:
            return None
        own = self._overrides.of(name).proxy
        return self._general if own is None else parse(own, "site.proxy")

    def resolves(self, name: str) -> bool:
        """Whether a proxy resolves the name."""
        proxy = self.of(name)
        return proxy is not None and proxy.by_name


def check(config: Config) -> None:
    """ConfigError."""
    if Proxies(config).any and config.fetch.client != "httptools":
        raise ConfigError(f"fetch.client = {config.fetch.client!r}: knows no proxies (network.proxy); takes httptools")


def read_logins(path: str) -> dict[str, str]:
    """HOST:PORT of proxies (Proxy.place) -> NAME:PASSWORD, out of lines `HOST:PORT NAME:PASSWORD`, in which the proxy
    may also stand as in network.proxy; `#` begins a line of comment. ConfigError."""
    where = f"network.proxy_logins_file = {path}"
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{where}: cannot be read: {what}") from None
    logins = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        place, _, login = line.strip().partition(" ")
        name, colon, password = login.strip().partition(":")
        try:
            proxy = parse(place if "://" in place else _NAMED_BY_PLACE + place, where)
        except ConfigError:
            proxy = None
        if proxy is None or not (colon and name) or max(len(name), len(password)) > 255:
            raise ConfigError(f"{where}, line {number}: takes HOST:PORT NAME:PASSWORD")
        logins[proxy.place] = login.strip()
    return logins
