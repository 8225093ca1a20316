"""The simulated web over HTTP on loopback: each request is answered by asking the definition for one page.

Bounded: the hosts share a few 127.x addresses, answers wait no longer than `wait_seconds_max`, bodies are a few
kilobytes and links. Host names are not listed anywhere; the name server computes whether one exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from drum.ragged import Ragged

import numpy as np

from irlcrawl.base.rows import Robots
from tools.sampleweb.dns import NameServer, Record
from tools.sampleweb.server import Ask, Origin, Reply, Server
from tools.sampleweb.server import Handler as Answers
from tools.simweb.answers import Fault
from tools.simweb.bodies import html
from tools.simweb.params import Params
from tools.simweb.robots import robots_text
from tools.simweb.truth import NOWHERE
from tools.simweb.weather import Weather, WeatherParams
from tools.simweb.weather_serve import Addresses as WeatherAddresses
from tools.simweb.weather_serve import Handler as WeatherHandler
from tools.simweb.weather_serve import Origins, Sky, served_weather
from tools.simweb.web import Web

ADDRESSES_MAX = 64
SILENT_ADDRESS = "127.52.255.1"
"""Where hosts that refuse connections resolve to: nothing is ever bound there."""
RUN_NEVER_ADVANCES = 0.0
MONTHS = b"January February March April May June July August September October November December".split()


def served_params(params: Params) -> Params:
    """The nearest web that loopback can serve: no https, since every name would need a certificate."""
    return dataclasses.replace(params, https_share=0.0)


class Hosts(dict[str, Origin]):
    """Host name -> where it is served, computed when asked; nothing is stored."""

    def __init__(self, web: Web, addresses: list[str]) -> None:
        super().__init__()
        self.web = web
        self.addresses = addresses
        self._number = lru_cache(10_000)(self._find)

    def _find(self, name: str) -> tuple[int, int]:
        """(host, Fault); host NOWHERE for names of no host."""
        host = self.web.names.hosts(Ragged.from_list([name.encode("latin-1", "replace")]))
        fault = int(self.web.fault(host)[0]) if host[0] != NOWHERE else Fault.DNS
        return int(host[0]), fault

    def number(self, name: str) -> int:
        return self._number(name)[0]

    def address(self, name: str) -> str | None:
        """Where a name resolves to; None for names that do not."""
        host, fault = self._number(name)
        if fault == Fault.DNS:
            return None
        if fault == Fault.CONNECT:
            return SILENT_ADDRESS
        number = int(self.web.address(np.array([host], np.uint64))[0])
        return self.addresses[number % len(self.addresses)]

    def get(self, name: str, default: Any = None, /) -> Any:
        address = self.address(name)
        return default if address is None else Origin(name, address)

    def __missing__(self, name: str) -> Origin:
        address = self.address(name)
        if address is None:
            raise KeyError(name)
        return Origin(name, address)


class Addresses(Mapping[str, str]):
    """What the name server knows: `Hosts`, as addresses. It has no list of its names."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts

    def __getitem__(self, name: str) -> str:
        address = self.hosts.address(name)
        if address is None:
            raise KeyError(name)
        return address

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass
class Handler:
    """Answers requests. `speed`: seconds of the web per second of waiting; 0 answers at once. `run_seconds`: how long
    the run is in which sites turn; 0 keeps the web as it is at the start."""

    web: Web
    hosts: Hosts
    speed: float = 0.0
    wait_seconds_max: float = 30.0
    run_seconds: float = RUN_NEVER_ADVANCES

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.attempts: dict[int, int] = {}

    def when(self) -> float:
        if self.run_seconds == RUN_NEVER_ADVANCES:
            return 0.0
        return min(1.0, (time.monotonic() - self.started) / self.run_seconds)

    async def __call__(self, ask: Ask) -> Reply:
        host = np.array([self.hosts.number(ask.host)], np.uint64)
        fault = int(self.web.fault(host)[0])
        if fault == Fault.TIMEOUT:
            await asyncio.sleep(self.wait_seconds_max)
            return Reply(504, b"", "text/plain")
        if ask.target == "/robots.txt":
            return self._robots(host)
        url = b"http://" + ask.host.encode("latin-1") + self._port() + ask.target.encode("latin-1")
        page = self.web.pages(Ragged.from_list([url]))
        if page[0] == NOWHERE:
            return Reply(404, b"Not found.\n", "text/plain")
        attempt = 0
        if fault == Fault.FLAKY:  # on other hosts it makes no difference, and need not be remembered
            attempt = self.attempts.get(int(page[0]), -1) + 1
            self.attempts[int(page[0])] = attempt
        return await self._page(page, attempt)

    def _port(self) -> bytes:
        return f":{self.web.params.port}".encode() if self.web.params.port else b""

    def _robots(self, host: np.ndarray[Any, np.dtype[np.uint64]]) -> Reply:
        rules = self.web.robots(host)
        if rules["state"][0] == Robots.RULES:
            return Reply(200, robots_text(rules, 0), "text/plain")
        return Reply(404 if rules["state"][0] == Robots.ALLOW else 503, b"", "text/plain")

    async def _page(self, page: np.ndarray[Any, np.dtype[np.uint64]], attempt: int) -> Reply:
        when = self.when()
        answer = self.web.answers(page, when, attempt)
        status = int(answer["status"][0])
        if self.speed:
            await asyncio.sleep(min(float(answer["seconds"][0]) / self.speed, self.wait_seconds_max))
        if status == 301:
            return Reply(301, headers=[("Location", self.web.urls(answer["location"])[0].decode())])
        if status == 503:
            return Reply(503, b"Busy.\n", "text/plain", [("Retry-After", "1")])
        if status != 200:
            return Reply(status, b"Sorry.\n", "text/plain")
        return Reply(200, self._html(page, int(answer["content"][0]), when))

    def _html(self, page: np.ndarray[Any, np.dtype[np.uint64]], content: int, when: float) -> bytes:
        """A page: its links and a date are its own, all else goes by its content."""
        links = self.web.urls(self.web.links(page, when).targets).tolist()
        return html(content, links, b"%d %s" % (int(page[0]) % 28 + 1, MONTHS[int(page[0]) % 12]))


