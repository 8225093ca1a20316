"""The hours of the day in which hosts may be asked: politeness.hours, and those of `[site."x"]`.

Hours are of a day on the clocks of a time zone. On the days on which these are set, a window is an hour longer or
shorter, and one within the hour that comes twice counts once. All times are unix seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.overrides import Overrides

NAMES_CACHED = 65_536
_WINDOW = re.compile(r"([01]\d|2[0-4]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
DAY = 24 * 60


class Window:
    """Some hours of each day, such as "22:00-06:00" or "12:00-13:00, 18:30-20:00". ConfigError beginning with
    `where`."""

    def __init__(self, text: str, zone: str, where: str = "politeness.hours") -> None:
        self._zone = _zone(zone, where)
        self._parts = list(_parts(text, where))
        self._known = (0.0, 0.0, False)  # from, until: it is open, or closed

    def opens(self, now: float) -> float:
        """When the window is open next: `now` if it is."""
        until, is_open = self._look(now)
        return now if is_open else until

    def closes(self, now: float) -> float:
        """Until when the window stays open; `now` if it is closed."""
        until, is_open = self._look(now)
        return until if is_open else now

    @property
    def share(self) -> float:
        """The part of a day in which it is open."""
        minutes = end = 0
        for start, stop in self._parts:
            minutes += max(stop - max(start, end), 0)
            end = max(end, stop)
        return minutes / DAY

    def _look(self, now: float) -> tuple[float, bool]:
        since, until, is_open = self._known
        if not since <= now < until:
            since, until, is_open = self._known = self._around(now)
        return until, is_open

    def _around(self, now: float) -> tuple[float, float, bool]:
        """(since, until, open) of the stretch of time around `now`."""
        today = datetime.fromtimestamp(now, self._zone).date()
        midnights = [datetime.combine(today + timedelta(days=day), time(), self._zone) for day in range(-2, 4)]
        spans: list[list[float]] = []
        for midnight in midnights:
            for start, end in self._parts:
                begins, ends = ((midnight + timedelta(minutes=at)).timestamp() for at in (start, end))
                if spans and begins <= spans[-1][1]:
                    spans[-1][1] = max(spans[-1][1], ends)
                elif ends > begins:
                    spans.append([begins, ends])
        before = 0.0
        for begins, ends in spans:
            if now < begins:
                return before, begins, False
            if now < ends:
                return begins, ends, True
            before = ends
        raise AssertionError("a day has no window")


class Hours:
    """The windows of all hosts. Safe to ask from several threads."""

    def __init__(self, config: Config) -> None:
        """ConfigError for hours or a time zone that are none."""
        self._overrides, self._params = Overrides(config.site), config.politeness
        self._windows: dict[tuple[str, str], Window | None] = {}
        self._general = self._window(config.politeness.hours, config.politeness.time_zone, "politeness.hours")
        self._own = {
            name: self._of(name, f'site."{name}".hours')
            for name, site in config.site.items()
            if site.hours is not None or site.time_zone is not None
        }
        self._all = [self._general, *self._own.values()]
        self.any = any(self._all)
        """Whether any host has hours at all."""
        self.of = lru_cache(maxsize=NAMES_CACHED)(self._of)

    def opens(self, name: str, now: float) -> float:
        """When a host may be asked next: `now` if it may be."""
        window = self.of(name)
        return now if window is None else window.opens(now)

    def closes(self, name: str, now: float) -> float:
        """Until when a host may be asked; infinite for one without hours."""
        window = self.of(name)
        return float("inf") if window is None else window.closes(now)

    def all_closed(self, now: float) -> bool:
        """Whether no host at all may be asked."""
        return all(_closed(window, now) for window in self._all)

    def closed_windows(self, now: float) -> dict[str, float]:
        """The keys (`key_of`) by which hosts may not be asked now, the general one and those of `[site."x"]`: when they
        may be next."""
        windows = {"politeness.hours": self._general}
        windows |= {self.key_of(name): window for name, window in self._own.items()}
        return {
            key: window.opens(now) for key, window in windows.items() if window is not None and _closed(window, now)
        }

    def key_of(self, name: str) -> str:
        """The key that sets the hours of a host, and the one that sets its time zone, if a section does that alone."""
        by, zone = self._overrides.setter(name, "hours"), self._overrides.setter(name, "time_zone")
        key = "politeness.hours" if by is None else f'site."{by}".hours'
        return key if zone in (None, by) else f'{key} in site."{zone}".time_zone'

    def _of(self, name: str, where: str = "") -> Window | None:
        site = self._overrides.of(name)
        return self._window(
            self._params.hours if site.hours is None else site.hours,
            self._params.time_zone if site.time_zone is None else site.time_zone,
            where,
        )

    def _window(self, text: str, zone: str, where: str = "") -> Window | None:
        if (text, zone) not in self._windows:
            self._windows[text, zone] = Window(text, zone, where) if text else None
            if not text:
                _zone(zone, where)
        return self._windows[text, zone]


def _closed(window: Window | None, now: float) -> bool:
    return window is not None and window.opens(now) > now


def _zone(name: str, where: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        path = where.replace(".hours", ".time_zone")
        raise ConfigError(f"{path} = {name!r}: no such time zone here; takes names such as Europe/Berlin") from None


def _parts(text: str, where: str) -> Iterator[tuple[int, int]]:
    """The minutes of a day, from and to, in order, parted at midnight."""
    found = []
    for part in text.split(","):
        match = _WINDOW.fullmatch(part.strip())
        start, end = (int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])) if match else (0, 0)
        if start == end or max(start, end) > DAY:
            raise ConfigError(f"{where} = {text!r}: takes hours such as '22:00-06:00', several with commas between")
        found += [(start, end)] if start < end else [(start, DAY), (0, end)]
    yield from sorted(part for part in found if part[0] < part[1])
