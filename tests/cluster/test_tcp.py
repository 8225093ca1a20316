"""Packets over TCP between two that know a secret; nobody else gets in."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from irlcrawl.cluster.channel import Channel
from irlcrawl.cluster.tcp import Listener, TcpCarrier, check, check_here, place_of, read_secret
from irlcrawl.config.keys import Cluster, ConfigError

SECRET = b"a secret of thirty-two bytes ..."


class Frontier:
    def __init__(self) -> None:
        self.carriers: list[TcpCarrier] = []
        self.channels: list[Channel] = []
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self.listener = Listener(SECRET, self._accept)

    def _accept(self, carrier: TcpCarrier) -> None:
        self.carriers.append(carrier)
        now = asyncio.get_running_loop().time
        self.channels.append(Channel(carrier, now, lambda message, data: self.said.put_nowait((message, data))))


async def soon(said: Any) -> Any:
    async with asyncio.timeout(20):
        return await said


def test_a_session_outlives_its_connections() -> None:
    async def talk() -> None:
        frontier = Frontier()
        port = await frontier.listener.listen(("127.0.0.1", 0), None)
        carrier = TcpCarrier().keep(("127.0.0.1", port), None, SECRET, secrets.token_bytes(16))
        node = Channel(carrier, asyncio.get_running_loop().time, lambda *what: None)
        node.send({"t": "x", "n": 1}, b"abc")
        assert await soon(frontier.said.get()) == ({"t": "x", "n": 1}, b"abc")
        assert frontier.carriers[0]._writer is not None
        frontier.carriers[0]._writer.transport.abort()
        node.send({"t": "x", "n": 2})
        assert (await soon(frontier.said.get()))[0]["n"] == 2
        assert len(frontier.channels) == 1 and frontier.said.empty()
        node.close()
        await frontier.listener.close()

    asyncio.run(talk())


def test_a_frontier_that_does_not_know_the_session_says_so() -> None:
    async def talk() -> None:
        first, second = Frontier(), Frontier()
        port = await first.listener.listen(("127.0.0.1", 0), None)
        carrier = TcpCarrier().keep(("127.0.0.1", port), None, SECRET, secrets.token_bytes(16))
        node = Channel(carrier, asyncio.get_running_loop().time, lambda *what: None)
        node.send({"t": "x", "n": 1})
        await soon(first.said.get())
        await first.listener.close()
        await second.listener.listen(("127.0.0.1", port), None)
        async with asyncio.timeout(20):
            while carrier.refused is None:
                await asyncio.sleep(0)
        assert not second.carriers
        node.close()
        await second.listener.close()

    asyncio.run(talk())


@pytest.mark.parametrize("garbage", [b"", b"GET / HTTP/1.1\r\n\r\n" * 20, bytes(1000)])
def test_who_does_not_know_the_secret_gets_nothing(garbage: bytes) -> None:
    async def talk() -> None:
        frontier = Frontier()
        port = await frontier.listener.listen(("127.0.0.1", 0), None)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(garbage)
        writer.write_eof()
        assert len(await soon(reader.read())) == 32, "random bytes, and no more"
        writer.close()
        assert not frontier.carriers
        await frontier.listener.close()

    asyncio.run(talk())


def test_a_frontier_that_does_not_know_the_secret_is_no_frontier(caplog: pytest.LogCaptureFixture) -> None:
    async def talk() -> None:
        frontier = Frontier()
        frontier.listener._secret = b"another secret of some length"
        port = await frontier.listener.listen(("127.0.0.1", 0), None)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        from irlcrawl.cluster.tcp import _prove

        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await soon(_prove(reader, writer, SECRET, bytes(16), begins=True))
        assert not frontier.carriers
        await frontier.listener.close()

    asyncio.run(talk())


def test_no_port_is_opened_without_a_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    with pytest.raises(ConfigError, match="token_file"):
        check(Cluster(listen="127.0.0.1:0"))
    with pytest.raises(ConfigError, match="chmod 600"):
        secret.chmod(0o644)
        check(Cluster(listen="127.0.0.1:0", token_file=str(secret)))
    secret.chmod(0o600)
    assert check(Cluster(listen="127.0.0.1:0", token_file=str(secret))) == (("127.0.0.1", 0), SECRET, None)
    with pytest.raises(ConfigError, match="TLS"):
        check(Cluster(listen="0.0.0.0:7000", token_file=str(secret)))
    secret.write_bytes(b"short\n")
    with pytest.raises(ConfigError, match="16 bytes"):
        read_secret(str(secret))
    with pytest.raises(ConfigError, match=r"tls_cert without cluster\.tls_key"):
        check(Cluster(listen="0.0.0.0:7000", token_file=str(secret), tls_cert="cert.pem"))
    with pytest.raises(ConfigError, match=r"cluster\.listen = '7000': takes HOST:PORT"):
        check(Cluster(listen="7000", token_file=str(secret)))
    for wrong in ("7000", "host:", "host:x", "host:70000"):
        with pytest.raises(ConfigError, match="HOST:PORT"):
            place_of(wrong)


def test_a_crawl_listens_at_an_address_of_its_machine() -> None:
    check_here(("127.0.0.1", 7117))
    with pytest.raises(ConfigError, match=r"cluster\.listen = 192\.0\.2\.1:7117: .*; takes an address of this machine"):
        check_here(("192.0.2.1", 7117))
