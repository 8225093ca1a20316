"""The carrier for networks: packets over TCP, with TLS unless both sides are on one machine, between two that know a
secret.

A node connects, and connects again; a session outlives its connections. After the connection (and TLS) is made:

    frontier -> node   32 random bytes
    node -> frontier   the session (16 bytes), 1 byte (1: it begins, 0: it goes on), 32 random bytes, and HMAC-SHA256
                       under the secret of b"node", the frontier's bytes and all of these
    frontier -> node   1 byte (b"Y"; b"?": it knows no such session), and HMAC-SHA256 of b"frontier", both random bytes
                       and that byte

Who does not know the secret is hung up on within HANDSHAKE_S, and there are at most STRANGERS_MAX of them. Then packets
go either way, each behind its length (u32, little endian). Nothing is unpickled, and nothing names a path.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import ssl
import struct
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from irlcrawl.cluster.carrier import PACKET_BYTES_MAX
from irlcrawl.config.keys import Cluster, ConfigError
from irlcrawl.worker.fetch.wire import WireError

HANDSHAKE_S = 10.0
STRANGERS_MAX = 64
SILENT_S = 8.0
"""A node that hears nothing for so long, not even a beat, makes another connection."""
AGAIN_S = 1.0
SECRET_BYTES_MIN = 16
READ_BYTES = 512 << 10
"""Of a packet so much may wait to be read: more than a piece of a file, so that none is read in parts."""

_LENGTH = struct.Struct("<I")
_SESSION, _NONCE, _PROOF = 16, 32, 32

_log = logging.getLogger("irlcrawl.cluster")


def read_secret(path: str) -> bytes:
    """The secret in a file that only its owner may read. ConfigError."""
    file = Path(path)
    try:
        if file.stat().st_mode & 0o077:
            raise ConfigError(f"{path}: others may read the secret in it: chmod 600 {path}")
        secret = file.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"{path}: the secret in it has less than {SECRET_BYTES_MIN} bytes: openssl rand -hex 32 > {path}"
        )
    return secret


def place_of(text: str, what: str = "") -> tuple[str, int]:
    """(host, port) of HOST:PORT. ConfigError, which names the key or option: `what`."""
    host, mark, port = text.rpartition(":")
    if not mark or not host or not port.isdigit() or not int(port) < 65_536:
        raise ConfigError(f"{what} {text!r}: takes HOST:PORT".lstrip())
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def server_tls(cert: str, key: str) -> ssl.SSLContext:
    """ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{cert}, {key}: no certificate and its key: {error}") from error
    return context


def client_tls(cert: str) -> ssl.SSLContext:
    """Trusts the frontier's certificate and no other; its name does not count. ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    try:
        context.load_verify_locations(cert)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{cert}: no certificate: {error}") from error
    return context


def check(keys: Cluster) -> tuple[tuple[str, int], bytes, ssl.SSLContext | None]:
    """(place, secret, TLS) that the section [cluster] names. ConfigError."""
    place = place_of(keys.listen, "cluster.listen =")
    if bool(keys.tls_cert) != bool(keys.tls_key):
        given, missing = ("tls_cert", "tls_key")[:: 1 if keys.tls_cert else -1]
        raise ConfigError(f"cluster.{given} without cluster.{missing}: TLS takes both")
    if not keys.token_file:
        raise ConfigError(f"cluster.listen = {keys.listen}: no port is opened without a secret: set cluster.token_file")
    if not keys.tls_cert and not is_loopback(place[0]):
        raise ConfigError(
            f"cluster.listen = {keys.listen}: other machines are only spoken to under TLS: set cluster.tls_cert and "
            "cluster.tls_key"
        )
    tls = server_tls(keys.tls_cert, keys.tls_key) if keys.tls_cert else None
    return place, read_secret(keys.token_file), tls


def check_here(place: tuple[str, int]) -> None:
    """Whether a port may be opened at that address: it is one of this machine's. ConfigError."""
    host, port = place
    try:
        family, kind, _, _, found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(found)
    except OSError as error:
        raise ConfigError(
            f"cluster.listen = {host}:{port}: {error.strerror}; takes an address of this machine"
        ) from error


