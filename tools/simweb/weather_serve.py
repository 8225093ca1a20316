"""The weather on loopback: names that do not resolve, servers that refuse, throttle and fall silent, while time runs.

What each request brings is what `Weather.answer` says at the moment. Bounded by what loopback can be:

* A few addresses stand for all: sites that share an address share one here, others may, too.
* A connection is refused only if the name was resolved while the host refuses; otherwise it is closed unanswered.
* Waits end after `wait_seconds_max`, and then the connection is closed: to a client with a bound of its own that is a
  server that never answers.
* http only, so that no redirect leads to https; bodies are a few kilobytes and links. Retry-After is in seconds of the
  client's clock, as the rate is that servers bear.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from tools.sampleweb.dns import NoAnswer, Record
from tools.sampleweb.server import Ask, Origin, Reply
from tools.simweb.bodies import html
from tools.simweb.weather import TIMEOUT, Weather, WeatherParams
from tools.simweb.weather import Reply as Answer

RATE_SECONDS = 10.0
KEYS_MAX = 10_000


def served_weather(params: WeatherParams) -> WeatherParams:
    """The nearest weather that loopback can serve."""
    return dataclasses.replace(params, https_share=0.0)


@dataclass
class Rates:
    """Requests per second of late, by host or address: those of the last RATE_SECONDS before this one."""

    clock: Callable[[], float] = time.monotonic
    times: dict[str, deque[float]] = field(default_factory=dict)

    def counted(self, key: str) -> float:
        """The rate before a request, which counts from now on."""
        now = self.clock()
        if len(self.times) > KEYS_MAX:
            self.times = {key: some for key, some in self.times.items() if some[-1] > now - RATE_SECONDS}
        mine = self.times.setdefault(key, deque())
        while mine and mine[0] <= now - RATE_SECONDS:
            mine.popleft()
        mine.append(now)
        return (len(mine) - 1) / RATE_SECONDS


@dataclass(frozen=True)
class Sky:
    """A weather whose time runs. speed: seconds of weather in a second; 0: it stands still."""

    weather: Weather
    speed: float
    clock: Callable[[], float] = time.monotonic
    began: float = field(default_factory=time.monotonic)

    def at(self) -> float:
        """The moment of the weather."""
        return self.weather.start + (self.clock() - self.began) * self.speed

    def real(self, seconds: float) -> int:
        """Whole seconds of the client's in which so much weather passes, at least 1."""
        return max(1, math.ceil(seconds / self.speed)) if self.speed else math.ceil(seconds)

    def url(self, name: str, target: str = "/") -> bytes:
        port = self.weather.web.params.port
        return f"http://{name}{f':{port}' if port else ''}{target}".encode("latin-1", "replace")


@dataclass(frozen=True)
class Addresses(Mapping[str, Record]):
    """What the name server says at the moment. It has no list of its names."""

    sky: Sky
    pool: list[str]
    refusing: str  # an address on which nothing listens

    def __getitem__(self, name: str) -> Record:
        at, weather = self.sky.at(), self.sky.weather
        found = weather.resolve(name.encode("latin-1", "replace"), at)
        if found is None:
            raise NoAnswer(name)
        if found.address is None:
            raise KeyError(name)
        if weather.refuses(self.sky.url(name), at):
            return Record(self.refusing, 1)
        return Record(_loopback(self.sky, self.pool, name) or self.refusing, self.sky.real(found.ttl))

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class Origins(Mapping[str, Origin]):
    """Where each name is served, whatever becomes of it."""

    sky: Sky
    pool: list[str]

    def __getitem__(self, name: str) -> Origin:
        address = _loopback(self.sky, self.pool, name)
        if address is None:
            raise KeyError(name)
        return Origin(name, address)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _loopback(sky: Sky, pool: list[str], name: str) -> str | None:
    """The one of the pool that stands for a name's addresses; None for a name that does not exist."""
    there = sky.weather.addresses(name.encode("latin-1", "replace"))
    return pool[zlib.crc32(there[0].encode()) % len(pool)] if there else None


@dataclass
class Handler:
    """Answers requests. speed: how many times faster than they should hosts answer; 0: at once."""

    sky: Sky
    speed: float = 0.0
    wait_seconds_max: float = 30.0
    rates: Rates = field(default_factory=Rates)

    async def __call__(self, ask: Ask) -> Reply:
        at, weather = self.sky.at(), self.sky.weather
        name = ask.host.encode("latin-1", "replace")
        found = weather.resolve(name, at)
        address = found.address if found is not None and found.address else weather.addresses(name)[0]
        loads = self.rates.counted(ask.host), self.rates.counted(address)
        answer = weather.answer(self.sky.url(ask.host, ask.target), address, at, *loads)
        if answer.status == TIMEOUT:
            await asyncio.sleep(self.wait_seconds_max)
        elif self.speed:
            await asyncio.sleep(min(answer.seconds / self.speed, self.wait_seconds_max))
        if answer.status < 0:
            raise ConnectionAbortedError  # closes the connection
        return self._reply(answer, at)

    def _reply(self, answer: Answer, at: float) -> Reply:
        kind, headers = "text/html; charset=utf-8", []
        for header, value in answer.header:
            if header == "Content-Type":
                kind = value
            elif header == "Retry-After":
                headers.append((header, str(self.sky.real(_seconds(value, at)))))
            else:
                headers.append((header, value))
        if answer.robots is not None:
            return Reply(answer.status, answer.robots, kind, headers)
        if answer.status == 200:
            return Reply(200, html(answer.content, answer.links()), kind, headers)
        return Reply(answer.status, b"Sorry.\n" if answer.status not in (301, 302) else b"", kind, headers)


def _seconds(retry_after: str, at: float) -> float:
    """How long after `at` to ask again."""
    if retry_after.isdigit():
        return float(retry_after)
    return parsedate_to_datetime(retry_after).timestamp() - at
