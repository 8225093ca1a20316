"""Which URLs their owners want left alone: an opt-out list (config/lists.py), asked by URL and by host.

A list may be shared by crawls and grows while they run, so it is read again when the file changes. A list that cannot
be read any more, or has a wrong line, counts as it was: a mistake of the operator's must not undo an owner's wish. For
workers that are started later a copy of it, as it was when it could be read, is kept in JOB.
"""

from __future__ import annotations

import filecmp
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import re2

from irlcrawl.base.job_files import temporary
from irlcrawl.base.pattern import octets, options
from irlcrawl.base.url import split
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.lists import MATCH_BYTES, OptOut, opt_outs
from irlcrawl.web.spelling import Spelling

GROUP_LINES = 250
"""Patterns that are searched for together."""

_log = logging.getLogger("irlcrawl.opt_out")


Spelled = Callable[[bytes], bytes]
"""How a crawl spells a URL in stored form (spelling.py). A list names pages as their owners do."""


class OptOuts:
    """The lines of a list. Never changes, so any thread may ask it."""

    def __init__(self, lines: Iterable[OptOut], spelled: Spelled = lambda url: url) -> None:
        lines = list(lines)
        self._hosts = {_bare(line.what): line for line in reversed(lines) if line.kind == "host"}
        self._sites = {line.what.rstrip("."): line for line in reversed(lines) if line.kind == "site"}
        of_urls = [(line.what.encode("ascii"), line) for line in reversed(lines) if line.kind == "url"]
        self._spelled = spelled
        self._urls = dict(of_urls) | {spelled(url): line for url, line in of_urls}
        matches = [line for line in lines if line.kind == "match"]
        self._matches = list(_groups(matches)) if matches else []
        self.of_urls = bool(self._urls or self._matches)
        """Whether there are lines about less than a host."""

    def of(self, url: bytes) -> OptOut | None:
        """The line that names a URL (stored form); None if there is none."""
        found = (self._urls.get(url) or self._urls.get(self._spelled(url))) if self._urls else None
        if found is None and self._matches:
            found = next((group[min(at)] for matcher, group in self._matches if (at := matcher.Match(url))), None)
        return found or (self.of_host(url) if self._hosts or self._sites else None)

    def of_host(self, url: bytes) -> OptOut | None:
        """The line that names the host of a URL or a site it belongs to; None if there is none."""
        _, name, port, _ = split(url)
        name = name.rstrip(".")
        found = self._hosts.get(name) or self._hosts.get(f"{name}:{port}")
        while found is None and name:
            found = self._sites.get(name)
            name = "" if ":" in name else name.partition(".")[2]  # an IPv6 address lies under no name
        return found


def _bare(host: str) -> str:
    """NAME or NAME:PORT without a dot behind the name, which makes no difference."""
    name, colon, port = host.partition(":")
    return name.rstrip(".") + colon + port


def _groups(lines: list[OptOut]) -> Iterator[tuple[re2.Filter, list[OptOut]]]:
    """What finds the patterns of some lines, for all lines. A filter looks for the letters that they need, and then for
    the few patterns that have theirs; one of thousands of patterns has no room to work."""
    matcher = _matcher(lines) if len(lines) <= GROUP_LINES else None
    if matcher is not None:
        yield matcher, lines
    else:
        middle = len(lines) // 2
        yield from _groups(lines[:middle])
        yield from _groups(lines[middle:])


def _matcher(lines: list[OptOut]) -> re2.Filter | None:
    """None where the letters that they need have no room together; those of a single line have."""
    found = re2.Filter()
    for line in lines:
        found.Add(octets(line.what), options(MATCH_BYTES))
    try:
        found.Compile()
    except re2.error:
        if len(lines) < 2:
            raise
        return None
    return found


class OptOutFile:
    """The list in a file (scope.opt_out_file; empty: none). One thread at a time may ask for the latest, which is then
    for all threads."""

    def __init__(self, path: str, spelled: Spelled = lambda url: url, copy: str = "") -> None:
        """copy: a path for one; empty: none is kept. ConfigError for a file that is no opt-out list, and of which there
        is no copy."""
        self._path, self._spelled, self._copy = path, spelled, copy
        self._sign = self._signature() if path else None
        self._current: OptOuts | None = None
        if path:
            try:
                self._current = self._read()
            except ConfigError as error:
                if not os.path.exists(copy):
                    raise
                self._current = OptOuts(opt_outs(copy), spelled)
                _log.error("the opt-out list counts as it was: %s", error)

    @classmethod
    def of_crawl(cls, config: Config, copy: str = "") -> OptOutFile:
        """ConfigError."""
        return cls(config.scope.opt_out_file, Spelling(config.urls, config.site, config.url_rule).of, copy)

    @property
    def changed(self) -> bool:
        """Whether `latest` has a file to read: for 100,000 lines that takes most of a second."""
        return bool(self._path) and self._signature() != self._sign

    def latest(self) -> OptOuts | None:
        """The list as the file has it now, or last had it; None without a file."""
        if self.changed:
            self._sign = self._signature()
            try:
                self._current = self._read()
            except ConfigError as error:
                _log.error("the opt-out list counts as it was: %s", error)
        return self._current

    def _read(self) -> OptOuts:
        """What the file says now. ConfigError."""
        found = OptOuts(opt_outs(self._path), self._spelled)
        if self._copy and self._signature() == self._sign:
            with suppress(OSError):  # a full disk: the copy is as it was
                self._keep()
        return found

    def _keep(self) -> None:
        if os.path.exists(self._copy) and filecmp.cmp(self._path, self._copy, shallow=False):
            return
        os.makedirs(os.path.dirname(self._copy), exist_ok=True)
        new = temporary(f"{self._copy}.{os.getpid()}")  # each worker keeps it
        shutil.copyfile(self._path, new)
        os.replace(new, self._copy)

    def _signature(self) -> tuple[int, int, int] | None:
        """What changes with the file; None where there is none."""
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
