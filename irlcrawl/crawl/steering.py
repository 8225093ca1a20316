"""Steering: verbs that change how a crawl goes on, whether it runs or not.

Each verb is a change of the configuration, and JOB/irlcrawl.toml is where it is kept: a verb reads that file, changes
what it is about, checks all of it as a start does, and writes it back. A crawl that runs takes the new configuration
over as its next start would (supervisor.py): it ends its run and begins another one in the same process, so that
nothing holds an old value. Who did it stands in logs/steering.log (journal.py), and who paused what in the catalogue
entry `pauses`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drum import Catalog, Edits, Files

from irlcrawl.base.job import JobDir
from irlcrawl.config import commands
from irlcrawl.config.checks import absolute, changes, check_resume, check_start, site_name
from irlcrawl.config.keys import Config, ConfigError, Priority, Site
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.rewrite import rewritten
from irlcrawl.config.toml import CONFIG_HEADER, from_dict, load, load_stored, to_dict
from irlcrawl.crawl import journal
from irlcrawl.crawl.means import check_means
from irlcrawl.frontier.state.start_checks import stored_config

ALL = "*"
"""In the place of a name: the whole crawl."""


@dataclass
class Steering:
    """A change that was checked and not made. `text`: of the new irlcrawl.toml; `changed`: what differs, a line each;
    `pauses`: name -> by whom and since when."""

    config: Config
    text: str
    changed: list[str]
    pauses: dict[str, Any]
    hints: list[str] = field(default_factory=list)


def steer(
    job: JobDir, verb: str, arguments: Sequence[str], by: str, now: float, *,
    running: Config | None = None, pauses: Mapping[str, Any] | None = None, files: Files | None = None,
) -> Steering:  # fmt: skip
    """What a verb would do. running: the configuration of the crawl, if it runs; else what the file says is changed.
    pauses: the catalogue's entry. ConfigError, with the message of a start; JobDamaged when the file is no
    configuration."""
    stored = load_stored(job.config_file)
    config = copy.deepcopy(stored)
    hints = VERBS[verb](config, list(arguments)) or []
    config = from_dict(to_dict(config))  # each value as at a start: a file that no start reads is never written
    absolute(config)
    check_start(config)
    check_means(config)
    before = running or stored
    check_resume(before, config)
    _check_commands(job, verb, stored, running, config)
    known = dict(pauses or {})
    names = [ALL] * config.crawl.pause + [name for name, site in config.site.items() if site.pause]
    paused = {name: known.get(name) or {"by": by, "since": now} for name in names}
    text = rewritten(stored_config(job, files or Files()) or "", config, CONFIG_HEADER)
    return Steering(config, text, changes(before, config), paused, hints)


def _check_commands(job: JobDir, verb: str, stored: Config, running: Config | None, config: Config) -> None:
    """A command that was typed may run from now on; one that the file has may not, if it is new to a crawl that runs.
    At rest the next start checks it. ConfigError."""
    named, in_file = commands.named(config), commands.named(stored)
    if verb == "set":
        commands.allow(job.path, {key: text for key, text in named.items() if in_file.get(key) != text})
    if running is not None:
        known = commands.named(running)
        commands.check(job.path, {key: text for key, text in named.items() if known.get(key) != text})


def keep(job: JobDir, catalog: Catalog | None, files: Files, steering: Steering) -> None:
    """Make it durable. JobError, OSError."""
    job.write_config(steering.text, files)
    if catalog is not None:
        edits = Edits()
        edits.set("config", steering.text)
        edits.set("pauses", steering.pauses)
        catalog.commit(edits)


def steer_at_rest(job: JobDir, verb: str, arguments: Sequence[str], now: float) -> Steering:
    """Do it to a crawl that does not run; the caller holds JOB's lock. Its next start goes by it. ConfigError,
    JobError, Damaged, OSError."""
    files, by = Files(), journal.user_name()
    catalog = Catalog.open(job.state, files) if job.has_catalogue() else None
    try:
        pauses = catalog.get("pauses") if catalog is not None else None
        try:
            steering = steer(job, verb, arguments, by, now, pauses=pauses, files=files)
        except ConfigError as error:
            journal.note(job, files, now, by, verb, arguments, f"refused: {error}")
            raise
        keep(job, catalog, files, steering)
        journal.note(job, files, now, by, verb, arguments, "; ".join(steering.changed) or "nothing changed")
        return steering
    finally:
        if catalog is not None:
            catalog.close()


# -- the verbs: each changes a Config, and returns what a person should know besides ----------------------------------


def _set(config: Config, arguments: list[str]) -> list[str]:
    changed, before = load(None, arguments, base=config), config.revisit.enabled
    for name, value in vars(changed).items():
        setattr(config, name, value)
    earlier = "pages that were fetched before are not among them; irlcrawl revisit JOB --earlier makes them so"
    return [earlier] if config.revisit.enabled and not before else []


def _block(config: Config, arguments: list[str]) -> list[str]:
    names, patterns = _apart(arguments)
    for name in names:
        config.site.setdefault(name, Site()).block = True
    config.scope.block += [pattern for pattern in patterns if pattern not in config.scope.block]
    told = "nothing more is requested of it; URLs that wait are excluded (blocked), and links to it from now on, too"
    return [told, *(["pages that were visited stay, and are not visited meanwhile"] if config.revisit.enabled else [])]


def _unblock(config: Config, arguments: list[str]) -> list[str]:
    names, patterns = _apart(arguments)
    for name in names:
        if not Overrides(config.site).blocked(name):
            raise ConfigError(f"{name}: no [site] section blocks it{_listed(config)}")
        _lift(config, name, "block")
    for pattern in patterns:
        if pattern not in config.scope.block:
            raise ConfigError(f"{pattern}: no such pattern in scope.block{_listed(config)}")
        config.scope.block.remove(pattern)
    hosts = " ".join(f"--host {name}" for name in names)
    return [f"URLs that left stay excluded; to put them back: irlcrawl retry JOB --reason blocked {hosts}".rstrip()]


def _listed(config: Config) -> str:
    return "; scope.block_file may: take it out of that file" if config.scope.block_file else ""


def _pause(config: Config, arguments: list[str]) -> list[str]:
    for name in arguments or [ALL]:
        if name == ALL:
            config.crawl.pause = True
        else:
            config.site.setdefault(site_name(name, ""), Site()).pause = True
    return ["nothing is requested of it; its URLs wait, and so does the crawl's end"]


def _unpause(config: Config, arguments: list[str]) -> list[str]:
    for name in arguments or [ALL]:
        if name == ALL:
            config.crawl.pause = False
        elif Overrides(config.site).paused(site_name(name, "")):
            _lift(config, site_name(name, ""), "pause")
        else:
            raise ConfigError(f"{name}: is not paused")
    paused = [name for name, site in config.site.items() if site.pause]
    return [f"still paused: {', '.join(paused)} (unpause takes their names, too)"] if paused and not arguments else []


def _lift(config: Config, name: str, key: str) -> None:
    """Take a mark off a name; where one above it has the mark, the name is an exception."""
    site = config.site.setdefault(name, Site())
    setattr(site, key, None)
    if getattr(Overrides(config.site).of(name), key):
        setattr(site, key, False)
    if site == Site():
        del config.site[name]


def _prefer(config: Config, arguments: list[str]) -> list[str]:
    what, weight = arguments
    if "/" in what:
        from irlcrawl.base.url import SeedError, seed_url

        try:
            url = seed_url(what).decode()
        except SeedError as error:
            raise ConfigError(f"{what}: {error}") from error
        match = f"^{re.escape(url)}$"
    else:
        match = rf"^https?://(?:[^/]*\.)?{re.escape(site_name(what, ''))}(?::\d+)?/"
    rules = [rule for rule in config.priority if rule.match != match]
    config.priority = rules if weight == "off" else [Priority(match, int(weight)), *rules]
    return ["it holds for links that are found from now on"]


def _read(config: Config, arguments: list[str]) -> None:
    """The file says what is to be, as it was edited."""


VERBS: dict[str, Callable[[Config, list[str]], list[str] | None]] = {
    "set": _set, "block": _block, "unblock": _unblock, "pause": _pause, "unpause": _unpause, "prefer": _prefer,
    "reload": _read,
}  # fmt: skip

PATTERN = "pattern:"
"""Before an argument of block and unblock that is no name."""


def _apart(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Names of hosts, and patterns. ConfigError."""
    patterns = [text.removeprefix(PATTERN) for text in arguments if text.startswith(PATTERN)]
    names = []
    for text in arguments:
        if not text.startswith(PATTERN):
            try:
                names.append(site_name(text, ""))
            except ConfigError:
                raise ConfigError(
                    f"{text}: takes the name of a host or a site, such as example.org; for a part of one a pattern: "
                    "--pattern '^https?://example\\.org/part/'"
                ) from None
    return names, patterns
