"""Plug-ins where pages are read: they filter, weigh and rename links, and look at pages.

An exception in a plug-in, or an answer of the wrong shape, is counted, and the page goes on as if the plug-in were not
there. Their time is counted, too: the one thing here that differs when a page is read again.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from drum import Batch, Ragged

import numpy as np

from irlcrawl.base.keys import WEIGHT_MAX
from irlcrawl.base.rows import Source
from irlcrawl.base.url import canonical
from irlcrawl.config import plugins
from irlcrawl.config.keys import Config
from irlcrawl.config.plugins import Plugin
from irlcrawl.web.plugins import Handled, PageSeen
from irlcrawl.web.spelling import Spelling
from irlcrawl.worker.archive.unit import Exchange, Unit

Link = tuple[bytes, Source]

TOLD_MAX = 5
"""Exceptions of a plug-in that are logged with their traceback, in each process."""
NOTES_MAX, NOTE_CHARS_MAX = 16, 200
NO_PAGE = PageSeen(b"", 0, 0, ())
"""What normalisers are told: what a URL is called must not depend on where it was found."""
_NOT_NAME = re.compile("[^A-Za-z0-9_.-]")

_log = logging.getLogger("irlcrawl.plugins")


class Plugged:
    """The plug-ins of a crawl. ConfigError if one cannot be had."""

    def __init__(self, config: Config) -> None:
        found = plugins.load(config.plugins, ("filter", "priority", "normaliser", "page"))
        self._filters, self._priorities = found["filter"], found["priority"]
        self._normalisers, self.handlers = found["normaliser"], found["page"]
        self.renames = bool(self._normalisers)
        self._told: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def take_counts(self) -> dict[str, int]:
        """What happened since the last call: plugin_errors, plugin_us, filtered."""
        counts, self._counts = dict(self._counts), Counter()
        return counts

    def kept(self, links: list[Link], page: PageSeen, depth: int) -> list[Link]:
        """The links that every filter lets through."""
        for plugin in self._filters:
            if not links:
                break
            answer = self._asked(plugin, np.bool_, len(links), _batch(links, depth), page)
            if answer is not None:
                kept = [link for link, keep in zip(links, answer, strict=True) if keep]
                self._counts["filtered"] += len(links) - len(kept)
                links = kept
        return links

    def weights(self, links: list[Link], page: PageSeen, depth: int) -> list[int] | None:
        """What is to be added to each one's weight; None: nothing to any."""
        total = None
        for plugin in self._priorities if links else ():
            answer = self._asked(plugin, np.int64, len(links), _batch(links, depth), page)
            if answer is not None:
                total = answer if total is None else total + answer
        return None if total is None else np.clip(total, -WEIGHT_MAX, WEIGHT_MAX).tolist()

    def handled(self, page: PageSeen) -> tuple[list[bytes], dict[str, str]]:
        """More links of a page, in stored form, and notes."""
        links: list[bytes] = []
        notes: dict[str, str] = {}
        for plugin in self.handlers:
            answer = self._called(plugin, lambda answer: isinstance(answer, Handled | None), page)
            if answer is None:
                continue
            try:
                targets = [canonical(link, page.url) for link in answer.links]
                mine = {_NOT_NAME.sub("_", f"{plugin.name}.{name}"): _word(text) for name, text in answer.notes.items()}
            except Exception as error:
                self._failed(plugin, error)
                continue
            links += [target for target in targets if target is not None]
            notes |= dict(list(mine.items())[:NOTES_MAX])
        return links, notes

    def renamed(self, urls: list[bytes]) -> list[bytes]:
        """The URLs in stored form that normalisers make of these; the same objects where nothing changes."""
        rows = len(urls)
        for plugin in self._normalisers:
            batch = _batch([(url, Source.LINK) for url in urls], 0)
            answer = self._called(plugin, lambda answer: _are_rows(answer, rows), batch, NO_PAGE)
            if answer is None:
                continue
            try:
                news = answer.tolist() if isinstance(answer, Ragged) else answer
                pairs = zip(urls, news, strict=True)
                urls = [url if new is None or new == url else canonical(new) or url for url, new in pairs]
            except Exception as error:
                self._failed(plugin, error)
        return urls

    def _asked(self, plugin: Plugin, dtype: Any, rows: int, *args: Any) -> Any:
        """The column that a plug-in gives; None if it gives none such."""

        def column(answer: Any) -> bool:
            return np.asarray(answer).shape == (rows,)

        answer = self._called(plugin, column, *args)
        try:
            return None if answer is None else np.asarray(answer).astype(dtype)
        except (TypeError, ValueError) as error:
            return self._failed(plugin, error)

    def _called(self, plugin: Plugin, right: Callable[[Any], bool], *args: Any) -> Any:
        began = time.perf_counter_ns()
        try:
            answer = plugin.call(*args)
            if answer is not None and not right(answer):
                raise TypeError(f"it returned {str(answer)[:100]!r}, which has not the right shape")
            return answer
        except MemoryError:
            raise
        except Exception as error:
            return self._failed(plugin, error)
        finally:
            self._counts["plugin_us"] += (time.perf_counter_ns() - began) // 1000

    def _failed(self, plugin: Plugin, error: Exception) -> None:
        self._counts["plugin_errors"] += 1
        self._told[plugin.name] += 1
        if self._told[plugin.name] <= TOLD_MAX:
            _log.error("plug-in %s: %s: %s", plugin.name, type(error).__name__, error, exc_info=error)


class Renaming:
    """Spelling, and behind it the normalisers of plug-ins, in Spelling's place."""

    def __init__(self, spelling: Spelling, plugged: Plugged) -> None:
        self._spelling, self._plugged = spelling, plugged

    def of(self, url: bytes) -> bytes:
        return self._plugged.renamed([self._spelling.of(url)])[0]

    def by(self, url: bytes) -> list[str]:
        """The keys of the configuration that spell a URL otherwise."""
        spelled = self._spelling.of(url)
        renamed = self._plugged.renamed([spelled])[0] != spelled
        return [*self._spelling.by(url), *(["plugins.normaliser"] if renamed else [])]

    def of_all(self, urls: list[bytes]) -> list[bytes]:
        spelled = self._spelling.of_all(urls)
        return self._plugged.renamed(spelled) if spelled else spelled

    def of_target(self, target: bytes, url: bytes) -> bytes:
        renamed = self.of(target)
        if renamed == url or (renamed == self.of(url) and self._spelling.of_target(target, url) == target):
            return target
        return renamed


def seen(unit: Unit, exchange: Exchange | None, body: bytes = b"") -> PageSeen:
    return PageSeen(unit.url, unit.status, unit.carried.depth, () if exchange is None else exchange.fields, body)


def _batch(links: Sequence[Link], depth: int) -> Batch:
    return Batch({
        "url": Ragged.from_list([url for url, _ in links]),
        "source": np.array([source for _, source in links], np.uint8),
        "depth": np.full(len(links), depth, np.uint16),
    })  # fmt: skip


def _are_rows(answer: Any, rows: int) -> bool:
    return isinstance(answer, list | tuple | Ragged) and len(answer) == rows


def _word(text: object) -> str:
    """A note as the crawl log takes it: one word."""
    return "_".join(str(text).split())[:NOTE_CHARS_MAX]
