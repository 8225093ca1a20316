"""The weather over a web: `Weather` resolves names and answers requests at a time, and knows what could have been had.

Everything is a pure function of the seed, the URL and the time: asked in any order and as often as one likes, the
answer is the same. Times are unix seconds.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
from dataclasses import dataclass
from email.utils import formatdate
from enum import IntEnum
from typing import TypeVar

from drum.ragged import Ragged

import numpy as np
import xxhash

from irlcrawl.base.reasons import CRAWL_LOG_STATUS, Reason
from tools.simweb.answers import content, location
from tools.simweb.links import Links
from tools.simweb.mix import Array, U8s, lots, mix, uniform
from tools.simweb.paths import DIRECTORIES
from tools.simweb.truth import Section, site_of
from tools.simweb.weather_hosts import ROBOTS_ELSEWHERE, Fate, Host, Hosting, Hosts, RobotsState
from tools.simweb.weather_params import CALM, WeatherParams
from tools.simweb.weather_spells import Interval, Spell, after, bell, both, fraction, hashed, without
from tools.simweb.weather_urls import Asked, page_of, page_on_host, parts
from tools.simweb.web import Web

__all__ = ["CALM", "Reply", "Resolution", "Verdict", "Weather", "WeatherParams"]

DNS, CONNECT, LOST, TIMEOUT = (CRAWL_LOG_STATUS[r] for r in (Reason.DNS, Reason.CONNECT, Reason.LOST, Reason.TIMEOUT))
TIMEOUT_SECONDS = 120.0  # how long a silent server keeps a client that has no bound of its own
ROBOTS_SECONDS = 86_400.0  # how long rules may be used (RFC 9309, 2.4)
NO_NAME_TTL = 900.0
TTLS = ((60.0, 0.1), (120.0, 0.06), (300.0, 0.24), (600.0, 0.12), (3600.0, 0.18), (14_400.0, 0.2), (86_400.0, 0.1))
SMALL_BODY, CHALLENGE_BODY, PARKED_BODY = 300, 7_000, 3_000
MINUTE = 60.0
HOSTS_MET_MAX = 1 << 18
TROUBLES = ((CONNECT, 0.25), (TIMEOUT, 0.3), (LOST, 0.05), (503, 0.25), (502, 0.1), (500, 0.05))
"""What a host answers in a spell, and how often."""
Header = tuple[tuple[str, str], ...]
MAINTENANCE: Header = (("Retry-After", "600"),)
"""With a quarter of the 503 of spells."""
PASSING = ((500, 0.3), (502, 0.15), (503, 0.2), (504, 0.1), (LOST, 0.15), (TIMEOUT, 0.1))
"""What a page answers that fails for a minute."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a resolver says. permanent: the name does not exist (NXDOMAIN), and address is None."""

    address: str | None
    ttl: float
    permanent: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request brings. status: HTTP's, or one of the crawl log's below zero. seconds: to the last byte or the
    failure. passing: it is an error of the moment, and to ask again helps. robots: the text, where /robots.txt was
    asked for and is there."""

    weather: Weather
    status: int
    seconds: float
    header: Header = ()
    body_bytes: int = 0
    passing: bool = False
    page: int | None = None  # of the web, where it is shown
    sameness: int | None = None  # the content of what is no page of the web
    robots: bytes | None = None

    def links(self) -> list[bytes]:
        """The URLs on the page, in its order."""
        if self.page is None:
            return []
        return self.weather.links(np.array([self.page], np.uint64))[1].tolist()

    @property
    def content(self) -> int:
        """A fingerprint: equal for duplicates and nearly so; 0 for nothing."""
        if self.page is not None:
            return int(content(self.weather.web, np.array([self.page], np.uint64))[0])
        return self.sameness or 0


class Verdict(IntEnum):
    """Whether a URL could be had, and if not, why."""

    HAD = 0
    NO_NAME = 1  # never resolved within the time
    NO_ANSWER = 2  # no server answered, or only in passing errors
    ROBOTS_UNREACHABLE = 3
    ROBOTS = 4  # disallowed


class Weather:
    """The weather over `web`, whose names, pages and links stay as they are; its faults, its statuses and its shares of
    https and robots.txt are those of `params`. start: unix seconds at which it begins."""

    def __init__(self, web: Web, params: WeatherParams, start: float) -> None:
        p = self.params = params
        self.start = start
        self.web = Web(dataclasses.replace(
            web.params, dns_share=0.0, connect_share=0.0, timeout_share=0.0, error_share=0.0, flaky_share=0.0,
            page_missing_share=p.missing_share, page_moved_share=p.moved_share, page_error_share=p.page_broken_share,
            https_share=p.https_share, robots_share=1.0, robots_error_share=0.0,
        ))  # fmt: skip
        self._hosts = Hosts(self.web, p)
        self._met: dict[bytes, tuple[Host, bool] | None] = {}
        self._names = {purpose: self.web.salt("weather " + purpose) for purpose in _PURPOSES}
        self._missing = lots(p.missing_share)
        self._moved = lots(p.missing_share + p.moved_share)
        self._broken = 65536 - lots(p.page_broken_share)

    def meet(self, names: list[bytes]) -> None:
        """Makes many hosts at once, at a fiftieth of what it costs to meet each when it is asked. It changes no answer,
        and what is met is forgotten when there is too much of it."""
        new = [name for name in dict.fromkeys(names) if name not in self._met]
        if len(self._met) + len(new) > HOSTS_MET_MAX:
            self._met.clear()
        self._met.update(zip(new, self._hosts.of(new)))

    def _host(self, name: bytes) -> tuple[Host, bool] | None:
        if name not in self._met:
            self.meet([name])
        return self._met[name]

    # What clients ask

    def resolve(self, name: bytes, at: float) -> Resolution | None:
        """What a resolver says of a host name; None: no answer now (SERVFAIL or silence)."""
        now = at - self.start
        found = self._host(name)
        if found is None or found[0].fate == Fate.UNKNOWN or now >= found[0].dies:
            return Resolution(None, NO_NAME_TTL, True)
        host = found[0]
        lame = self._spell(self.params.name_spells, "name spells", host.area.site, now) is not None
        if lame or host.fate == Fate.LAME:
            return None
        absent = self._spell(self.params.absences, "absences", host.key, now)
        if absent is not None and self._nameless(absent):
            return Resolution(None, NO_NAME_TTL, True)
        ttl = self._ttl(host)
        turn = hashed(self._names["rotation"], host.key, math.floor(now / ttl)) % host.addresses
        return Resolution(_address(host.hosting, host.first_address + turn), ttl, False)

    def answer(self, url: bytes, address: str, at: float, load: float = 0.0, address_load: float = 0.0) -> Reply:
        """What a GET brings. load, address_load: requests per second the host and the address have had of late."""
        asked = parts(url)
        now = at - self.start
        found = self._host(asked.name)
        if found is None or found[0].fate in (Fate.UNKNOWN, Fate.LAME):
            return Reply(self, DNS, 0.0)
        host, canonical = found
        seconds = self._first_byte(host, url, load)
        failed = self._unanswered(host, asked, now)
        if failed is not None:
            return Reply(self, failed, TIMEOUT_SECONDS if failed == TIMEOUT else min(seconds, 1.0))
        if (trouble := self._trouble(host, now)) is not None:
            return self._failing(*trouble, seconds)
        if load > host.bears or address_load > self.bears_address(address):
            return Reply(self, host.throttle_status, seconds, self._later(host, at), SMALL_BODY, passing=True)
        if asked.path in (b"/robots.txt", ROBOTS_ELSEWHERE):
            return self._robots(host, asked, canonical, now, seconds)
        if (to := self._elsewhere(host, asked, canonical)) is not None:
            return self._moved_to(host.moves, to, seconds)
        return self._page(host, asked.path, now, seconds)

    def bears(self, host: bytes) -> float:
        """Requests per second above which a host name's server refuses; inf: any."""
        found = self._host(host)
        return math.inf if found is None else found[0].bears

    def bears_address(self, address: str) -> float:
        """The same of an address, for all its sites together."""
        p = self.params
        rates = {Hosting.SHARED: p.hosting_bears, Hosting.BUILDER: p.builder_bears, Hosting.NETWORK: p.network_bears}
        how = _hosting(address)
        return math.inf if how is None else rates.get(how, math.inf)

    def refuses(self, url: bytes, at: float) -> bool:
        """Whether nothing listens where a URL is asked for, as long as that is so at this moment."""
        asked, now = parts(url), at - self.start
        if (found := self._host(asked.name)) is None:
            return False
        status = self._unanswered(found[0], asked, now) or (self._trouble(found[0], now) or (0,))[0]
        return status == CONNECT

    def addresses(self, name: bytes) -> list[str]:
        """All addresses a name has, in the course of time; none for a name that does not exist."""
        if (found := self._host(name)) is None:
            return []
        host = found[0]
        return [_address(host.hosting, host.first_address + turn) for turn in range(host.addresses)]

    def links(self, pages: U8s) -> tuple[Links, Ragged]:
        """Of many pages at once: the pages they link to, and the URLs as the links spell them: some by http that are
        https, some with the other of apex and www."""
        links = self.web.links(pages)
        place = self.web.place(links.targets)
        return links, self.web.names.urls(links.targets, place, self._respelt(pages, links, place[0]))

    def _respelt(self, pages: U8s, links: Links, host: Array) -> Array:
        """How each link differs from the canonical URL: the bits of Names.urls."""
        p, source = self.params, links.sources()
        position = np.arange(len(source)) - links.offsets[source]
        h = mix(self._names["spelling"], pages[source], position)
        site = site_of(links.targets)
        away = site != site_of(pages)[source]
        http = away & self.web.names.secure(site) & (uniform(h) < p.link_http_share)
        other = away & (host == 0) & (uniform(mix(self._names["other spelling"], h)) < p.link_other_name_share)
        return http.view(np.uint8) | other.view(np.uint8) << 1

    def seeds(self, count: int) -> list[bytes]:
        """Home pages of up to `count` sites with nothing wrong for good that may be fetched on the first day."""
        urls = self.web.urls(self.web.seeds(4 * count)).tolist()
        names = [parts(url).name for url in urls]
        self.meet(names)
        sound = [url for url, name in zip(urls, names) if (found := self._host(name)) and found[0].fate == Fate.NONE]
        return [url for url in sound if self.obtainable(url, self.start, self.start + ROBOTS_SECONDS)][:count]

    # What an oracle knows

    def obtainable(self, url: bytes, since: float, until: float) -> bool:
        """Whether a patient polite crawler could have had a good answer in [since, until): a page, a redirect, or an
        error that lasts. It needs the name, then robots.txt, and the page within a day of that."""
        return self.verdict(url, since, until) == Verdict.HAD

    def had_at(self, url: bytes, since: float, until: float) -> float | None:
        """The first moment of [since, until) at which it could have had it; None if there is none."""
        return self._judged(url, since, until)[1]

    def verdict(self, url: bytes, since: float, until: float) -> Verdict:
        """`obtainable`, with the reason if not."""
        return self._judged(url, since, until)[0]

    def _judged(self, url: bytes, since: float, until: float) -> tuple[Verdict, float | None]:
        asked = parts(url)
        begin, end = since - self.start, until - self.start
        found = self._host(asked.name)
        if found is None or found[0].fate in (Fate.UNKNOWN, Fate.LAME):
            return Verdict.NO_NAME, None
        host, canonical = found
        end = min(end, host.dies)
        named = without([(begin, end)] if begin < end else [], self._unnamed(host, begin, end))
        if not named:
            return Verdict.NO_NAME, None
        if self._unanswered(host, asked, begin) is not None or not (up := self._up(host, begin, end)):
            return Verdict.NO_ANSWER, None
        reachable = both(after(named, self._ttl(host), end), up)
        readable = self._readable(host, asked, reachable, begin, end)
        if not readable:
            return Verdict.ROBOTS_UNREACHABLE if reachable else Verdict.NO_ANSWER, None
        if not self._allowed(host, asked.path):
            return Verdict.ROBOTS, None
        for part in both(after(readable, ROBOTS_SECONDS, end), reachable):
            if (moment := self._shown(host, asked, canonical, part)) is not None:
                return Verdict.HAD, self.start + moment
        return Verdict.NO_ANSWER, None

    # Hosts: who answers, and when

    def _unanswered(self, host: Host, asked: Asked, now: float) -> int | None:
        """The status of a request that nobody answers whenever it is made; None where somebody may."""
        if now >= host.dies or host.fate == Fate.REFUSED or (asked.secure and not host.secure):
            return CONNECT
        if (host.fate == Fate.CERTIFICATE and asked.secure) or asked.port != self.web.params.port:
            return CONNECT
        return TIMEOUT if host.fate == Fate.SILENT else None

    def _sources(self, host: Host) -> list[tuple[Spell, str, int]]:
        """The spells that keep a host from answering: each with its purpose and key."""
        p = self.params
        found = [(p.blips, "blips", host.key), (p.outages, "outages", host.key), (p.absences, "absences", host.key)]
        if host.hosting in (Hosting.SHARED, Hosting.BUILDER):
            found.append((p.address_spells, "address spells", host.hosting << 32 | host.first_address))
        return found

    def _trouble(self, host: Host, now: float) -> tuple[int, Header] | None:
        """Status and header of every answer of a host in trouble at a moment; None between spells."""
        for spell, purpose, key in self._sources(host):
            found = self._spell(spell, purpose, key, now)
            if found is not None:
                status = _weighted(TROUBLES, fraction(found))
                return status, MAINTENANCE if status == 503 and found & 3 == 0 else ()
        return None

    def _up(self, host: Host, since: float, until: float) -> list[Interval]:
        """When a host answers, of [since, until)."""
        taken = [one for source in self._sources(host) for one in self._spells(*source, since, until)]
        return without([(since, min(until, host.dies))], taken)

    def _readable(
        self, host: Host, asked: Asked, reachable: list[Interval], since: float, until: float
    ) -> list[Interval]:
        """When robots.txt can be had: any answer below 500 says what may be fetched."""
        if host.fate == Fate.BROKEN or host.robots in (RobotsState.BROKEN, RobotsState.SILENT):
            return []
        if host.fate == Fate.CERTIFICATE and host.upgrades and not asked.secure:
            return []  # it redirects to where the handshake fails
        return without(reachable, self._spells(self.params.robots_spells, "robots spells", host.key, since, until))

    def _spell(self, spell: Spell, purpose: str, key: int, now: float) -> int | None:
        found = spell.at(self._names[purpose], key, now)
        return None if found is None else found[2]

    def _spells(self, spell: Spell, purpose: str, key: int, since: float, until: float) -> list[Interval]:
        return [(a, b) for a, b, _ in spell.within(self._names[purpose], key, since, until)]

    def _ttl(self, host: Host) -> float:
        return _weighted(TTLS, fraction(self._of(host, "ttl")))

    def _nameless(self, absence: int) -> bool:
        return fraction(hashed(self._names["nameless"], absence)) < self.params.absence_unknown_share

    def _unnamed(self, host: Host, since: float, until: float) -> list[Interval]:
        """When a host's name does not resolve."""
        absences = self.params.absences.within(self._names["absences"], host.key, since, until)
        found = [(a, b) for a, b, spell in absences if self._nameless(spell)]
        return found + self._spells(self.params.name_spells, "name spells", host.area.site, since, until)

    # Requests

    def _first_byte(self, host: Host, url: bytes, load: float) -> float:
        """Seconds to the first byte; a server near what it bears queues."""
        busy = min(load / host.bears, 0.9)
        seconds = host.pace * math.exp(0.3 * bell(hashed(self._names["page latency"], _key(url)))) / (1.0 - busy)
        return min(seconds, TIMEOUT_SECONDS)

    def _failing(self, status: int, header: Header, seconds: float) -> Reply:
        seconds = TIMEOUT_SECONDS if status == TIMEOUT else seconds
        return Reply(self, status, seconds, header, SMALL_BODY if status > 0 else 0, passing=True)

    def _moved_to(self, status: int, url: bytes, seconds: float) -> Reply:
        return Reply(self, status, seconds, (("Location", url.decode()),), SMALL_BODY)

    def _later(self, host: Host, at: float) -> Header:
        if host.retry_after is None:
            return ()
        value = formatdate(at + host.retry_after, usegmt=True) if host.retry_after_date else str(host.retry_after)
        return (("Retry-After", value),)

    def _elsewhere(self, host: Host, asked: Asked, canonical: bool) -> bytes | None:
        """Where a URL that is not the canonical one redirects to; None where it is answered all the same."""
        upgrade = host.secure and not asked.secure and host.upgrades
        rename = not canonical and host.one_name
        if not upgrade and not rename:
            return None
        if upgrade and rename and host.two_hops:
            return b"https://" + asked.name + self._port() + asked.path
        scheme = b"https://" if upgrade or asked.secure else b"http://"
        return scheme + (host.name if rename else asked.name) + self._port() + asked.path

    def _port(self) -> bytes:
        return b":%d" % self.web.params.port if self.web.params.port else b""

    def _robots(self, host: Host, asked: Asked, canonical: bool, now: float, seconds: float) -> Reply:
        spell = self._spell(self.params.robots_spells, "robots spells", host.key, now)
        if host.robots == RobotsState.SILENT:
            return Reply(self, TIMEOUT, TIMEOUT_SECONDS)
        if host.fate == Fate.BROKEN or host.robots == RobotsState.BROKEN:
            return Reply(self, 500, seconds, body_bytes=SMALL_BODY)
        if spell is not None:
            return self._failing(TIMEOUT if spell & 3 == 0 else 503 if spell & 1 else 500, (), seconds)
        if (to := self._elsewhere(host, asked, canonical)) is not None:
            return self._moved_to(host.moves, to, seconds)
        there = ROBOTS_ELSEWHERE if host.robots == RobotsState.REDIRECT else b"/robots.txt"
        if host.rules is not None and asked.path != there:
            return self._moved_to(302, host.area.origin + there, seconds)
        if host.rules is not None:
            return Reply(self, 200, seconds, _TEXT, len(host.rules.text), robots=host.rules.text)
        if host.robots == RobotsState.HTML:
            return Reply(self, 200, seconds, _HTML, PARKED_BODY, robots=_HTML_ROBOTS)
        return Reply(self, 403 if host.robots == RobotsState.FORBIDDEN else 404, seconds, _HTML, SMALL_BODY)

    def _allowed(self, host: Host, path: bytes) -> bool:
        """What robots.txt says to everybody of a path."""
        if (rules := host.rules) is None:
            return True
        first = path.split(b"/", 2)[1]
        inside = path.count(b"/") > 1
        hidden = inside and (place := _DIRECTORY_PLACE.get(first)) is not None and rules.directories >> place & 1
        return not (rules.closed or hidden or (rules.private and inside and first == b"private"))

    def _page(self, host: Host, path: bytes, now: float, seconds: float) -> Reply:
        if host.fate == Fate.BROKEN:
            return Reply(self, 500, seconds, _HTML, SMALL_BODY)
        if host.fate == Fate.CHALLENGE:
            status = 503 if fraction(self._of(host, "challenge")) < self.params.challenge_503_share else 403
            return Reply(self, status, seconds, (*_HTML, ("cf-mitigated", "challenge")), CHALLENGE_BODY)
        if host.fate == Fate.PARKED:
            kind = self._of(host, "parking") % 8
            return Reply(self, 200, seconds, _HTML, PARKED_BODY, sameness=hashed(self._names["parking"], kind))
        if (failed := self._passing(host, path, now)) is not None:
            return self._failing(failed, (), seconds)
        page = page_of(self.web, host.area, path)
        status = 404 if page is None else self._lasting(host, page)
        if status == 404 and host.soft:
            return Reply(self, 200, seconds, _HTML, PARKED_BODY, sameness=hashed(self._names["soft"], host.area.site))
        if page is None or status not in (200, 301, 302):
            return Reply(self, status, seconds, _HTML, SMALL_BODY)
        if status != 200:
            to = location(self.web, np.array([page], np.uint64))
            return self._moved_to(status, self.web.urls(to)[0], seconds)
        size = self._size(host, page)
        return Reply(self, 200, min(seconds + size / host.bandwidth, TIMEOUT_SECONDS), _HTML, size, page=page)

    def _of(self, host: Host, purpose: str) -> int:
        return hashed(self._names[purpose], host.area.site)

    def _size(self, host: Host, page: int) -> int:
        p = self.params
        twin = host.area.original << 36 | page & ((1 << 36) - 1)
        return int(min(p.bytes_median * math.exp(p.bytes_sigma * bell(hashed(self._names["bytes"], twin))), 16 << 20))

    def _lasting(self, host: Host, page: int) -> int:
        """The status a page has for good: answers.status of one page."""
        area = host.area
        section, index = page >> 32 & 15, page & 0xFFFFFFFF
        if section != Section.PAGES or page_on_host(area, index) == 0 or self._endless(host):
            return 200
        lot = hashed(self.web.salt("status"), area.original << 36 | page & ((1 << 36) - 1)) & 0xFFFF
        if lot < self._missing:
            return 200 if host.lies else 404
        if lot < self._moved:
            found = fraction(hashed(self._names["found"], page)) < self.params.moved_found_share
            return 302 if found else 301
        return 500 if lot >= self._broken else 200

    @staticmethod
    def _endless(host: Host) -> bool:
        return host.area.size == 1 << 32

    def _passing(self, host: Host, path: bytes, now: float) -> int | None:
        """The status of a page that fails for this minute."""
        x = hashed(self._names["passing"], host.key, _key(path), math.floor(now / MINUTE))
        return _weighted(PASSING, fraction(hashed(x, 1))) if fraction(x) < self.params.page_passing_share else None

    def _shown(self, host: Host, asked: Asked, canonical: bool, part: Interval) -> float | None:
        """The first moment of an interval in which a page may be asked for, and answers well."""
        if self._elsewhere(host, asked, canonical) is not None or host.fate != Fate.NONE:
            return part[0]
        minutes = range(math.floor(part[0] / MINUTE), math.ceil(part[1] / MINUTE))
        good = (minute * MINUTE for minute in minutes if self._passing(host, asked.path, minute * MINUTE) is None)
        return max(part[0], first) if (first := next(good, None)) is not None else None


