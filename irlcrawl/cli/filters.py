"""What an option that chooses URLs takes, alike in every verb that has it."""

from __future__ import annotations

from irlcrawl.config.keys import ConfigError


def host_named(asked: str | None) -> str | None:
    """What --host names, as URLs have it: `name`, or `name:port` where a port was given. ConfigError."""
    from irlcrawl.base.url import SeedError, named_host

    if asked is None:
        return None
    try:
        name, port = named_host(asked)
    except SeedError as error:
        raise ConfigError(f"--host {asked}: {error}") from error
    name = f"[{name}]" if ":" in name else name
    return name if port is None else f"{name}:{port}"
