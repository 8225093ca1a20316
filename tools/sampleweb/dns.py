"""A name server small enough to read: A records of the names it is given, NXDOMAIN for every other name.

It never asks anybody else, so a crawl that uses it cannot leave the sample web, whatever the pages link to.
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Mapping
from typing import NamedTuple

HEADER_BYTES = 12
TYPE_A, CLASS_IN = 1, 1
RESPONSE, AUTHORITATIVE, RECURSION_DESIRED = 0x8000, 0x0400, 0x0100
FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 1, 2, 3
TTL_S = 3600


class Record(NamedTuple):
    """An address with a time to live of its own, in seconds."""

    address: str
    ttl: int


class NoAnswer(LookupError):
    """What a mapping of names raises for a name whose servers do not answer."""


def answer(query: bytes, names: Mapping[str, str | Record]) -> bytes | None:
    """The reply to a DNS message (RFC 1035): the address of a known name, no records for its other types, NXDOMAIN for
    unknown names, SERVFAIL for NoAnswer, FORMERR for a question it cannot read. None where no reply is due: too short,
    or itself a reply."""
    if len(query) < HEADER_BYTES:
        return None
    number, flags, questions = struct.unpack_from(">HHH", query)
    if flags & RESPONSE:
        return None
    base = RESPONSE | AUTHORITATIVE | flags & RECURSION_DESIRED
    question = _question(query) if questions == 1 else None
    if question is None:
        return struct.pack(">HHHHHH", number, base | FORMAT_ERROR, 0, 0, 0, 0)
    name, kind, end = question
    records = b""
    try:
        found = names.get(name)
        code = 0 if found is not None else NO_SUCH_NAME
    except NoAnswer:
        found, code = None, SERVER_FAILURE
    if found is not None and kind == TYPE_A:
        address, ttl = (found, TTL_S) if isinstance(found, str) else found
        packed = ipaddress.IPv4Address(address).packed
        records = struct.pack(">HHHIH", 0xC00C, TYPE_A, CLASS_IN, ttl, len(packed)) + packed
    head = struct.pack(">HHHHHH", number, base | code, 1, int(bool(records)), 0, 0)
    return head + query[HEADER_BYTES:end] + records  # the question as asked: case is kept


def _question(query: bytes) -> tuple[str, int, int] | None:
    """(name in lower case, type, where the question ends); None when it is cut short or compressed."""
    labels: list[bytes] = []
    at = HEADER_BYTES
    while at < len(query) and query[at]:
        size = query[at]
        if size > 63:
            return None
        labels.append(query[at + 1 : at + 1 + size])
        at += 1 + size
    if at + 5 > len(query):
        return None
    return b".".join(labels).decode("latin-1").lower(), struct.unpack_from(">H", query, at + 1)[0], at + 5


class NameServer(asyncio.DatagramProtocol):
    """Answers on a free UDP port of 127.0.0.1; `resolver` is that address and port."""

    def __init__(self, names: Mapping[str, str | Record]) -> None:
        self.names = names
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport

    @classmethod
    async def start(cls, names: Mapping[str, str | Record]) -> NameServer:
        loop = asyncio.get_running_loop()
        transport, server = await loop.create_datagram_endpoint(lambda: cls(names), local_addr=("127.0.0.1", 0))
        server._transport = transport
        return server

    @property
    def resolver(self) -> str:
        host, port = self._transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = answer(data, self.names)
        if reply is not None:
            self._transport.sendto(reply, addr)

    def stop(self) -> None:
        """May be called from any thread."""
        self._loop.call_soon_threadsafe(self._transport.close)
