"""The fast client: connections of our own over httptools, a pool of idle ones, and TLS sessions to resume.

One exchange costs a request's bytes, one future and one timer (docs/performance.md).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict

from irlcrawl.base.clock import Clock
from irlcrawl.base.reasons import DOUBTFUL, Reason
from irlcrawl.config.keys import Config
from irlcrawl.config.proxies import Proxy
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch import http
from irlcrawl.worker.fetch.alpn import HTTP1, HTTP2, Offers, PoolKey
from irlcrawl.worker.fetch.connection import Connection, End, Permits
from irlcrawl.worker.fetch.http import DETAIL_CHARS_MAX, IDLE_SECONDS, Fetched, Request
from irlcrawl.worker.fetch.proxied import WANTS_LOGIN, LoginWanted, ProxyDown, answers, basic, connect
from irlcrawl.worker.fetch.terms import Terms, TermsOf
from irlcrawl.worker.fetch.tls import TlsClient

SESSIONS_MAX = 4096
"""TLS sessions kept, the most recently used. 17 KB each (measured), because OpenSSL keeps the server's certificates: 68
MB of ordinary ones; what is far larger is not kept (tls.py). A resumed handshake takes 0.37 ms, a full one 0.64, with
each of thousands of hosts asked every few seconds."""

_REASONS = {
    End.WHOLE: Reason.OK, End.LOST: Reason.LOST, End.QUIET: Reason.TIMEOUT, End.OVERDUE: Reason.TIMEOUT,
    End.NOT_HTTP: Reason.PROTOCOL, End.TLS: Reason.LOST,
}  # fmt: skip


class Pool:
    """Idle connections, one per key, oldest first; each is closed IDLE_SECONDS after its last use, or when there are
    more than http.IDLE_MAX."""

    def __init__(self) -> None:
        self._idle: OrderedDict[PoolKey, tuple[Connection, float]] = OrderedDict()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def take(self, key: PoolKey) -> Connection | None:
        found = self._idle.pop(key, None)
        return None if found is None else found[0]

    def put(self, key: PoolKey, connection: Connection) -> None:
        connection.key = key
        older = self.take(key)
        if older is not None:
            older.close()
        self._idle[key] = (connection, self._loop.time() + IDLE_SECONDS)
        if len(self._idle) > http.IDLE_MAX:
            self._idle.popitem(last=False)[1][0].close()
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_SECONDS, self._expire)

    def forget(self, connection: Connection) -> None:
        """A connection closed by itself."""
        if connection.key is not None and self._idle.get(connection.key, (None,))[0] is connection:
            del self._idle[connection.key]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection, _ in self._idle.values():
            connection.close()
        self._idle.clear()

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._idle:
            connection, until = next(iter(self._idle.values()))
            if until > now:
                self._timer = self._loop.call_at(until, self._expire)
                return
            self._idle.popitem(last=False)
            connection.close()


PASSED_SECONDS = 600.0
"""For so long a proxy that let a host through is known to take our login."""


class Client:
    """http.Fetcher, for any number of exchanges at once."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._fetch = config.fetch
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._offers = Offers(config)
        self._sessions: OrderedDict[PoolKey, ssl.SSLSession | None] = OrderedDict()  # None: that server resumes none
        self._passed: dict[Proxy, tuple[str, float]] = {}  # the last host that a proxy let through, and when
        self._permits = Permits(http.BODY_LARGE_MAX, self._loop)
        self._pool = Pool()
        self.slices: http.Held = http.NeverHeld()
        self._terms = TermsOf(config).general

    def hold_large(self, count: int) -> None:
        self._permits.more(-count)

    async def close(self) -> None:
        self._pool.close()
        await asyncio.sleep(0)  # transports close in the loop's next pass

    async def fetch(self, request: Request) -> Fetched:
        """One GET within the deadlines and bounds of the configuration. Raises CancelledError, and OSError when this
        machine has nothing left to ask with (http.EXHAUSTED)."""
        started = self._clock.now()
        due = self._loop.time() + self._fetch.total_seconds
        fetched = Fetched(Reason.OK, None, 0, started, started)
        key = request.pool_key
        connection = self._pool.take(key)
        reused = connection is not None
        if connection is None:
            connection = await self._connect(request, key, fetched)
        if connection is not None:
            await self._exchange(connection, request, reused, due, fetched)
            if fetched.reason is Reason.OK and connection.reusable:
                self._pool.put(key, connection)
            else:
                connection.abort()
        fetched.ended = self._clock.now()
        if request.terms is not None and (proxy := request.terms.proxy) is not None and not fetched.proxy_down:
            await self._judge_proxy(proxy, request, fetched)
            if fetched.exchange is not None and fetched.status != WANTS_LOGIN:
                self._passed[proxy] = request.host, self._loop.time()
        if fetched.exchange is not None:
            fetched.exchange.duration = fetched.took
        return fetched

    async def _judge_proxy(self, proxy: Proxy, request: Request, fetched: Fetched) -> None:
        """Whether what came, or did not come, is the proxy's."""
        wants_login = proxy.kind == "http" and request.scheme == "http" and fetched.status == WANTS_LOGIN
        if wants_login and not self._lets_others_through(proxy, request.host):
            fetched.exchange, fetched.reason, fetched.detail = None, Reason.CONNECT, f"the proxy {proxy} wants a login"
            fetched.proxy_down = str(proxy)
            return
        if fetched.reason not in DOUBTFUL or fetched.exchange is not None or fetched.stale:
            return
        # A proxy may wait for a host as long as we wait for the proxy. One that is well answers for itself.
        login = request.terms.login if request.terms else ""
        if not await answers(proxy, login, self._fetch.connect_seconds / 2):
            fetched.detail, fetched.proxy_down = f"the proxy {proxy} does not answer", str(proxy)

    def _lets_others_through(self, proxy: Proxy | None, host: str) -> bool:
        """Whether a proxy let another host through of late: then a 407 is about this one, or from it."""
        name, at = self._passed.get(proxy, (host, 0.0)) if proxy is not None else (host, 0.0)
        return name != host and self._loop.time() - at < PASSED_SECONDS

    async def _connect(self, request: Request, key: PoolKey, fetched: Fetched) -> Connection | None:
        """A new connection; None, and the reason in `fetched`, when there is none within `fetch.connect_seconds`."""
        connection: Connection | None = None
        session = self._sessions.get(key)
        try:
            tls = None
            if request.scheme == "https":
                tls = TlsClient(self._offers.context(key), request.host.rstrip("."), session)
            opening = Connection(self._fetch.header_bytes_max, self._permits, tls, self._pool.forget, self.slices)
            async with asyncio.timeout(self._fetch.connect_seconds):
                if request.terms is None or (proxy := request.terms.proxy) is None:
                    await self._loop.create_connection(lambda: opening, request.address, request.port)
                else:
                    sock = await connect(proxy, request.terms.login, request, self._fetch.connect_seconds / 2)
                    await self._loop.create_connection(lambda: opening, sock=sock)
                connection = opening
                await connection.secured()
            fetched.late = connection.late
            return connection
        except (ssl.SSLError, ValueError) as error:  # a ValueError is a name that TLS cannot carry
            self._forget_session(key, session)
            if self._offers.speaks_otherwise(key, error):  # nothing was asked yet
                if connection is not None:
                    connection.abort()
                return await self._connect(request, key, fetched)
            # It may have been the session: that is worth a repeat.
            fetched.reason = Reason.TLS if session is None else Reason.CONNECT
            fetched.detail = _detail(error)
        except OSError as error:  # a TimeoutError too
            if error.errno in http.EXHAUSTED:
                raise
            what = "connection" if request.scheme == "http" else "connection with TLS"
            untold = f"no {what} within {self._fetch.connect_seconds:g} s"
            if connection is not None:
                self._forget_session(key, session)
            fetched.reason, fetched.detail = Reason.CONNECT, _detail(error, untold)
            terms = request.terms
            of_host = isinstance(error, LoginWanted) and self._lets_others_through(terms and terms.proxy, request.host)
            if isinstance(error, ProxyDown) and terms is not None and not of_host:
                fetched.detail, fetched.proxy_down = str(error), str(terms.proxy)
        except asyncio.CancelledError:
            if connection is not None:
                connection.abort()
            raise
        if connection is not None:
            connection.abort()
        return None

    async def _exchange(
        self, connection: Connection, request: Request, reused: bool, due: float, fetched: Fetched
    ) -> None:
        """Make the exchange and fill in its result."""
        terms = request.terms or self._terms
        asked = "".join([f"{name}: {value}\r\n" for name, value in request.fields]) if request.fields else ""
        start = f"GET {request.target} HTTP/1.1\r\nHost: {http.host_header(request)}\r\n{asked}".encode()
        block = start + terms.sent_block
        if terms.proxy is not None and terms.proxy.kind == "http" and request.scheme == "http":
            block = _for_proxy(request, terms, asked)
        try:
            end = await connection.get(block, request.body_bytes_max, self._fetch.read_seconds, due, request.wants)
        except asyncio.CancelledError:
            connection.abort()
            raise
        fetched.late += connection.late
        fetched.body_s = connection.body_s
        reader = connection.reader
        fetched.reason = _REASONS[end]
        fetched.detail = connection.detail[:DETAIL_CHARS_MAX]
        if connection.tls is not None and not reused:
            self._keep_session(request.pool_key, connection.tls)
        if connection.http2 is not None and connection.http2.http1_required:
            self._offers.learn(request.pool_key, HTTP1)
            self._sessions.pop(request.pool_key, None)  # it belongs to what was offered before
        if reader.header is None:
            fetched.stale = reused and end in (End.LOST, End.TLS)
            return
        fetched.status = reader.status
        fetched.faults = "+".join(reader.faults)
        if terms.archived is not terms.headers or terms.proxy is not None:  # as the host is asked
            block = start + terms.archived_block
        fetched.exchange = Exchange(
            url=request.url, ip=request.address, request=block, header=reader.header, body=bytes(reader.body),
            truncated="length" if reader.over else None, start=fetched.started, duration=0.0,
            protocol="" if connection.http2 is None else HTTP2,
        )  # fmt: skip
        if reader.unwanted:
            http.leave_out(fetched, reader.unwanted)
        if end is not End.WHOLE:
            http.cut_short(fetched, late=end in (End.QUIET, End.OVERDUE), overdue=end is End.OVERDUE)

    def _forget_session(self, key: PoolKey, session: ssl.SSLSession | None) -> None:
        """No handshake came of it. Some servers leave, or say nothing, where they are asked to resume one."""
        if session is not None:
            self._sessions[key] = None

    def _keep_session(self, key: PoolKey, tls: TlsClient) -> None:
        session = tls.session
        if session is not None and self._sessions.get(key, session) is not None:
            self._sessions[key] = session
        if key in self._sessions:
            self._sessions.move_to_end(key)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)


def _for_proxy(request: Request, terms: Terms, asked: str) -> bytes:
    """A request for http through an HTTP proxy, which is told the whole URL."""
    target = http.host_header(request)
    login = b"Proxy-Authorization: " + basic(terms.login) + b"\r\n" if terms.login else b""
    start = f"GET http://{target}{request.target} HTTP/1.1\r\nHost: {target}\r\n{asked}".encode()
    return start + login + terms.sent_block


def _detail(error: Exception, untold: str = "") -> str:
    """`untold`: what an error means that says nothing."""
    return f"{type(error).__name__}: {str(error) or untold}"[:DETAIL_CHARS_MAX]
