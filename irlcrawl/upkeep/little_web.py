"""A little web on this machine, to measure what a page costs here.

    python -m irlcrawl.upkeep.little_web HOSTS BYTES LINKS

Hosts are addresses of the loopback network, so no name is asked for. Each has pages without end, of BYTES of text and
LINKS links, of which one in four leads to another host; the same URL has always the same page. It prints its port, and
ends with its standard input.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable

PAGES_MAX = 10_000_000


def address(number: int) -> str:
    """Of the host with this number, from 0 on."""
    return f"127.8.{number >> 8}.{(number & 255) + 1}"


def page(host: int, number: int, hosts: int, port: int, text: str, links: int) -> bytes:
    """The page `number` of a host: links to pages that follow from its number, and text."""
    near = links * 3 // 4
    urls = [f"/{(number * near + step + 1) % PAGES_MAX}" for step in range(near)]
    others = [(host + step + 1) % hosts for step in range(links - near)]
    urls += [f"http://{address(other)}:{port}/{(number * 4 + other) % PAGES_MAX}" for other in others]
    listed = "".join(f'<li><a href="{url}">page {number} to {url}</a></li>' for url in urls)
    start = number * 37 % len(text)
    return f"<html><title>{host} {number}</title><ul>{listed}</ul><p>{text[start:]}{text[:start]}".encode()


def text_of(size: int) -> str:
    """So many characters that compress as text does."""
    seeded = random.Random(1)
    known = ["".join(seeded.choices("etaoinshrdlu", k=seeded.randrange(2, 11))) for _ in range(2000)]
    return " ".join(seeded.choices(known, k=size // 3 + 1))[:size]


class _Connection(asyncio.Protocol):
    def __init__(self, answer: Callable[[str, str], bytes]) -> None:
        self._answer = answer
        self._asked = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._host = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        self._asked += data
        while (end := self._asked.find(b"\r\n\r\n")) >= 0:
            line, self._asked = self._asked[:end].split(b"\r\n", 1)[0], self._asked[end + 4 :]
            self._transport.write(self._answer(self._host, line.split(b" ")[1].decode("latin-1")))


async def serve(hosts: int, size: int, links: int) -> None:
    text = text_of(size)
    numbers = {address(number): number for number in range(hosts)}
    port = 0

    def answer(host: str, target: str) -> bytes:
        if not target[1:].isdigit() and target != "/":
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        body = page(numbers[host], int(target[1:] or 0), hosts, port, text, links)
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    loop = asyncio.get_running_loop()
    for host in numbers:
        server = await loop.create_server(lambda: _Connection(answer), host, port)
        port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
