"""Which hosts and URLs are not to be requested, whatever found them: `[site."NAME"] block`, `scope.block_file` and
`scope.block`. Waiting URLs leave by the same rules (reason `blocked`)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable

from irlcrawl.base.keys import name_key
from irlcrawl.config.keys import Config
from irlcrawl.config.lists import host_names
from irlcrawl.config.overrides import Overrides
from irlcrawl.web.scope import finder


def blocked_urls(config: Config) -> Callable[[bytes], bool] | None:
    """Whether a canonical URL matches a pattern of scope.block; None if there are none. ConfigError."""
    patterns = finder("scope.block", config.scope.block)
    return None if patterns is None else lambda url: patterns.search(url) is not None


class Block:
    """Reads scope.block_file. ConfigError when that cannot be read, or a pattern is no RE2 expression. Names of hosts
    take 8 bytes each: a list of millions is held by every process."""

    def __init__(self, config: Config) -> None:
        self._overrides = Overrides(config.site)
        file = config.scope.block_file
        self._names = array("Q", sorted({name_key(name.encode()) for name in host_names(file)}) if file else [])
        self._patterns = blocked_urls(config)

    @property
    def any_host(self) -> bool:
        return self._overrides.block_any or bool(self._names)

    @property
    def any_url(self) -> bool:
        """Whether there are patterns."""
        return self._patterns is not None

    def host(self, name: str) -> bool:
        """Whether a host is blocked: by its own name, or by one above it. A section [site."NAME"] comes before the
        file."""
        if (said := self._overrides.of(name).block) is not None:
            return said
        name = name.rstrip(".") if self._names else ""
        while name:
            key = name_key(name.encode())
            at = bisect_left(self._names, key)
            if at < len(self._names) and self._names[at] == key:
                return True
            name = "" if ":" in name else name.partition(".")[2]  # an IPv6 address lies under no name
        return False

    def url(self, url: bytes) -> bool:
        """Whether a canonical URL matches a pattern."""
        return self._patterns is not None and self._patterns(url)

    def key_of(self, name: str, url: bytes | None = None) -> str | None:
        """The key of the configuration that blocks a host (or a URL of it), for people; None if nothing does."""
        if self.host(name):
            if self._overrides.of(name).block:
                return f'site."{self._overrides.setter(name, "block")}".block = true'
            return "scope.block_file"
        return "scope.block" if url is not None and self.url(url) else None
