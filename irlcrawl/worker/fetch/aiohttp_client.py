"""The aiohttp client: slower, kept for servers the fast one might not get on with, and as its measure in the tests.

The URL it is given names the address itself, so there is nothing to resolve. A header is bounded by
`fetch.header_bytes_max`: a line of it while it arrives, at most HEADER_LINES_MAX of them; all of it when it is
complete. aiohttp cannot close an idle connection to make room for another, so past IDLE_MAX of them requests carry
`Connection: close`. It resumes no TLS sessions, and the header it gives is put together anew: line ends and the space
after a colon are ours. What frames a body (1xx responses, chunk extensions, trailers) has no bound of its own
here: a server may go on with it until the exchange is overdue (`fetch.total_seconds`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import OrderedDict

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from irlcrawl.base.clock import Clock
from irlcrawl.base.reasons import Reason
from irlcrawl.config.headers import Header
from irlcrawl.config.keys import Config
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch import http
from irlcrawl.worker.fetch.http import BODY_FREE_BYTES, DETAIL_CHARS_MAX, IDLE_SECONDS, Fetched, Request, cut_short
from irlcrawl.worker.fetch.terms import TermsOf

HEADER_LINES_MAX = 256

_log = logging.getLogger(__name__)


class _Dropped(Exception):
    """A lost connection, under a name the client does not answer by sending the request once more."""


async def _never_twice(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        left = isinstance(error, aiohttp.ServerDisconnectedError)  # its text is a half read response
        raise _Dropped("the server left" if left else str(error)) from error


class _NotHttp(Exception):
    """What came is no HTTP response, or its header is over the bound."""


class _NoResolver(AbstractResolver):
    """Addresses come with the lease; a look-up here would be a request to a place nobody cleared."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        raise OSError(f"a worker resolves no names: {host}")

    async def close(self) -> None:
        pass


