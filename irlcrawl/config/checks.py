"""Which values the configuration takes, and which keys must be set before a crawl may start or go on."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import shlex
from typing import Any

from irlcrawl.base.job_files import CONFIG, is_prefix
from irlcrawl.base.pattern import compiled
from irlcrawl.config import headers, plugins, proxies, signing_key
from irlcrawl.config.keys import RULES, Config, ConfigError, Key, Site, keys, section_keys, value_of
from irlcrawl.config.lists import (
    check_parameter,
    host_names,
    opt_outs,
    parameter_names,
    ranked_floors,
)
from irlcrawl.terminal.words import plural

INT_BEYOND = 2**63
"""No key takes such a number."""


def checked(key: Key, path: str, value: Any) -> Any:
    """`value` in the key's type. Raises ConfigError that names `path` and the values it takes."""
    kinds: dict[str, tuple[type, ...]] = {
        "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "list": (list,),
    }  # fmt: skip
    right = isinstance(value, kinds[key.type]) and (key.type == "bool" or not isinstance(value, bool))
    if right and key.type == "list":
        right = all(isinstance(item, str) for item in value)
    if right and key.type == "float":
        try:
            value = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            value = math.inf
        right = math.isfinite(value)
    if right and key.choices:
        right = all(item in key.choices for item in value) if key.type == "list" else value in key.choices
    if right and key.type in ("int", "float"):
        right = (key.low is None or value >= key.low) and (key.high is None or value <= key.high)
        right = right and (key.type == "float" or abs(value) < INT_BEYOND)
    if not right:
        shown = _shown(value)
        raise ConfigError(f"{path} = {shown}: takes {key.allows()}")
    for text in value if key.type == "list" else [value] if key.type == "str" else []:
        if not text.isprintable():
            raise ConfigError(f"{path} = {json.dumps(text)}: takes printable text")
    return value


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        return "a number of thousands of digits"


def site_name(name: str, where: str) -> str:
    """The NAME of [site."NAME"] as URLs have it, IPv6 without brackets. ConfigError beginning with `where`."""
    from irlcrawl.base.url import SeedError, named_host  # loaded only if the configuration names a site

    try:
        host, port = named_host(name)
    except SeedError:
        host, port = "", None
    host = host.rstrip(".")
    if port is not None or not re.fullmatch(r"[a-z0-9_.:-]+", host):
        raise ConfigError(
            f'{where}site."{name}": takes a host name or a registrable domain, such as [site."example.com"]; no port'
        )
    return host


def validate(config: Config) -> None:
    """Check rules that the table of keys cannot hold: patterns, networks, addresses, relations. Raises ConfigError."""
    for path, networks in (
        ("network.allow", config.network.allow),
        ("politeness.shared_addresses", config.politeness.shared_addresses),
    ):
        for text in networks:
            try:
                ipaddress.ip_network(text)
            except ValueError as error:
                raise ConfigError(f"{path}: {text} is not a network such as 127.0.0.0/8: {error}") from error
    for text in config.network.resolvers:
        _check_resolver(text)
    for name in ("include", "exclude", "block"):
        for pattern in getattr(config.scope, name):
            _check_pattern(f"scope.{name}", pattern)
    for section in RULES:
        for number, rule in enumerate(getattr(config, section), 1):
            _check_pattern(f"{section} {number}.match", rule.match or "")
    for path, names in (
        *((f'site."{name}".parameters', site.parameters or []) for name, site in config.site.items()),
        *((f"url_rule {number}.parameters", rule.parameters or []) for number, rule in enumerate(config.url_rule, 1)),
    ):
        for name in names:
            check_parameter(name, path)
    headers.check(config)
    proxies.check(config)
    signing_key.check(config)
    _check_hours(config)
    if config.fetch.http2 == "offered" and config.fetch.client != "httptools":
        raise ConfigError(
            'fetch.http2 = "offered": the client aiohttp speaks no HTTP/2; take fetch.client = "httptools"'
        )
    for path, types in (
        ("fetch.types", config.fetch.types),
        *((f'site."{name}".types', site.types or []) for name, site in config.site.items()),
    ):
        for text in types:
            if not re.fullmatch(r"!?[\w.+*-]+/[\w.+*-]+", text, re.ASCII):
                raise ConfigError(f"{path}: {text!r} is no media type, such as text/html, text/* or !video/*")
    if config.network.dns_ttl_min_seconds > config.network.dns_ttl_max_seconds:
        raise ConfigError("network.dns_ttl_min_seconds: is more than network.dns_ttl_max_seconds")
    _check_revisits(config)
    for path, command in (
        ("archive.on_warc_closed", config.archive.on_warc_closed), ("hooks.command", config.hooks.command),
    ):  # fmt: skip
        try:
            shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"{path} = {command!r}: no command: {error}") from error
    if config.hooks.webhook and not re.match(r"https?://[^/\s]+", config.hooks.webhook):
        raise ConfigError(
            f"hooks.webhook = {config.hooks.webhook!r}: takes an address such as https://example.org/hook"
        )
    if not is_prefix(config.archive.prefix):
        raise ConfigError(
            f"archive.prefix = {config.archive.prefix!r}: takes letters, digits, '.', '_' and '+': it names files"
        )


