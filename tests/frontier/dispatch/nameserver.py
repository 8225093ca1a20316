"""A small DNS server on loopback that says, holds back and loses what a test wants; a resolver that knows only it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.config import keys as config
from irlcrawl.frontier.dispatch.dns import ResolveError, Resolver

A, CNAME, AAAA = 1, 5, 28
NXDOMAIN, SERVFAIL, SILENCE, LOST_ONCE = 3, 2, -1, -2
Records = list[tuple[int, int, str]]  # type, ttl, data


class Nameserver(asyncio.DatagramProtocol):
    """Answers from a table: name -> records, or a response code; unknown names do not exist."""

    def __init__(self) -> None:
        self.table: dict[str, Records | int] = {}
        self.said_of_aaaa: dict[str, int] = {}  # name -> what it says to a question for AAAA, whatever the table has
        self.asked: Counter[tuple[str, int]] = Counter()
        self.held: list[Callable[[], None]] | None = None  # answers kept back, when a list
        self.open_most = 0

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, sender: tuple[str, int]) -> None:
        name, end = _name_at(data, 12)
        (kind,) = struct.unpack_from(">H", data, end)
        question = data[12 : end + 4]
        self.asked[name, kind] += 1
        found = self.table.get(name, NXDOMAIN)
        if kind == AAAA:
            found = self.said_of_aaaa.get(name, found)
        if found == SILENCE or (found == LOST_ONCE and self.asked[name, kind] == 1):
            return
        found = NXDOMAIN if found == LOST_ONCE else found
        code = found if isinstance(found, int) else 0
        records = [r for r in found if r[0] in (kind, CNAME)] if not isinstance(found, int) else []
        header = data[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        reply = header + question + b"".join(_record(*record) for record in records)
        if self.held is None or not name:  # the root zone: a sign of life that nobody waits for
            self.transport.sendto(reply, sender)
        else:
            self.held.append(lambda: self.transport.sendto(reply, sender))
            self.open_most = max(self.open_most, len(self.held))


def _name_at(data: bytes, at: int) -> tuple[str, int]:
    labels = []
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    return ".".join(labels).lower(), at + 1


def _record(kind: int, ttl: int, data: str) -> bytes:
    if kind == CNAME:
        packed = b"".join(bytes([len(label)]) + label.encode() for label in data.split(".")) + b"\0"
    else:
        packed = socket.inet_pton(socket.AF_INET if kind == A else socket.AF_INET6, data)
    return struct.pack(">HHHIH", 0xC00C, kind, 1, ttl, len(packed)) + packed


Scenario = Callable[[Nameserver, Resolver, VirtualClock], Awaitable[None]]


def play(scenario: Scenario, **keys: object) -> None:
    """Run a scenario with a nameserver of its own and a resolver that knows only it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        transport, server = await loop.create_datagram_endpoint(Nameserver, local_addr=("127.0.0.1", 0))
        port = transport.get_extra_info("sockname")[1]
        settings = {"resolvers": [f"127.0.0.1:{port}"], "dns_seconds": 5.0, **keys}
        clock = VirtualClock()
        resolver = Resolver(config.Network(**settings), clock)  # type: ignore[arg-type]
        try:
            await scenario(server, resolver, clock)
        finally:
            await resolver.close()
            transport.close()

    asyncio.run(main())


async def refused(resolver: Resolver, name: str) -> ResolveError:
    with pytest.raises(ResolveError) as caught:
        await resolver.resolve(name)
    return caught.value