class AiohttpClient:
    """http.Fetcher."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        self._header_bytes_max = config.fetch.header_bytes_max
        self._total_seconds = config.fetch.total_seconds
        self._connector = aiohttp.TCPConnector(
            resolver=_NoResolver(), use_dns_cache=False, ssl=http.tls_context(config), limit=0,
            keepalive_timeout=IDLE_SECONDS, happy_eyeballs_delay=None,
        )  # fmt: skip
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None,  # fetch() has its own, which also covers waiting for a permit
                sock_connect=config.fetch.connect_seconds,
                sock_read=config.fetch.read_seconds,
            ),
            auto_decompress=False,
            max_line_size=self._header_bytes_max,
            max_field_size=self._header_bytes_max,
            max_headers=HEADER_LINES_MAX,
            middlewares=(_never_twice,),
        )
        self._terms = TermsOf(config).general
        self._large = asyncio.Semaphore(http.BODY_LARGE_MAX)
        self._held = 0  # large bodies whose exchange is over
        self._room = asyncio.Event()
        self._room.set()
        self.slices: http.Held = http.NeverHeld()  # what it was held for counts in its exchanges: it sees no events
        self._idle: OrderedDict[tuple[str, int, str, str], float] = OrderedDict()

    def hold_large(self, count: int) -> None:
        self._held += count
        if self._held < http.BODY_LARGE_MAX:
            self._room.set()
        else:
            self._room.clear()

    async def close(self) -> None:
        await self._session.close()

    async def fetch(self, request: Request) -> Fetched:
        """One GET within the deadlines and bounds of the configuration. Raises CancelledError, and OSError when this
        machine has nothing left to ask with (http.EXHAUSTED)."""
        pool_key = request.pool_key
        started = self._clock.now()
        reused = self._take_idle(pool_key, started)
        keep = reused or len(self._idle) < http.IDLE_MAX
        result = Fetched(Reason.OK, None, 0, started, started)
        body: list[bytes] = []
        error: Exception | None = None
        try:
            async with asyncio.timeout(self._total_seconds):
                await self._exchange(request, keep, result, body)
        except Exception as failed:  # every kind has its reason; one of no known kind is logged with its traceback
            if isinstance(failed, OSError) and failed.errno in http.EXHAUSTED:
                raise
            error = failed
            result.reason = _reason_of(error)
            result.detail = f"{type(error).__name__}: {error}"[:DETAIL_CHARS_MAX]
            result.stale = reused and result.exchange is None and isinstance(error, _Dropped)
        result.ended = self._clock.now()
        if result.exchange is not None:
            result.exchange.body = b"".join(body)
            result.exchange.duration = result.ended - started
            if error is not None:
                late = isinstance(error, TimeoutError)
                cut_short(result, late, overdue=late and not isinstance(error, aiohttp.ServerTimeoutError))
            if result.reason is Reason.OK and result.exchange.truncated is None:
                self._idle[pool_key] = result.ended + IDLE_SECONDS
        return result

    async def _exchange(self, request: Request, keep: bool, result: Fetched, body: list[bytes]) -> None:
        terms = request.terms or self._terms
        address = f"[{request.address}]" if ":" in request.address else request.address
        response = await self._session.get(
            URL.build(scheme=request.scheme, host=address, port=request.port, path=request.target, encoded=True),
            headers=_headers(request, terms.headers, keep),
            server_hostname=request.host.rstrip("."),
            allow_redirects=False,
        )
        answered = self._clock.now()
        try:
            block = _header_block(response)
            if len(block) > self._header_bytes_max or response.status < 200:
                raise _NotHttp(f"status {response.status}, header of {len(block)} bytes")
            result.status = response.status
            result.exchange = Exchange(
                url=request.url, ip=request.address, header=block, body=b"", truncated=None, start=result.started,
                request=_request_block(request, _headers(request, terms.archived, keep)), duration=0.0,
            )  # fmt: skip
            refused = request.wants.refuses(block) if request.wants is not None and result.status < 300 else Reason.OK
            if refused and not response.content.at_eof():
                http.leave_out(result, refused)
                return
            result.exchange.truncated = await self._read_body(response.content, request.body_bytes_max, body)
        finally:
            result.body_s = self._clock.now() - answered
            response.close()  # does nothing when the body was read to its end: the connection is in the pool by then

    async def _read_body(self, content: aiohttp.StreamReader, bytes_max: int, body: list[bytes]) -> str | None:
        """Appends what arrives to `body`, at most `bytes_max`; "length" when there was more."""
        size = 0
        permit = False
        try:
            while chunk := await content.readany():
                if size + len(chunk) > bytes_max:
                    body.append(chunk[: bytes_max - size])
                    return "length"
                body.append(chunk)
                size += len(chunk)
                if size > BODY_FREE_BYTES and not permit:
                    await self._large.acquire()
                    permit = True
                    await self._room.wait()
            return None
        finally:
            if permit:
                self._large.release()

    def _take_idle(self, pool_key: tuple[str, int, str, str], now: float) -> bool:
        """Whether a connection left open for this host should still be there. Oldest first, so expiry is a prefix."""
        while self._idle and next(iter(self._idle.values())) < now:
            self._idle.popitem(last=False)
        return self._idle.pop(pool_key, None) is not None


def _headers(request: Request, fixed: list[Header], keep: bool) -> list[Header]:
    close = [] if keep else [("Connection", "close")]
    return [("Host", http.host_header(request)), *request.fields, *fixed, *close]


def _request_block(request: Request, headers: list[Header]) -> bytes:
    """The bytes the client sends for these headers (a test compares them with what a server receives)."""
    lines = [f"GET {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode()


def _header_block(response: aiohttp.ClientResponse) -> bytes:
    """Status line and header lines, names and values as they came."""
    version = response.version or aiohttp.HttpVersion11
    reason = (response.reason or "").encode("utf-8", "surrogateescape")
    lines = [b"HTTP/%d.%d %d %s" % (version.major, version.minor, response.status, reason)]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _reason_of(error: Exception) -> Reason:
    match error:
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return Reason.TLS
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ssl.SSLError):
            return Reason.TLS
        case aiohttp.ConnectionTimeoutError() | aiohttp.ClientConnectorError():
            return Reason.CONNECT
        case TimeoutError():
            return Reason.TIMEOUT
        case _Dropped() | aiohttp.ClientPayloadError() | OSError():
            return Reason.LOST
        case _NotHttp() | aiohttp.ClientError():
            return Reason.PROTOCOL
    _log.error("unexpected in an exchange", exc_info=error)
    return Reason.PROTOCOL
