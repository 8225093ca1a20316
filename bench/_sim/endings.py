"""Where the URLs of a crawl ended, read from its crawl log once it is over, and what was given up too soon."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drum import Files

from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import origin_of
from irlcrawl.base.reasons import DONE_NAMES, Reason
from irlcrawl.base.url import host_of
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.log_parts import read
from tools.simweb.weather import Weather

DAY = 86_400.0
MOMENTS = 40
"""At so many moments of the crawl a URL that ended with an error of its server is looked at: an error that is there
each time lasts."""
TROUBLE = frozenset(
    reason.name.lower() for reason in (Reason.DNS, Reason.CONNECT, Reason.TLS, Reason.TIMEOUT, Reason.LOST)
)


@dataclass(slots=True)
class Ending:
    """Of one URL: how often and when it was asked, and what became of it (empty: nothing yet)."""

    first: float = 0.0  # unix seconds; 0: never asked
    last: float = 0.0
    over: float = 0.0  # when it was done
    outcome: str = ""
    reason: str = ""
    status: int = 0


class Endings:
    """questions: (when, name, whether it had an address) of each that matters, as the resolver was asked."""

    def __init__(
        self, files: Files, job: JobDir, weather: Weather, start: float, seconds: float,
        questions: Iterable[tuple[float, str, bool]],
    ) -> None:  # fmt: skip
        self._weather, self._start, self._seconds = weather, start, seconds
        self.of: dict[bytes, Ending] = {}
        asked: dict[bytes, list[tuple[float, bool]]] = {}  # by origin: (when, whether it was well)
        for entry in read(files, str(job.crawl_log)):
            self._take(entry, asked)
        named: dict[str, list[tuple[float, bool]]] = {}
        for at, name, known in questions:
            named.setdefault(name, []).append((at, known))
        for origin in {*asked, *map(origin_of, self.of)}:
            asked.setdefault(origin, []).extend(named.get(host_of(origin + b"/"), ()))
        self._silences = {origin: _silences(sorted(events)) for origin, events in asked.items()}
        self._lasting: dict[bytes, bool] = {}

    def _take(self, entry: LogEntry, asked: dict[bytes, list[tuple[float, bool]]]) -> None:
        begun = None if entry.start_ms is None or entry.stream is None else entry.start_ms / 1000
        trouble = entry.reason in TROUBLE or entry.status >= 500 or entry.status == 429
        trouble |= entry.outcome == "none" and 300 <= entry.status < 400  # where robots.txt leads may be closed
        if begun is not None and entry.status != _FORBIDDEN:
            asked.setdefault(origin_of(entry.url), []).append((begun, not trouble))
        if entry.outcome == "none":
            return
        ending = self.of.setdefault(entry.url, Ending())
        if begun is not None and entry.status != _FORBIDDEN:
            ending.first, ending.last = ending.first or begun, begun
        if entry.outcome in DONE_NAMES:
            ending.outcome, ending.reason, ending.status = entry.outcome, entry.reason, entry.status
            ending.over = entry.logged_ms / 1000

    def had(self, url: bytes) -> bool:
        """Whether it was fetched, with an answer that lasts."""
        ending = self.of.get(url)
        if ending is None or ending.outcome != "fetched":
            return False
        return not _passing(ending.status) or self._lasts(url)

    def _lasts(self, url: bytes) -> bool:
        known = self._lasting.get(url)
        if known is None:
            moments = (self._start + (n + 0.5) * self._seconds / MOMENTS for n in range(MOMENTS))
            statuses = (self._weather.answer(url, "0.0.0.0", at).status for at in moments)
            known = self._lasting[url] = all(status < 0 or _passing(status) for status in statuses)
        return known

    def where(self, urls: Iterable[bytes]) -> dict[str, int]:
        """How many of these are where: a reason, `waiting` (asked at least once), or `never asked`."""
        counts: Counter[str] = Counter()
        for url in urls:
            ending = self.of.get(url)
            if ending is None:
                counts["never asked"] += 1
            elif not ending.outcome:
                counts["waiting"] += 1
            else:
                counts[f"{ending.outcome}: {ending.reason}"] += 1
        return dict(counts.most_common())

    def given_up(self) -> dict[str, dict[str, Any]]:
        """By reason: how many, the least hours of asking in vain, how many were given up within a day."""
        found: dict[str, list[float]] = {}
        for url, ending in self.of.items():
            if self._is_given_up(url, ending):
                found.setdefault(ending.reason, []).append(self._in_vain(url, ending))
        return {
            reason: {
                "urls": len(spans), "least_hours": round(min(spans) / 3600, 3),
                "within_a_day": sum(span < DAY for span in spans),
            }
            for reason, spans in sorted(found.items())
        }  # fmt: skip

    def _is_given_up(self, url: bytes, ending: Ending) -> bool:
        if ending.outcome == "fetched":
            return _passing(ending.status) and not self._lasts(url)
        return ending.outcome == "failed" or ending.reason == Reason.ROBOTS_UNREACHABLE.name.lower()

    def _in_vain(self, url: bytes, ending: Ending) -> float:
        """Seconds between the first and the last time that the URL was asked for, or its host (scheme, name and port:
        http may answer where https does not) in one silence."""
        own = ending.last - ending.first
        begins, silences = self._silences.get(origin_of(url), ([], []))
        at = bisect_right(begins, ending.over + 0.001) - 1
        return max(own, silences[at] if at >= 0 else 0.0)


_FORBIDDEN = -9998  # by robots.txt: nothing was asked


def _passing(status: int) -> bool:
    return status == 429 or status >= 500


def _silences(events: list[tuple[float, bool]]) -> tuple[list[float], list[float]]:
    """(when a host was asked, and how long it had then been asked in vain without a break), a row each."""
    begins, lengths, since = [], [], None
    for at, well in events:
        since = None if well else at if since is None else since
        begins.append(at)
        lengths.append(0.0 if since is None else at - since)
    return begins, lengths