class TcpCarrier:
    """One end of a session, over one connection after another."""

    reliable = True

    def __init__(self) -> None:
        self.refused: str | None = None
        self.on_packet: Callable[[bytes], None] = lambda packet: None
        self.on_open: Callable[[], None] = lambda: None
        self._writer: asyncio.StreamWriter | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.closed = False

    def send(self, packet: bytes, data: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(_LENGTH.pack(len(packet) + len(data)) + packet)
            if data:
                self._writer.write(data)

    def close(self) -> None:
        self.closed = True
        if self._writer is not None:
            self._writer.close()
        if self._keeping is not None:
            self._keeping.cancel()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silent_s: float | None) -> None:
        """Until the connection ends, or another one takes its place."""
        if self._writer is not None:
            self._writer.close()
        self._writer = writer
        self.on_open()
        try:
            while self._writer is writer and not self.closed:
                async with asyncio.timeout(silent_s):
                    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                    if length > PACKET_BYTES_MAX:
                        raise WireError(f"a packet of {length} bytes")
                    packet = await reader.readexactly(length)
                self.on_packet(packet)
        except (asyncio.IncompleteReadError, OSError, TimeoutError):
            pass
        except WireError as error:
            _log.warning("a connection is given up: %s", error)
        finally:
            writer.close()

    def keep(self, place: tuple[str, int], tls: ssl.SSLContext | None, secret: bytes, session: bytes) -> TcpCarrier:
        """The node's end: connect, again and again."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep(place, tls, secret, session))
        return self

    async def _keep(self, place: tuple[str, int], tls: ssl.SSLContext | None, secret: bytes, session: bytes) -> None:
        begins = True
        while not self.closed and self.refused is None:
            try:
                async with asyncio.timeout(HANDSHAKE_S):
                    reader, writer = await asyncio.open_connection(*place, ssl=tls, limit=READ_BYTES)
                    known = await _prove(reader, writer, secret, session, begins)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:  # ssl.SSLError is an OSError
                _log.info("no connection to %s:%d, trying on: %s", *place, error or type(error).__name__)
            else:
                if not known:
                    self.refused = "the frontier is another process now"
                    writer.close()
                    return
                begins = False
                await self.carry(reader, writer, SILENT_S)
            await asyncio.sleep(AGAIN_S)


class Listener:
    """The frontier's end: `accept` is given a carrier for each session that begins."""

    def __init__(self, secret: bytes, accept: Callable[[TcpCarrier], None]) -> None:
        self._secret, self._accept = secret, accept
        self._sessions: dict[bytes, TcpCarrier] = {}
        self._server: asyncio.Server | None = None
        self._strangers = 0
        self._carrying: set[asyncio.Task[None]] = set()

    async def listen(self, place: tuple[str, int], tls: ssl.SSLContext | None) -> int:
        """The port. OSError."""
        self._server = await asyncio.start_server(self._met, *place, ssl=tls, limit=READ_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self._carrying.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._strangers >= STRANGERS_MAX:
            return
        self._strangers += 1
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                session = await self._examine(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            return
        finally:
            self._strangers -= 1
        if session is None:
            _log.warning("somebody who does not know the secret was hung up on")
            return
        if (carrier := self._sessions.get(session)) is not None and not carrier.closed:
            await carrier.carry(reader, writer, None)
        self._sessions = {known: one for known, one in self._sessions.items() if not one.closed}

    async def _examine(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """The session of a node; None if it does not know the secret."""
        ours = secrets.token_bytes(_NONCE)
        writer.write(ours)
        said = await reader.readexactly(_SESSION + 1 + _NONCE)
        proof = await reader.readexactly(_PROOF)
        if not hmac.compare_digest(proof, _mac(self._secret, b"node", ours, said)):
            return None
        session, begins, theirs = said[:_SESSION], said[_SESSION], said[_SESSION + 1 :]
        if begins and session not in self._sessions:
            self._sessions[session] = carrier = TcpCarrier()
            self._accept(carrier)
        carrier_of = self._sessions.get(session)
        answer = b"?" if carrier_of is None or carrier_of.closed else b"Y"
        writer.write(answer + _mac(self._secret, b"frontier", ours, theirs, answer))
        return session


async def _prove(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes, session: bytes, begins: bool
) -> bool:
    """Whether the frontier, which knows the secret, knows the session. OSError, IncompleteReadError."""
    theirs, ours = await reader.readexactly(_NONCE), secrets.token_bytes(_NONCE)
    said = session + bytes([begins]) + ours
    writer.write(said + _mac(secret, b"node", theirs, said))
    answer, proof = await reader.readexactly(1), await reader.readexactly(_PROOF)
    if not hmac.compare_digest(proof, _mac(secret, b"frontier", theirs, ours, answer)):
        writer.close()
        raise OSError("the other side does not know the secret")
    return answer == b"Y"


def _mac(secret: bytes, *parts: bytes) -> bytes:
    return hmac.digest(secret, b"".join(parts), "sha256")