def _check_revisits(config: Config) -> None:
    if config.revisit.share_min > config.revisit.share_max:
        raise ConfigError("revisit.share_min: is more than revisit.share_max")
    for number, rule in enumerate(config.revisit_rule, 1):
        least, most = rule.every_min_seconds, rule.every_max_seconds
        if least is not None and most is not None and least > most:
            raise ConfigError(f"revisit_rule {number}.every_min_seconds: is more than its every_max_seconds")


def _check_hours(config: Config) -> None:
    sites = [site for site in config.site.values() if site.hours is not None or site.time_zone is not None]
    if config.politeness.hours or config.politeness.time_zone != "UTC" or sites:
        from irlcrawl.config.hours import Hours  # time zones are read only if some are named

        Hours(config)


def _check_resolver(text: str) -> None:
    address, port = text, "53"
    if text.startswith("["):
        address, _, port = text[1:].partition("]")
        port = port.removeprefix(":") or "53"
    elif text.count(":") == 1:
        address, port = text.split(":")
    try:
        ipaddress.ip_address(address)
        right = port.isdecimal() and 0 < int(port) < 65_536
    except ValueError:
        right = False
    if not right:
        raise ConfigError(f"network.resolvers: {text} is not an address, address:port or [address]:port")


def _check_pattern(path: str, pattern: str) -> None:
    try:
        compiled(pattern)
    except ValueError as error:
        raise ConfigError(f"{path}: {pattern!r} is not an RE2 pattern: {error}") from error


USER_AGENT_EXAMPLE = "MyCrawler/1.0 (+https://example.org/crawler; me@example.org)"
# RFC 9309 section 2.2.1 (the name), RFC 9110 section 10.1.5 (the version)
_PRODUCT = re.compile(r"[A-Za-z_-]+(?:/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?(?= |$)")
_CONTACT = re.compile(r"https?://[^\s/();,]+\.[^\s();,]+|[^\s@();,<>:]+@[^\s@();,<>]+\.[^\s@();,<>]+")


def check_start(config: Config) -> None:
    """Check that a crawl may make its first request: above all, that the User-Agent says whom to write to. Raises
    ConfigError."""
    agent = config.crawl.user_agent
    example = f'for example: -s crawl.user_agent="{USER_AGENT_EXAMPLE}"'
    if not agent:
        raise ConfigError(f"crawl.user_agent: required, with a page about the crawl or an e-mail address; {example}")
    if not agent.isascii() or _PRODUCT.match(agent) is None:
        raise ConfigError(
            f"crawl.user_agent = {agent!r}: begins with Name or Name/Version, the name of letters, '_' and '-' only "
            f"(it is what robots.txt files name), all of it ASCII; {example}"
        )
    if re.split("[/ ]", agent)[0].lower() == "mozilla":
        raise ConfigError(
            f"crawl.user_agent = {agent!r}: begins with the crawler's own name, which robots.txt files name; no file "
            f"means a crawler by Mozilla; {example}"
        )
    if _CONTACT.search(agent) is None:
        raise ConfigError(f"crawl.user_agent = {agent!r}: carries no contact (an URL or an e-mail address); {example}")
    _check_budgets_of_sites(config)
    plugins.check(config.plugins)
    if config.urls.parameters_file:
        parameter_names(config.urls.parameters_file)
    if config.scope.block_file:
        host_names(config.scope.block_file)
    headers.secrets_of(config.site)
    if config.network.proxy_logins_file:
        proxies.read_logins(config.network.proxy_logins_file)
    if config.fetch.signing_key_file:
        signing_key.read_key(config.fetch.signing_key_file)
    if config.scope.opt_out_file:
        opt_outs(config.scope.opt_out_file)
    ranked_floors(config)
    if config.archive.dedupe_from and not config.archive.dedupe_bytes_min:
        raise ConfigError("archive.dedupe_from: has no effect with archive.dedupe_bytes_min = 0")
    if config.archive.dedupe_window and not config.archive.dedupe_bytes_min:
        raise ConfigError("archive.dedupe_window: has no effect with archive.dedupe_bytes_min = 0")
    for path in config.archive.dedupe_from:
        if not (os.path.isfile(path) or os.path.isfile(os.path.join(path, CONFIG))):
            raise ConfigError(f"archive.dedupe_from = {path}: neither a crawl nor a CDXJ file")
    ca_file = config.fetch.tls_ca_file
    if ca_file and not (os.path.isfile(ca_file) and os.access(ca_file, os.R_OK)):
        raise ConfigError(f"fetch.tls_ca_file = {ca_file}: no such file, or not readable")
    if ca_file:
        import ssl  # only a configuration that names one pays for loading it

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca_file)
        except ssl.SSLError as error:  # else each worker would end with it
            raise ConfigError(f"fetch.tls_ca_file = {ca_file}: no certificates in PEM format: {error}") from error


