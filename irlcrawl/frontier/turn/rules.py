"""The rules of robots.txt for turns: read from the logs that host records point to, the last used ones kept."""

from __future__ import annotations

import logging

from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import HostRecord
from irlcrawl.web.robots import Rules, RulesCache
from irlcrawl.worker.harvest.rules_log import RulesLog

CACHE_BYTES = 8 << 20

_log = logging.getLogger("irlcrawl.frontier")


class KnownRules:
    """Belongs to the turn's thread. token: the product token of our User-Agent (RFC 9309)."""

    def __init__(self, state: CrawlState, token: str) -> None:
        self._state, self._token = state, token
        self._cache = RulesCache(CACHE_BYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of the rules in memory, at most CACHE_BYTES."""
        return self._cache.nbytes

    def allowed(self, record: HostRecord, urls: list[bytes]) -> list[bool]:
        """Whether each URL is allowed by its host's fresh rules. All are if the log is gone (it is older than its
        records say, or a user deleted it): the worker that is to ask the host sees the same, and asks for robots.txt
        first. Damaged; OSError."""
        pointer = (record.rules_log, record.rules_offset, record.rules_length)
        if not record.rules_length:
            return [True] * len(urls)
        rules = self._cache.get(pointer)
        if rules is None:
            rules = Rules(self._text(pointer), self._token)
            self._cache.put(pointer, rules)
        return [rules.allowed(url) for url in urls]

    def _text(self, pointer: tuple[int, int, int]) -> bytes:
        try:
            return RulesLog.read(self._state.files, self._state.dir, pointer)
        except FileNotFoundError as error:
            _log.warning("robots rules are gone, they are fetched again: %s", error)
            return b""
