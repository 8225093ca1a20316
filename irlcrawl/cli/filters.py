"""The values of arguments and options that choose URLs, the same in every verb that has such."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from irlcrawl.config.keys import ConfigError
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar

if TYPE_CHECKING:
    from irlcrawl.base.job import JobDir
    from irlcrawl.base.url import SiteOf


def page_named(job: JobDir, asked: str, bar_of: Callable[[], Bar]) -> bytes:
    """The URL (in stored form) of the page that an argument names. Where the crawl log has it by the crawl's spelling
    alone, that is the one, and a line says so. ConfigError for what is no URL; Damaged, OSError."""
    from irlcrawl.ask.outcomes import entries_of
    from irlcrawl.base.url import SeedError, seed_url
    from irlcrawl.config.toml import load_stored
    from irlcrawl.web.spelling import Spelling

    try:
        url = seed_url(asked)
    except SeedError as error:
        raise ConfigError(f"{asked[:200]!r}: {error}") from error
    if any(entries_of(job, url, bar_of)) or not job.config_file.exists():
        return url
    config = load_stored(job.config_file)
    spelling = Spelling(config.urls, config.site, config.url_rule)
    spelled = spelling.of(url)
    if spelled == url or not any(entries_of(job, spelled, bar_of)):
        return url
    rules = ", ".join(spelling.by(url))
    told = f"{url.decode()} is {spelled.decode()} in this crawl (by {rules})"
    print(words.printable(told), file=sys.stderr)
    return spelled


def host_named(asked: str | None, option: str = "--host") -> str | None:
    """What --host names, as URLs have it: `name`, or `name:port` where a port was given. ConfigError, which names the
    option."""
    from irlcrawl.base.url import SeedError, named_host

    if asked is None:
        return None
    try:
        name, port = named_host(asked)
    except SeedError as error:
        raise ConfigError(f"{option} {asked}: {error}") from error
    name = f"[{name}]" if ":" in name else name
    return name if port is None else f"{name}:{port}"


def site_named(job: JobDir, asked: str | None) -> str | None:
    """What --site names: a registrable domain, as the crawl's scope has it. ConfigError."""
    if asked is None:
        return None
    name = host_named(asked, "--site") or ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]  # as site_filter compares it
    site = _site_of(job)(name)
    if name != site:
        raise ConfigError(f"--site {asked}: takes a registrable domain, such as {site}")
    return site


def site_filter(job: JobDir, site: str | None) -> Callable[[bytes], bool]:
    """Whether a URL in stored form is of the site; of no site, whether it is any URL."""
    from irlcrawl.base.url import host_of

    if site is None:
        return lambda url: True
    site_of = _site_of(job)
    return lambda url: site_of(host_of(url)) == site


def _site_of(job: JobDir) -> SiteOf:
    from irlcrawl.base.url import SiteOf
    from irlcrawl.config.toml import load_stored

    return SiteOf(load_stored(job.config_file).scope.private_suffixes)