@dataclass(frozen=True)
class Served:
    """A web while it is served: `resolver` is what a crawl's network.resolvers names."""

    web: Web
    resolver: str
    log: Path
    sky: Sky | None = None  # the weather and its clock

    def seeds(self, count: int) -> list[str]:
        if self.sky is not None:
            return [url.decode() for url in self.sky.weather.seeds(count)]
        return [url.decode() for url in self.web.urls(self.web.seeds(count)).tolist()]


@contextlib.contextmanager
def serving(
    params: Params,
    log: Path,
    *,
    addresses: int = 16,
    speed: float = 0.0,
    run_seconds: float = RUN_NEVER_ADVANCES,
    weather: WeatherParams | None = None,
    weather_speed: float = 1.0,
    heard: Callable[[], object] = lambda: None,
) -> Iterator[Served]:
    """Serves a web from a thread of its own while the block runs; `log` is its access log. weather: under it, and with
    its time weather_speed times as fast as the clock's. heard(): called in that thread at each request, before it is
    answered. Raises ServerError."""
    if not 1 <= addresses <= ADDRESSES_MAX:
        raise ValueError(f"addresses must be 1 to {ADDRESSES_MAX}")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="simweb", daemon=True)
    thread.start()

    def on_loop(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    try:
        pool = [f"127.52.0.{1 + n}" for n in range(addresses)]
        # The server binds the addresses of named origins; which names there are is known once the port is.
        server = Server([Origin(f"{n}.invalid", address) for n, address in enumerate(pool)], _nothing_yet, log)
        web = Web(dataclasses.replace(served_params(params), port=server.http_port))
        sky = None
        known: Mapping[str, str | Record]
        if weather is None:
            server.origins = hosts = Hosts(web, pool)
            handler: Answers = Handler(web, hosts, speed, run_seconds=run_seconds)
            known = Addresses(hosts)
        else:
            sky = Sky(Weather(web, served_weather(weather), time.time()), weather_speed)
            server.origins = Origins(sky, pool)
            handler, known = WeatherHandler(sky, speed), WeatherAddresses(sky, pool, SILENT_ADDRESS)
        server.handler = _heard_first(handler, heard)
        names = on_loop(NameServer.start(known))
        on_loop(server.start())
        try:
            yield Served(web if sky is None else sky.weather.web, names.resolver, log, sky)
        finally:
            names.stop()
            on_loop(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _heard_first(handler: Answers, heard: Callable[[], object]) -> Answers:
    async def answer(ask: Ask) -> Reply:
        heard()
        return await handler(ask)

    return answer


async def _nothing_yet(ask: Ask) -> Reply:
    return Reply(503, b"", "text/plain")
