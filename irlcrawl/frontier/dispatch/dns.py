"""Names to addresses, just before they are needed: bounded, cached, and never an address the crawl may not contact.

    resolver = Resolver(config.network, clock)
    while resolver.room and (entry := polite.unresolved()): start a task that does
        try: found = await resolver.resolve(entry.name); polite.resolved(entry, found.address, found.expires)
        except ResolveError as error: … error.permanent, error.reason

A name that does not exist is a permanent failure, a server that does not answer a passing one. Addresses outside the
public Internet are refused unless network.allow names them: a link on a hostile page must not make the crawler talk to
the machines beside it. Asks A, then AAAA. aiodns (c-ares) is imported by the first question.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from irlcrawl.base.clock import Clock
from irlcrawl.base.keys import name_key, stand_in
from irlcrawl.base.reasons import Reason
from irlcrawl.config import keys as config

if TYPE_CHECKING:
    import aiodns

GONE_SECONDS = 30.0
"""How long a name that has no address answers so for others who ask: hosts rest longer than that (config/rests.py)."""
PASSING_SECONDS = 2.0
"""How long a passing failure answers for others who ask the same; shorter than any back-off."""

ALIVE_SECONDS = 0.2
"""How long the answer to whether the resolver is alive is good for."""

CHANNEL_NAMES = 256
"""Questions to one c-ares channel. It remembers each answer for as long as that holds, an hour at most, and cannot be
told not to: 1.4 KB a name (measured), beside our own cache, which has a bound. A new channel costs 0.13 ms."""

JUDGED_MAX = 64
"""Addresses looked at in one answer, which may have thousands: those that come first as text."""
KEPT_MAX = 16
"""Addresses kept of a name."""
SILENT_NAMES_MAX = 4096
"""Names of which it is remembered which addresses did not answer, the last ones."""
ADDRESSES_JUDGED = 4096
"""Addresses of hosts that come back whose verdicts are remembered: one takes 6 microseconds."""
SHOWN_MAX = 4

_TRIES = 2
"""A packet may be lost: that is no silence."""
_HOSTS_FILE = "/etc/hosts"
_HOSTS_BYTES_MAX = 1 << 20
_IPV6_PUBLIC = ip_network("2000::/3")
_NOT_PUBLIC = tuple(
    map(ip_network, ("168.63.129.16", "192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20"))
)
"""Azure's server of secrets; protocol assignments, Teredo, 6to4 (both embed any IPv4 address), documentation: "global"
to `ipaddress`, or to that of some Pythons."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """address: text as `ipaddress` writes it, IPv4-mapped ones as IPv4; expires: unix seconds."""

    address: str
    expires: float


class ResolveError(Exception):
    """No address. permanent: asking again soon is useless. reason: Reason.DNS, or Reason.ADDRESS (refused)."""

    def __init__(self, name: str, what: str, reason: Reason, permanent: bool) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name
        self.what = what
        self.reason = reason
        self.permanent = permanent


class Reach:
    """Which addresses may be contacted: public ones, and the networks given (CIDR). ConfigError if one is malformed."""

    def __init__(self, allow: Iterable[str]) -> None:
        try:
            self._allow = [ip_network(network) for network in allow]
        except ValueError as error:
            raise config.ConfigError(f"network.allow: {error}") from None

    def admits(self, address: IPv4Address | IPv6Address) -> bool:
        if any(address in network for network in self._allow):
            return True
        if address.is_multicast or address.is_reserved or not address.is_global:
            return False
        if address.version == 6 and address not in _IPV6_PUBLIC:
            return False
        return not any(address in network for network in _NOT_PUBLIC)


@dataclass(slots=True)
class _Known:
    """What is known of a name until `expires`: its addresses, the preferred one first, or why it has none."""

    addresses: tuple[str, ...]
    error: ResolveError | None
    expires: float


class _Channel:
    """A channel of c-ares, how many questions it was asked, and how many of them wait for an answer."""

    def __init__(self, dns: aiodns.DNSResolver) -> None:
        self.dns = dns
        self.asked = 0
        self.waiting = 0


class Resolver:
    """One per frontier, used from one running loop. ConfigError for a malformed resolver or network."""

    def __init__(
        self, params: config.Network, clock: Clock, hosts_file: str = _HOSTS_FILE,
        proxied: Callable[[str], bool] = lambda name: False,
    ) -> None:  # fmt: skip
        """hosts_file is read once, and only without network.resolvers: together they are "the system's".
        proxied(name): a proxy resolves it."""
        self._proxied = proxied
        self._params = params
        self._clock = clock
        self._reach = Reach(params.allow)
        self._admits = lru_cache(ADDRESSES_JUDGED)(lambda address: self._reach.admits(_plain(ip_address(address))))
        self._servers = [_server(text) for text in params.resolvers]
        self._fixed = {} if params.resolvers else _read_hosts(hosts_file)
        self._cache: OrderedDict[str, _Known] = OrderedDict()
        self._silent: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        """Name -> its addresses that did not answer, the last one last."""
        self._asking: dict[str, asyncio.Task[_Known]] = {}
        self._turn = asyncio.Semaphore(params.dns_in_flight_max)
        self._channel: _Channel | None = None
        self.lookups = 0  # names asked of a server
        self.failures = 0  # of these, without an address
        self._alive: tuple[float, asyncio.Task[bool]] | None = None  # when it was asked, and the answer
        self._told = ""  # the name that last got an address
        self._tells_root = False  # it answered for the root zone once

    @property
    def room(self) -> int:
        """Names that could be asked for now without waiting for others."""
        return max(0, self._params.dns_in_flight_max - len(self._asking))

    @property
    def names(self) -> int:
        """Names in the cache."""
        return len(self._cache)

    async def resolve(self, name: str) -> Resolved:
        """An address of a host name (lower case ASCII); an IP literal (brackets or not) is its own. ResolveError."""
        known = self._at_hand(name)
        if self._proxied(name) and (known is None or known.error is None):
            return Resolved(stand_in(name), self._clock.now() + self._params.dns_ttl_max_seconds)
        if known is None:
            task = self._asking.get(name)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._ask_in_turn(name))
                self._asking[name] = task
                task.add_done_callback(lambda _: self._asking.pop(name, None))
            known = await asyncio.shield(task)  # one who stops waiting takes no answer from the others
        if known.error is not None:
            raise ResolveError(name, known.error.what, known.error.reason, known.error.permanent)
        return Resolved(known.addresses[0], known.expires)

    def admits(self, address: str) -> bool:
        """Whether an address that was found before, perhaps under another configuration, may still be contacted."""
        return self._admits(address)

    def another(self, name: str) -> None:
        """The address given did not answer: give the name's next one, if it has several. That outlives the answer, for
        a host rests longer than many answers hold."""
        known = self._cache.get(name)
        if known is None or not known.addresses:
            return
        silent = known.addresses[0]
        before = self._silent.pop(name, ())
        self._silent[name] = (*(one for one in before if one != silent), silent)[-KEPT_MAX:]
        if len(self._silent) > SILENT_NAMES_MAX:
            self._silent.popitem(last=False)
        known.addresses = (*known.addresses[1:], silent)

    async def alive(self) -> bool:
        """Whether a server says anything at all: asked for the root zone, which nearly every one knows, at most five
        times a second. One that never told of it (it serves names of its own) is asked for a name it told of. True
        while no name was ever needed (a crawl of IP addresses)."""
        if not self.lookups:
            return True
        return await asyncio.shield(self._sign_of_life())

    async def reachable(self) -> bool:
        """Whether a server says anything at all, though no name was needed yet."""
        return await self._answers("", "NS")

    def _sign_of_life(self) -> asyncio.Task[bool]:
        now = self._clock.now()
        if self._alive is None or (self._alive[1].done() and now - self._alive[0] >= ALIVE_SECONDS):
            self._alive = now, asyncio.get_running_loop().create_task(self._ask_anything())
        return self._alive[1]

    async def _ask_anything(self) -> bool:
        if await self._answers("", "NS"):
            self._tells_root = True
            return True
        # Only then: a name may still lie in the cache of a resolver whose own network is gone.
        return bool(self._told) and not self._tells_root and await self._answers(self._told, "A")

    async def _answers(self, name: str, kind: str) -> bool:
        import aiodns
        import aiodns.error as ares

        dns = self._open()  # of its own: a channel remembers answers
        try:
            async with asyncio.timeout(self._params.dns_seconds):
                await dns.query_dns(f"{name}.", kind)
        except TimeoutError:
            return False
        except aiodns.error.DNSError as error:
            # "Refused" and the like are answers; a failure (2) of the root is what a resolver without a network says.
            return not error.args or error.args[0] not in (
                ares.ARES_ECONNREFUSED, ares.ARES_ETIMEOUT, ares.ARES_ESERVFAIL,
            )  # fmt: skip
        finally:
            await dns.close()
        return True

    async def close(self) -> None:
        """End what is under way; those who wait for it get CancelledError."""
        tasks: list[asyncio.Task[Any]] = list(self._asking.values())
        if self._alive is not None:
            tasks.append(self._alive[1])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._channel is not None:
            await self._channel.dns.close()
            self._channel = None

    # ---- without asking

    def _at_hand(self, name: str) -> _Known | None:
        now = self._clock.now()
        known = self._cache.get(name)
        if known is not None:
            if known.expires > now:
                self._cache.move_to_end(name)
                return known
            del self._cache[name]
        literal = _literal(name)
        if literal is not None:
            return self._judge(name, [literal], now + self._params.dns_ttl_max_seconds)
        host = name.rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):  # RFC 6761: never asked of a server
            return self._judge(name, ["127.0.0.1"], now + self._params.dns_ttl_max_seconds)
        if host in self._fixed:
            return self._judge(name, self._fixed[host], now + self._params.dns_ttl_max_seconds)
        if not _askable(host):
            return _Known((), ResolveError(name, "not a host name", Reason.DNS, permanent=True), now)
        return None

    def _judge(self, name: str, addresses: Iterable[str], expires: float) -> _Known:
        """Those that may be contacted, in an order that is the same each time: a name keeps its address, and names that
        share many addresses spread over them. Those of the family that network.prefer names go first, and last what
        did not answer, what failed longest ago before the others."""
        six, silent = self._params.prefer == "ipv6", self._silent.get(name, ())
        parsed = {_plain(ip_address(address)) for address in sorted(set(addresses))[:JUDGED_MAX]}
        admitted = sorted(
            (str(address) for address in parsed if self._reach.admits(address)),
            key=lambda address: (
                silent.index(address) + 1 if address in silent else 0,
                (":" in address) != six,
                name_key(f"{name} {address}".encode()),
            ),
        )
        if admitted:
            return _Known(tuple(admitted[:KEPT_MAX]), None, expires)
        listed = ", ".join([*sorted(map(str, parsed))[:SHOWN_MAX], *(["…"] if len(parsed) > SHOWN_MAX else [])])
        return _Known((), ResolveError(name, f"not public: {listed}", Reason.ADDRESS, permanent=True), expires)

    # ---- asking

    async def _ask_in_turn(self, name: str) -> _Known:
        async with self._turn:
            self.lookups += 1
            known = await self._ask(name)
        self.failures += known.error is not None
        if known.addresses:
            if not self._told:
                self._sign_of_life()  # while all is well: whether it tells of the root
            self._told = name.rstrip(".")
        self._cache[name] = known
        while len(self._cache) > self._params.dns_cache_names:
            self._cache.popitem(last=False)
        return known

    async def _ask(self, name: str) -> _Known:
        import aiodns
        import aiodns.error as ares

        host, addresses, ttl = name.rstrip("."), list[str](), 0.0
        try:
            async with asyncio.timeout(self._params.dns_seconds):
                addresses, ttl = await self._records(host, "A")
                if not addresses:
                    addresses, ttl = await self._records(host, "AAAA")
                elif self._params.prefer == "ipv6" or name in self._silent or not any(map(self._admits, addresses)):
                    more, ttl_of_more = await self._records(host, "AAAA")
                    addresses, ttl = addresses + more, min(ttl, ttl_of_more) if more else ttl
        # Some servers know no AAAA, and deny the name or say nothing (RFC 4074): what A said holds.
        except TimeoutError:
            if not addresses:
                return self._failed(name, f"no answer within {self._params.dns_seconds:g} s", permanent=False)
        except aiodns.error.DNSError as error:
            if not addresses:
                number, what = (*error.args, "")[:2]
                return self._failed(name, str(what), permanent=number in (ares.ARES_ENOTFOUND, ares.ARES_EBADNAME))
        if not addresses:
            return self._failed(name, "has no address", permanent=True)
        return self._judge(name, addresses, self._clock.now() + self._bounded(ttl))

    async def _records(self, host: str, kind: str) -> tuple[list[str], float]:
        """The addresses of an answer and the least time to live in it, its aliases' included; none if it has none."""
        import aiodns
        import aiodns.error as ares

        try:
            async with self._question() as dns:
                result = await dns.query_dns(f"{host}.", kind)
        except aiodns.error.DNSError as error:
            if error.args and error.args[0] == ares.ARES_ENODATA:
                return [], 0.0
            raise
        wanted = aiodns.query_type_map[kind]
        addresses = [record.data.addr for record in result.answer if record.type == wanted]  # type: ignore[union-attr]
        return addresses, min((float(record.ttl) for record in result.answer), default=0.0)

    @contextlib.asynccontextmanager
    async def _question(self) -> AsyncIterator[aiodns.DNSResolver]:
        """The channel for one question: after CHANNEL_NAMES a new one. The one before it ends with its last answer."""
        channel = self._channel
        if channel is None or channel.asked >= CHANNEL_NAMES:
            if channel is not None and not channel.waiting:
                await channel.dns.close()
            channel = self._channel = _Channel(self._open())
        channel.asked += 1
        channel.waiting += 1
        try:
            yield channel.dns
        finally:
            channel.waiting -= 1
            if channel is not self._channel and not channel.waiting:
                await channel.dns.close()

    def _open(self) -> aiodns.DNSResolver:
        import aiodns

        seconds = max(0.1, self._params.dns_seconds / (_TRIES + 1))
        loop = asyncio.get_running_loop()
        return aiodns.DNSResolver(nameservers=self._servers or None, loop=loop, timeout=seconds, tries=_TRIES)

    def _failed(self, name: str, what: str, permanent: bool) -> _Known:
        seconds = GONE_SECONDS if permanent else PASSING_SECONDS
        return _Known((), ResolveError(name, what, Reason.DNS, permanent), self._clock.now() + seconds)

    def _bounded(self, ttl: float) -> float:
        return max(self._params.dns_ttl_min_seconds, min(ttl, self._params.dns_ttl_max_seconds))


