"""What happened of late, for status: how fast the crawl was over several times, and which hosts answer slowest. In
memory, bounded, and gone with the run."""

from __future__ import annotations

from collections import deque

SAMPLE_SECONDS = 5.0
TIMES = {"1 min": 60.0, "10 min": 600.0, "1 h": 3600.0}
SLOW_MAX, SLOW_SHOWN = 64, 8
SLOW_SECONDS = 600.0
"""So long an answer is remembered."""


class Recent:
    def __init__(self) -> None:
        self._fetched: deque[tuple[float, int]] = deque(maxlen=round(max(TIMES.values()) / SAMPLE_SECONDS) + 2)
        self._slow: dict[str, tuple[float, float]] = {}  # host -> duration, when

    def fetched(self, now: float, fetched: int) -> None:
        """So many URLs of the crawl are fetched as of now (unix seconds)."""
        if not self._fetched or now - self._fetched[-1][0] >= SAMPLE_SECONDS:
            self._fetched.append((now, fetched))

    def rates(self, now: float, fetched: int) -> dict[str, float]:
        """Pages a second over each of TIMES that this run has lasted."""
        found = {}
        for name, seconds in TIMES.items():
            before = [sample for sample in self._fetched if sample[0] <= now - seconds]
            if before:
                found[name] = (fetched - before[-1][1]) / (now - before[-1][0])
        return found

    def answered(self, now: float, host: str, seconds: float) -> None:
        """The last request of a visit to a host took so long."""
        if len(self._slow) >= SLOW_MAX and host not in self._slow:
            self._slow = dict(self._slowest(now)[: SLOW_MAX // 2])
        self._slow[host] = (seconds, now)

    def _slowest(self, now: float) -> list[tuple[str, tuple[float, float]]]:
        known = [one for one in self._slow.items() if now - one[1][1] < SLOW_SECONDS]
        return sorted(known, key=lambda one: -one[1][0])

    def slowest(self, now: float) -> dict[str, float]:
        """Host -> seconds that its last answer took, the slowest first."""
        return {host: round(seconds, 3) for host, (seconds, _) in self._slowest(now)[:SLOW_SHOWN]}
