"""Plug-ins: functions of other packages that the configuration names, found by their entry points.

A package offers them in the group `irlcrawl.plugins`; nothing is loaded that no key of [plugins] names. An entry point
is a function that takes the options of its plug-in (texts by name) and returns what is called for each page
(docs/plugins.md). It is called once in each process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from irlcrawl.config import keys as config
from irlcrawl.config.keys import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "irlcrawl.plugins"
KINDS = ("filter", "priority", "normaliser", "page", "headers")
"""The keys of [plugins] that name plug-ins: what each is called for."""


class Plugin(NamedTuple):
    """One plug-in as one kind."""

    name: str
    call: Callable[..., Any]


def named(keys: config.Plugins) -> bool:
    """Whether any plug-in is named."""
    return any(getattr(keys, kind) for kind in KINDS)


def load(keys: config.Plugins, kinds: tuple[str, ...] = KINDS) -> dict[str, list[Plugin]]:
    """The plug-ins of these kinds, in the order in which they are named. ConfigError for one that is not installed,
    cannot be loaded, or refuses its options."""
    wanted = dict.fromkeys(name for kind in kinds for name in getattr(keys, kind))
    if not wanted:
        return {kind: [] for kind in kinds}
    from importlib.metadata import entry_points  # a tenth of what a verb takes to start, and few name plug-ins

    there = {entry.name: entry for entry in entry_points(group=GROUP)}
    options = options_of(keys)
    calls = {name: _made(name, there, options.get(name, {})) for name in wanted}
    return {kind: [Plugin(name, calls[name]) for name in getattr(keys, kind)] for kind in kinds}


def options_of(keys: config.Plugins) -> dict[str, dict[str, str]]:
    """Plug-in -> option -> value, out of the texts `NAME.OPTION=VALUE`. ConfigError."""
    found: dict[str, dict[str, str]] = {}
    for text in keys.options:
        path, equals, value = text.partition("=")
        name, dot, option = path.strip().partition(".")
        if not (equals and dot and name and option):
            raise ConfigError(f"plugins.options: {text!r} is not NAME.OPTION=VALUE")
        found.setdefault(name, {})[option] = value.strip()
    return found


def check(keys: config.Plugins) -> None:
    """ConfigError if a plug-in that is named cannot be had, or if an option names a plug-in that is not."""
    load(keys)
    used = {name for kind in KINDS for name in getattr(keys, kind)}
    if unused := sorted(set(options_of(keys)) - used):
        raise ConfigError(f"plugins.options: no key of [plugins] names {', '.join(unused)}")


def _made(name: str, there: dict[str, EntryPoint], options: dict[str, str]) -> Callable[..., Any]:
    if name not in there:
        offered = ", ".join(sorted(there)) or "none"
        raise ConfigError(f"plugins: no installed package offers {name!r} (entry points {GROUP}: {offered})")
    try:
        call = there[name].load()(options)
    except Exception as error:  # what a stranger's code raises
        raise ConfigError(f"plugins: {name} cannot be used: {type(error).__name__}: {error}") from error
    if not callable(call):
        raise ConfigError(f"plugins: {name} gives {type(call).__name__}, which cannot be called")
    return call