Number = TypeVar("Number", int, float)
_PURPOSES = (
    "blips", "outages", "absences", "name spells", "address spells", "robots spells", "ttl", "rotation", "page latency",
    "challenge", "parking", "soft", "bytes", "passing", "nameless", "found", "spelling", "other spelling",
)  # fmt: skip
_HTML = (("Content-Type", "text/html; charset=utf-8"),)
_TEXT = (("Content-Type", "text/plain"),)
_HTML_ROBOTS = b"<!DOCTYPE html><title>Not here</title><p>This page is not here.\n"
_DIRECTORY_PLACE = {name: place for place, name in enumerate(DIRECTORIES)}


def _key(text: bytes) -> int:
    return xxhash.xxh3_64_intdigest(text)


def _weighted(table: tuple[tuple[Number, float], ...], u: float) -> Number:
    for value, weight in table:
        if u < weight:
            return value
        u -= weight
    return table[-1][0]


def _address(hosting: Hosting, number: int) -> str:
    """In 240.0.0.0/4, which is nobody's: how a site is served in three bits, and 25 bits of number."""
    return str(ipaddress.IPv4Address(0xF0 << 24 | hosting << 25 | number & 0x1FFFFFF))


def _hosting(address: str) -> Hosting | None:
    bits = int(ipaddress.IPv4Address(address))
    return Hosting(bits >> 25 & 7) if bits >> 28 == 15 and bits >> 25 & 7 < len(Hosting) else None
