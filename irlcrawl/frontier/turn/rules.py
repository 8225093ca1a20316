"""The rules of robots.txt as turns ask for them: by host records, about many URLs at once."""

from __future__ import annotations

from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.frontier.state.hosts import HostRecord
from irlcrawl.worker.harvest.known_rules import KnownRules

CACHE_BYTES = 8 << 20


class RulesOfHosts:
    """Belongs to the turn's thread. token: the product token of our User-Agent (RFC 9309)."""

    def __init__(self, state: CrawlState, token: str) -> None:
        self._known = KnownRules(state.files, state.dir, token, CACHE_BYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of the rules in memory, at most CACHE_BYTES."""
        return self._known.nbytes

    def allowed(self, record: HostRecord, urls: list[bytes]) -> list[bool]:
        """Whether each URL is allowed by its host's fresh rules. All are if the log is gone (it is older than its
        records say, or a user deleted it): the worker that is to ask the host sees the same, and asks for robots.txt
        first. Damaged; OSError."""
        pointer = (record.rules_log, record.rules_offset, record.rules_length)
        rules = self._known.at(pointer) if record.rules_length else None
        return [True] * len(urls) if rules is None else [rules.allowed(url) for url in urls]
