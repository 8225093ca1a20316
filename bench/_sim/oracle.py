"""What a crawl could have had that knows the weather: the same web, seeds, time, gaps and fetching capacity.

It asks each host for its URLs one after the other, in the order in which it found them, at the first moment at which
each can be had (and no sooner than the gap of its host and address allow; an address of many sites as often as it
bears), and follows the links. It never asks in vain, keeps no state, and knows robots.txt and addresses. So what it has
is close above what any polite crawler could have; it is the measure of a long crawl, not a crawler.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from bench._sim.links import Pages
from irlcrawl.base.keys import origin_of
from irlcrawl.base.url import canonical, host_of
from irlcrawl.config.keys import Config
from irlcrawl.web.robots import Rules, product_token
from tools.simweb.weather import Reply, Weather


@dataclass(slots=True)
class _Host:
    name: bytes
    waiting: deque[bytes] = field(default_factory=deque)
    queued: bool = False  # in the line of hosts
    due: float = 0.0
    slot: float = 0.0  # reserved for it, of its address and of the capacity
    delay: float | None = None  # its Crawl-delay, once it was asked


@dataclass
class Had:
    """urls: had, with the moment of each. missed: those that could not be had, by why."""

    urls: dict[bytes, float] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    late: int = 0  # could be had, but their host's gap left no time for them


class Oracle:
    def __init__(
        self, weather: Weather, pages: Pages, config: Config, start: float, seconds: float, rate: float
    ) -> None:
        self._weather, self._pages, self._config = weather, pages, config
        self._start, self._end, self._rate = start, start + seconds, rate
        self._hosts: dict[bytes, _Host] = {}
        self._line: list[tuple[float, int, _Host]] = []  # a heap
        self._number = 0
        self._known: set[bytes] = set()
        self._address_due: dict[str, float] = {}
        self._free = start  # when there is capacity for the next request
        self._token = product_token(config.crawl.user_agent)
        self.had = Had()

    def run(self, seeds: list[bytes]) -> Had:
        """All it can have in the time."""
        for url in seeds:
            self._find(url, self._start)
        while self._line:
            due, _, host = heappop(self._line)
            host.queued = False
            if due >= self._end:
                self.had.late += len(host.waiting)
                continue
            self._try(host, due)
            if host.waiting and not host.queued:
                self._queue(host)
        return self.had

    def _find(self, url: bytes, now: float) -> None:
        if url in self._known:
            return
        self._known.add(url)
        origin = origin_of(url)
        host = self._hosts.get(origin)
        if host is None:
            host = self._hosts[origin] = _Host(host_of(url).encode())
        host.waiting.append(url)
        if not host.queued:
            host.due = max(host.due, now)
            self._queue(host)

    def _queue(self, host: _Host) -> None:
        self._number += 1
        host.queued = True
        heappush(self._line, (host.due, self._number, host))

    def _try(self, host: _Host, now: float) -> None:
        """Ask for the host's next URL, or find out when that can be done."""
        url = host.waiting[0]
        moment = self._moment(url, now)
        if moment is None:
            name = self._weather.verdict(url, now, self._end).name.lower()
            self.had.missed[name] = self.had.missed.get(name, 0) + 1
            host.waiting.popleft()
            return
        if moment > now:
            host.due = moment
            return
        address = self._address(host, now)
        if host.slot != now:
            slot = max(now, self._address_due.get(address, 0.0), self._free)
            self._address_due[address] = slot + self._address_gap(url, address, slot)
            self._free = slot + 1.0 / self._rate
            host.slot = slot
            if slot > now:
                host.due = slot
                return
        self._ask(host, host.waiting.popleft(), address, now)

    def _moment(self, url: bytes, now: float) -> float | None:
        """When it can be had first, from now on: mostly at once, which is soon known."""
        at_once = self._weather.had_at(url, now, min(now + 1.0, self._end)) == now
        return now if at_once else self._weather.had_at(url, now, self._end)

    def _address_gap(self, url: bytes, address: str, at: float) -> float:
        """From the start of a request to the start of the next one: at an address of many sites they overlap, as fast
        as it bears."""
        polite, bears = self._config.politeness, self._weather.bears_address(address)
        if bears < inf:
            return max(polite.gap_shared_address_seconds, 1.0 / bears)
        return self._weather.answer(url, address, at).seconds + polite.gap_address_seconds

    def _address(self, host: _Host, now: float) -> str:
        answer = self._weather.resolve(host.name, now)
        return answer.address if answer is not None and answer.address else ""

    def _ask(self, host: _Host, url: bytes, address: str, now: float) -> None:
        reply = self._weather.answer(url, address, now)
        self.had.urls[url] = now
        polite = self._config.politeness
        grown = min(polite.gap_host_factor * reply.seconds, polite.gap_host_max_seconds)
        over = now + reply.seconds
        host.due = over + max(polite.gap_host_seconds, grown, self._delay(host, url, address, now))
        for link in self._links(url, reply):
            self._find(link, over)

    def _delay(self, host: _Host, url: bytes, address: str, now: float) -> float:
        if host.delay is None:
            text = self._weather.answer(origin_of(url) + b"/robots.txt", address, now).robots
            delay = Rules(text, self._token).crawl_delay if text is not None else None
            host.delay = min(delay or 0.0, self._config.politeness.crawl_delay_max_seconds)
        return host.delay

    def _links(self, url: bytes, reply: Reply) -> list[bytes]:
        if reply.page is not None:
            return self._pages.links(reply.page)
        to = next((value for name, value in reply.header if name == "Location"), None)
        target = canonical(to.encode(), url) if to else None
        return [target] if target else []
