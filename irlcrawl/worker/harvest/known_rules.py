"""The rules of robots.txt by their pointers, which host records and leases have: for workers, and for turns."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from drum import Files

from irlcrawl.web.robots import Rules, RulesCache
from irlcrawl.worker.harvest.rules_log import RulesLog

_log = logging.getLogger(__name__)


class KnownRules:
    """Read from the robots logs in `state_dir`, the last used kept. token: the product token of our User-Agent (RFC
    9309). For one thread."""

    def __init__(self, files: Files, state_dir: str, token: str, cache_bytes: int) -> None:
        self._files, self._state_dir, self._token = files, state_dir, token
        self._cache = RulesCache(cache_bytes)

    @property
    def nbytes(self) -> int:
        """Of the rules in memory."""
        return self._cache.nbytes

    def at(self, pointer: Sequence[int]) -> Rules | None:
        """The rules a pointer names; None where their log is gone (it is older than its records say, or a user deleted
        it): robots.txt is to be asked for again. Damaged; OSError."""
        log, offset, length = pointer
        key = (log, offset, length)
        rules = self._cache.get(key)
        if rules is None:
            try:
                text = RulesLog.read(self._files, self._state_dir, key)
            except FileNotFoundError as error:
                _log.warning("robots rules are gone, they are fetched again: %s", error)
                return None
            rules = Rules(text, self._token)
            self._cache.put(key, rules)
        return rules