def _literal(name: str) -> str | None:
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        return str(ip_address(bare))
    except ValueError:
        return None


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4-mapped address is the IPv4 address: one machine, one clock, one verdict."""
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _askable(host: str) -> bool:
    return host.isascii() and 0 < len(host) <= 253 and all(0 < len(label) <= 63 for label in host.split("."))


def _server(text: str) -> str:
    """A resolver of the configuration as c-ares wants it: address, address:port, [address]:port."""
    try:
        return f"[{address}]:53" if (address := ip_address(text)).version == 6 else f"{address}:53"
    except ValueError:
        host, _, port = text.rpartition(":")
    try:
        address = ip_address(host.strip("[]"))
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"port {port!r}")
    except ValueError as error:
        raise config.ConfigError(f"network.resolvers: {text!r} is no address or address:port ({error})") from None
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _read_hosts(path: str) -> dict[str, list[str]]:
    """name -> addresses of a hosts(5) file; {} if it cannot be read, as for the system's own resolver."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_HOSTS_BYTES_MAX)
    except OSError:
        return {}
    names: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *rest = line.partition("#")[0].split() or [""]
        literal = _literal(address.partition("%")[0])
        if literal is not None:
            for name in rest:
                names.setdefault(name.lower().rstrip("."), []).append(literal)
    return names
