"""What the configuration says of requests to one host: the headers they carry, and which pages are wanted of it.

Terms are looked up by the name of the host that is asked, for each request anew. So what a site's section says goes to
the hosts of that section alone, wherever a redirect leads.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from irlcrawl.config import plugins
from irlcrawl.config.headers import Header, parse
from irlcrawl.config.keys import Config, Fetch, Site
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.plugins import Plugin
from irlcrawl.config.proxies import Proxies, Proxy
from irlcrawl.worker.fetch.wants import Wants

WITHHELD = "(withheld)"
"""What the archive has in the place of a secret."""
HOSTS_CACHED = 4096
_log = logging.getLogger("irlcrawl.plugins")
_MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


class Terms(NamedTuple):
    """Of requests to a host."""

    headers: list[Header]
    """Behind Host, in order, as they are sent."""
    archived: list[Header]
    """The same, as the request record has them: WITHHELD for a secret. The same list where there is none."""
    sent_block: bytes
    """`headers` and the blank line, on the wire."""
    archived_block: bytes
    wants: Wants | None
    """None: all pages are wanted."""
    proxy: Proxy | None = None
    login: str = ""
    """NAME:PASSWORD for the proxy; empty: it wants none."""
    bytes_per_second: int = 0
    """Most bytes that the host's site sends, on average. 0: off."""


class TermsOf:
    """Terms by host name. `secrets`: the headers of each secrets_file, by its path (config/headers.secrets_of).
    `logins`: those of proxies (config/proxies.read_logins)."""

    def __init__(
        self, config: Config, secrets: Mapping[str, Sequence[Sequence[str]]] | None = None,
        logins: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._fixed = _with(fixed_headers(config), parse(config.fetch.headers, "fetch.headers"))
        self._overrides = Overrides(config.site)
        self._secrets = {path: [(name, value) for name, value in found] for path, found in (secrets or {}).items()}
        self._fetch = config.fetch
        self._proxies, self._logins = Proxies(config), logins or {}
        general = _terms(self._fixed, [], _wants(config.fetch, Site()))
        self.general = self._through(general, self._proxies.of(""))
        """Of hosts that no section of sites names."""
        self._plugins = plugins.load(config.plugins, ("headers",))["headers"]
        self.plugin_errors = 0
        """Of plug-ins that give headers, not counted elsewhere yet."""
        self.of = self._of if config.site or self._plugins else lambda host: self.general
        self._special = lru_cache(maxsize=HOSTS_CACHED)(self._special_of)

    def _of(self, host: str) -> Terms:
        return self._special(host)

    def _special_of(self, host: str) -> Terms:
        site = self._overrides.of(host)
        secrets = self._secrets[site.secrets_file] if site.secrets_file else []
        headers = _with(self._fixed, parse(site.headers or [], "headers", site=True))
        for plugin in self._plugins:
            headers = _with(headers, self._headers_by(plugin, host))
        terms = _terms(headers, secrets, _wants(self._fetch, site))
        terms = terms._replace(bytes_per_second=site.bytes_per_second or 0)
        return self._through(terms, self._proxies.of(host))

    def _headers_by(self, plugin: Plugin, host: str) -> list[Header]:
        """What a plug-in gives for a host; nothing if that is an exception, or no headers."""
        try:
            return parse([f"{name}: {value}" for name, value in plugin.call(host)], f"plug-in {plugin.name}", site=True)
        except MemoryError:
            raise
        except Exception as error:
            self.plugin_errors += 1
            _log.error("plug-in %s, for %s: %s: %s", plugin.name, host, type(error).__name__, error)
            return []

    def _through(self, terms: Terms, proxy: Proxy | None) -> Terms:
        if proxy is None:
            return terms
        return terms._replace(proxy=proxy, login=self._logins.get(proxy.place, ""))


def fixed_headers(config: Config) -> list[Header]:
    """The headers that follow Host in every request, fetch.headers apart."""
    mail = [("From", config.crawl.operator)] if _MAIL.fullmatch(config.crawl.operator) else []
    language = [("Accept-Language", config.fetch.accept_language)] if config.fetch.accept_language else []
    return [
        ("User-Agent", config.crawl.user_agent),
        *mail,
        ("Accept", "text/html,application/xhtml+xml,*/*;q=0.5"),
        ("Accept-Encoding", "gzip, br, zstd"),
        *language,
    ]


def _wants(fetch: Fetch, site: Site) -> Wants | None:
    types = fetch.types if site.types is None else site.types
    length_max = fetch.length_max if site.length_max is None else site.length_max
    return Wants(types, length_max) if types or length_max else None


def _terms(headers: list[Header], secrets: list[Header], wants: Wants | None) -> Terms:
    sent = _with(headers, secrets)
    hidden = {name for name, _ in secrets}
    archived = [(name, WITHHELD if name in hidden else value) for name, value in sent] if secrets else sent
    return Terms(sent, archived, _block(sent), _block(archived), wants)


def _with(headers: list[Header], more: Iterable[Header]) -> list[Header]:
    """`headers`, those of `more` in the places of those of the same name, or behind all."""
    found = {name.lower(): (name, value) for name, value in headers}
    for name, value in more:
        found[name.lower()] = (name, value)
    return list(found.values())


def _block(headers: list[Header]) -> bytes:
    return "".join([*(f"{name}: {value}\r\n" for name, value in headers), "\r\n"]).encode()
