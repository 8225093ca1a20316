"""The values of options that choose URLs, the same in every verb that has such an option."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from irlcrawl.config.keys import ConfigError

if TYPE_CHECKING:
    from irlcrawl.base.job import JobDir
    from irlcrawl.base.url import SiteOf


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
