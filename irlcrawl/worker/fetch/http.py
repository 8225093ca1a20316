"""One GET: the seam behind which the HTTP clients live. `Fetcher.fetch(Request)` always answers with a `Fetched`.

A failure is an answer, not an exception, and is never repeated here: a retry is an outcome that the frontier queues.
A client connects to `Request.address` and to nothing else, and keeps open connections apart by address, port, scheme
and name. Nothing is followed, decoded or remembered: no redirects, no cookies, no proxies from the environment, no
content decoding.

There are two (`fetch.client`, opened by `clients.py`): `client.py`, a thin protocol over a C parser, which spares a
third of a millisecond of CPU a page; and `aiohttp_client.py`, for servers it might not get on with. Both pass the same
tests.

Memory is bounded whatever servers send: a header by `fetch.header_bytes_max`; a body by BODY_FREE_BYTES, past which it
needs one of BODY_LARGE_MAX permits to grow to `fetch.body_bytes_max`; idle connections by IDLE_MAX.
"""

from __future__ import annotations

import errno
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from irlcrawl.base.reasons import Reason
from irlcrawl.base.url import PORTS
from irlcrawl.config.keys import Config
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch.terms import Terms
from irlcrawl.worker.fetch.wants import Wants

BODY_FREE_BYTES = 1 << 20
BODY_LARGE_MAX = 8
IDLE_MAX = 256
IDLE_SECONDS = 15.0
DETAIL_CHARS_MAX = 200
_OP_LEGACY_SERVER_CONNECT = 0x4  # ssl.OP_LEGACY_SERVER_CONNECT, which Python names from 3.12 on

EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""What connecting fails with for want of descriptors or memory: that is this machine's, no host is charged with it."""


@dataclass(slots=True, frozen=True)
class Request:
    url: bytes  # canonical; what the archive calls it
    scheme: str
    host: str  # the name for Host and SNI, without brackets
    port: int
    target: str  # path and query, as they go on the wire
    address: str  # the only address to connect to
    body_bytes_max: int
    terms: Terms | None = None  # None: those of no host in particular
    wants: Wants | None = None  # None: any response is read
    fields: tuple[tuple[str, str], ...] = ()  # of this request alone: conditions (RFC 9110 13.1), a signature

    @property
    def pool_key(self) -> tuple[str, int, str, str]:
        """What a connection serves, and a TLS session resumes: nothing else."""
        return (self.address, self.port, self.scheme, self.host)


@dataclass(slots=True)
class Fetched:
    """The result of a request.

    reason: OK (a whole response, or one cut at a bound of ours: exchange.truncated says so), or CONNECT, TLS, TIMEOUT,
    LOST, PROTOCOL. `exchange` is there when a response header came, and partial when reason is TIMEOUT or LOST.
    `started` and `ended` are unix seconds; for `late` of them answers waited for our own loop. `stale`: a reused
    connection broke before any response; such servers close idle connections at any moment, so this says nothing about
    the URL. `faults`: what is wrong with the response though it was taken, words joined by `+` (repair.py; the
    httptools client alone). `unwanted`: why the body was not read, though there is one (Request.wants). `proxy_down`:
    the proxy that the host was to be asked through, if that does not answer; then the host was not asked.
    """

    reason: Reason
    exchange: Exchange | None
    status: int
    started: float
    ended: float
    stale: bool = False
    detail: str = ""
    faults: str = ""
    late: float = 0.0
    unwanted: Reason = Reason.OK
    body_s: float = 0.0  # seconds from the first piece of the response to the last
    proxy_down: str = ""

    @property
    def took(self) -> float:
        """Seconds that the exchange took the server and the network."""
        return max(self.ended - self.started - self.late, 0.0)

    @property
    def answered(self) -> bool:
        """Whether the server said anything, be it no HTTP."""
        return self.exchange is not None or self.reason is Reason.PROTOCOL

    @property
    def overdue(self) -> bool:
        """Whether the body was cut by a deadline of ours."""
        return self.exchange is not None and self.exchange.truncated == "time"

    def value(self, name: bytes) -> bytes | None:
        """The first value of a response header (name in lower case)."""
        return None if self.exchange is None else self.exchange.value(name)


class Held(Protocol):
    """Tells for how long the loop was held."""

    held: float
    """Seconds of the loop's current pass."""


class NeverHeld:
    held = 0.0


class Fetcher(Protocol):
    """The client of one worker. Use inside a running loop; close() when done."""

    slices: Held

    async def fetch(self, request: Request) -> Fetched:
        """One GET within the deadlines and bounds of the configuration. Raises nothing but CancelledError."""
        ...

    def hold_large(self, count: int) -> None:
        """So many large bodies more are kept although their exchange is over; so many fewer may come meanwhile."""
        ...

    async def close(self) -> None: ...


def host_header(request: Request) -> str:
    return authority(request)


def authority(request: Request, always_port: bool = False) -> str:
    host = f"[{request.host}]" if ":" in request.host else request.host
    return host if request.port == PORTS[request.scheme] and not always_port else f"{host}:{request.port}"


def tls_context(config: Config, protocols: Sequence[str] = ("http/1.1",)) -> ssl.SSLContext:
    """Offers these protocols, best first (ALPN). Without `tls_verify` whatever a server offers is taken, old versions
    of TLS and old ciphers included."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config.fetch.tls_verify:
        context.load_default_certs()
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate that is trusted is an anchor
        if config.fetch.tls_ca_file:
            context.load_verify_locations(config.fetch.tls_ca_file)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.options |= _OP_LEGACY_SERVER_CONNECT
    context.set_alpn_protocols(list(protocols))
    return context


def leave_out(fetched: Fetched, why: Reason) -> None:
    """Marks a response of which only the header was read."""
    assert fetched.exchange is not None
    fetched.unwanted = why
    fetched.exchange.truncated = "length" if why is Reason.UNWANTED_LENGTH else "unspecified"


def cut_short(fetched: Fetched, late: bool, overdue: bool) -> None:
    """Marks what came of a body that broke off: `late` by a deadline of ours, `overdue` by that of the whole exchange.
    A body that still arrives at the deadline of the whole exchange is kept: it is as whole as a repeat would get it."""
    exchange = fetched.exchange
    assert exchange is not None
    exchange.truncated = "time" if late else "disconnect"
    if not late:
        fetched.reason = Reason.LOST
    elif overdue and exchange.body:
        fetched.reason = Reason.OK