def absolute(config: Config) -> None:
    """Paths that must lead to the same files wherever a crawl is started or resumed."""
    for section, key in (
        (config.fetch, "tls_ca_file"), (config.fetch, "signing_key_file"),
        (config.urls, "parameters_file"), (config.scope, "block_file"),
        (config.budgets, "ranks_file"), (config.network, "proxy_logins_file"),
        (config.scope, "opt_out_file"), (config.cluster, "token_file"), (config.cluster, "tls_cert"),
        (config.cluster, "tls_key"),
        *((site, "secrets_file") for site in config.site.values()),
    ):  # fmt: skip
        if path := getattr(section, key):
            setattr(section, key, os.path.abspath(path))
    config.archive.dedupe_from = [os.path.abspath(path) for path in config.archive.dedupe_from]


def _check_budgets_of_sites(config: Config) -> None:
    """Keys about budgets hold for sites: for a host that is no site they would have no effect, so they are refused."""
    told = [
        (name, key) for name, site in config.site.items() for key in ("pages_max", "budget_min", "bytes_per_second")
        if getattr(site, key) is not None
    ]  # fmt: skip
    if not told:
        return
    from irlcrawl.base.url import SiteOf  # the Public Suffix List is read only if such a key is set

    site_of = SiteOf(config.scope.private_suffixes)
    for name, key in told:
        if site_of(name) != name:
            raise ConfigError(
                f'site."{name}".{key}: counts for a registrable domain with all its hosts: [site."{site_of(name)}"]'
            )


def changes(old: Config, new: Config, fixed_only: bool = False) -> list[str]:
    """`section.key was A, now B` for every key whose value differs."""
    return ([] if fixed_only else _changes_of_rules(old, new) + _changes_of_sites(old, new)) + [
        f"{key.path} was {json.dumps(before)}, now {json.dumps(after)}"
        for key in keys()
        if key.single and (key.fixed or not fixed_only)
        if (before := value_of(old, key)) != (after := value_of(new, key))
    ]


def _changes_of_rules(old: Config, new: Config) -> list[str]:
    both = {section: (getattr(old, section), getattr(new, section)) for section in RULES}
    return [
        f"[[{section}]] had {plural(len(was), 'rule')}, now {len(now)}" + (", changed" if len(was) == len(now) else "")
        for section, (was, now) in both.items()
        if was != now
    ]


def _changes_of_sites(old: Config, new: Config) -> list[str]:
    found = []
    for name in dict.fromkeys([*old.site, *new.site]):
        before, after = old.site.get(name, Site()), new.site.get(name, Site())
        for key in section_keys("site"):
            was, now = getattr(before, key), getattr(after, key)
            if was != now:
                told = ("not set" if value is None else json.dumps(value) for value in (was, now))
                found.append(f'site."{name}".{key} was {", now ".join(told)}')
    return found


def check_resume(old: Config, new: Config) -> None:
    """Refuse changes of keys that shaped the files of a crawl. Raises ConfigError that names every such key."""
    if changed := changes(old, new, fixed_only=True):
        raise ConfigError(
            "; ".join(changed) + ": cannot change when a crawl is resumed, because it shaped what is on disk"
        )
