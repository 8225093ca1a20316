"""One connection of the httptools client: bytes in and out, one exchange at a time, over TLS or not.

Each event that ends an exchange (its last byte, a bound, a deadline, the server leaving) sets one result; nothing is
awaited per piece of a body. A single timer watches both deadlines of an exchange; arriving data only notes its time.
The timer keeps running when the exchange ends, for it is due no later than the deadlines of the next one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from irlcrawl.worker.fetch.http import BODY_FREE_BYTES, Held
from irlcrawl.worker.fetch.response import BrokenBody, NotHttp, ResponseReader
from irlcrawl.worker.fetch.tls import TlsClient
from irlcrawl.worker.fetch.wants import Wants

if TYPE_CHECKING:
    from irlcrawl.worker.fetch.http2 import Http2Reader


class End(Enum):
    """How an exchange ended."""

    WHOLE = auto()  # or cut at its bound
    LOST = auto()  # the server left, or its body is broken
    QUIET = auto()  # nothing came for the read deadline
    OVERDUE = auto()  # the deadline of the whole exchange
    NOT_HTTP = auto()
    TLS = auto()


LOOK_SECONDS = 2.0
SLOW_BYTES = 64 << 10
"""A body that brings fewer bytes in that time needs no permit while others wait: it grows too slowly to matter ..."""
GIVE_WAY_BYTES = 2 << 20
"""... unless it is larger already, and takes memory as long as it is not whole: then its time is over."""


class Permits:
    """A number of connections that may hold large bodies at once; the others pause until one gives its permit back, or
    loses it because its body hardly grows."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self._free = count
        self._loop = loop
        self._holders: dict[Connection, tuple[float, int, bool]] = {}
        """Since when (loop time), how many bytes it had then, and whether it was slow before that."""
        self._waiting: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, connection: Connection) -> bool:
        """Whether there is a permit now; if not, `permitted` of the connection is called when there is one."""
        if self._free > 0:
            self._give(connection)
            return True
        self._waiting[connection] = None
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        return False

    def give_back(self, connection: Connection) -> None:
        """A connection needs no permit any more, whether it had one or waits."""
        self._waiting.pop(connection, None)
        if self._holders.pop(connection, None) is not None:
            self.more(1)

    def more(self, count: int) -> None:
        """There are so many permits more, or fewer: there may be fewer than none until some come back."""
        self._free += count
        while self._free > 0 and self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._give(following)
            following.permitted()

    def _give(self, connection: Connection) -> None:
        self._free -= 1
        self._holders[connection] = self._loop.time(), len(connection.reader.body), False

    def _look(self) -> None:
        """Some wait: those whose bodies hardly grow let them go first. Large ones do so twice, and end."""
        self._timer, now = None, self._loop.time()
        slow, over = [], []
        for connection, (since, before, was_slow) in list(self._holders.items()):
            size = len(connection.reader.body)
            if now - since >= LOOK_SECONDS:
                is_slow = size - before < SLOW_BYTES
                self._holders[connection] = now, size, is_slow
                if is_slow and size <= GIVE_WAY_BYTES:
                    slow.append(connection)
                elif is_slow and was_slow:
                    over.append(connection)
        waiting = len(self._waiting)
        for connection in slow[:waiting]:
            del self._holders[connection]
            connection.unpermitted()
            self.more(1)
        for connection in over[: max(waiting - len(slow), 0)]:
            connection.overdue()
        if self._waiting:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)


class Connection(asyncio.Protocol):
    """`gone` is called if the connection ends while it is idle."""

    def __init__(
        self, header_bytes_max: int, permits: Permits, tls: TlsClient | None, gone: Callable[[Connection], None],
        slices: Held,
    ) -> None:  # fmt: skip
        self.reader: ResponseReader | Http2Reader = ResponseReader(header_bytes_max)
        self.http2: Http2Reader | None = None
        """The reader, if the server chose HTTP/2."""
        self._header_bytes_max = header_bytes_max
        self.key: tuple[str, int, str, str] | None = None
        """Where it is pooled (Request.pool_key)."""
        self.tls = tls
        self.detail = ""
        """What ended the last exchange, for people."""
        self.late = 0.0
        """Seconds for which what opened the connection, or what began and ended the last exchange, waited for us."""
        self._slices = slices
        self._permits = permits
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._secured: asyncio.Future[None] | None = self._loop.create_future() if tls is not None else None
        self._result: asyncio.Future[End] | None = None
        self._fresh = True  # nothing was asked on it yet
        self._early = b""  # what came before
        self._permit: bool | None = None  # None: not needed yet; False: waiting for it
        self._free_bytes = BODY_FREE_BYTES  # of a body, before it needs one
        self._waits_since = 0.0  # ... since this loop time, as far as it was not taken off the exchange's time
        self._heard = 0.0  # loop time of the last piece
        self._first = 0.0  # ... and of the first one of a response
        self._due = 0.0  # loop time the exchange must have ended by
        self._read_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def secured(self) -> None:
        """Wait for the end of the TLS handshake. Raises ssl.SSLError or ConnectionError."""
        if self._secured is not None:
            await self._secured

    async def get(
        self, block: bytes, body_bytes_max: int, read_seconds: float, due: float, wants: Wants | None = None
    ) -> End:
        """Send a request; returns how its exchange ended. The response is in `reader`. `due` is in loop time."""
        if self._transport is None:
            self.detail = "the server left"
            return End.LOST
        self._fresh = False
        self.reader.begin(body_bytes_max, wants)
        self.detail = ""
        self.late = 0.0
        self._heard, self._first = self._loop.time(), 0.0
        self._due, self._read_seconds = due, read_seconds
        result = self._result = self._loop.create_future()
        if self._timer is None:
            self._watch()
        try:
            self._send(block if self.http2 is None else self.http2.ask(block))
            if self._early:
                self._take(self._early)
                self._early = b""
                self._transport.resume_reading()
            return await result
        except BrokenBody as error:  # HTTP/2 alone: nothing can be asked here any more
            self.detail = str(error)
            return End.LOST
        except ssl.SSLError as error:
            self.detail = f"{type(error).__name__}: {error}"
            return End.TLS
        finally:
            self._rest()

    @property
    def body_s(self) -> float:
        """Seconds from the first piece of the last response to its last."""
        return self._heard - self._first if self._first else 0.0

    @property
    def reusable(self) -> bool:
        return self._transport is not None and self.reader.done and self.reader.reusable and not self.reader.over

    def close(self) -> None:
        """Close an idle connection in TCP's polite way."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once a connection on which more data might come."""
        if self._transport is not None:
            self._transport.abort()

    def permitted(self) -> None:
        self._waited()
        self._permit = True
        if self._transport is not None:
            self._transport.resume_reading()

    def unpermitted(self) -> None:
        """Others need it more. What comes beyond some bytes needs another one."""
        self._permit, self._free_bytes = None, len(self.reader.body) + BODY_FREE_BYTES // 4

    def overdue(self) -> None:
        """Others need the memory that its body holds."""
        self._finish(End.OVERDUE, TimeoutError("a large body that hardly grows, while others wait"))

    def _waited(self) -> None:
        """What it waited for a permit is no time of the server's: neither a deadline nor a gap goes by it."""
        now = self._loop.time()
        waited, self._waits_since = now - self._waits_since, now
        self._due += waited
        self._first += waited
        self.late += waited
        self._heard = now

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self.late += self._slices.held
        if self.tls is not None:
            self._transport.write(self.tls.outgoing())

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            if self.tls is not None:
                data = self._decrypted(self.tls, data)
                if not data:
                    return
        except ssl.SSLError as error:
            self._break(error)
            return
        if self._result is not None and not self._result.done():
            self._first = self._first or self._heard
            self._take(data)
        elif self.http2 is not None and not self._fresh:
            self._take_between(self.http2, data)
        elif self._fresh and self._transport is not None:
            self._early += data  # it speaks first: no HTTP, most likely, but that is for the reader to say
            self._transport.pause_reading()
        else:
            self.abort()  # nothing was asked
        if self.tls is not None and self.tls.failure is not None:
            self._break(self.tls.failure)

    def eof_received(self) -> bool:
        return False  # the transport closes, and says so to connection_lost

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(error or ConnectionAbortedError("the server left in the handshake"))
        if self._result is None or self._result.done():
            self._gone(self)
        else:
            self._left(error)
        self.reader.close()

    # Inside

    def _left(self, error: Exception | None) -> None:
        """The server closed the connection in an exchange."""
        try:
            whole = error is None and self.reader.end()
        except NotHttp as refused:
            self._finish(End.NOT_HTTP, refused)
        else:
            if whole:
                if self.tls is not None and not self.tls.ended:
                    self.reader.faults += ("tls-end",)
                self._finish(End.WHOLE)
            else:
                self._finish(End.LOST, error or ConnectionError("the server left"))

    def _break(self, error: ssl.SSLError) -> None:
        """TLS came to an end that it should not have. A response that was whole before is one."""
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(error)
        self.reader.reusable = False
        if self._result is None:
            self.abort()
        self._finish(End.TLS, error)

    def _take(self, data: bytes) -> None:
        reader = self.reader
        try:
            reader.feed(data)
        except NotHttp as error:
            self._finish(End.NOT_HTTP, error)
        except BrokenBody as error:
            self._finish(End.LOST, error)
        if self.http2 is not None:
            self._answer(self.http2)
        if reader.done or reader.over:
            self._finish(End.WHOLE)
        elif self._permit is None and len(reader.body) > self._free_bytes:
            self._permit = self._permits.ask(self)
            if not self._permit and self._transport is not None:
                self._waits_since = self._loop.time()
                self._transport.pause_reading()

    def _take_between(self, reader: Http2Reader, data: bytes) -> None:
        """Frames that come while nothing is asked, such as pings, and the server's farewell."""
        reader.feed(data)
        self._answer(reader)
        if not reader.reusable:
            self.close()

    def _answer(self, reader: Http2Reader) -> None:
        """What HTTP/2 says of itself, such as that bytes were read."""
        if (said := reader.outgoing()) and self._transport is not None:
            self._send(said)

    def _speak_http2(self) -> None:
        from irlcrawl.worker.fetch.http2 import Http2Reader  # most workers never meet it

        self.reader = self.http2 = Http2Reader(self._header_bytes_max)

    def _decrypted(self, tls: TlsClient, data: bytes) -> bytes:
        plain = tls.received(data)
        if self._transport is not None and (answer := tls.outgoing()):
            self._transport.write(answer)
        if tls.connected and self._secured is not None and not self._secured.done():
            if tls.speaks_http2:
                self._speak_http2()
            self._secured.set_result(None)
            self.late += self._slices.held
        if tls.ended and self._transport is not None:
            self._loop.call_soon(self.close)  # after what came with it was read
        return plain

    def _send(self, block: bytes) -> None:
        assert self._transport is not None
        if self.tls is not None:
            self.tls.send(block)
            block = self.tls.outgoing()
        self._transport.write(block)

    def _watch(self) -> None:
        self._timer = self._loop.call_at(min(self._heard + self._read_seconds, self._due), self._look)

    def _look(self) -> None:
        """The timer: a deadline is over, or data came, or another exchange began, since it was set."""
        self._timer = None
        if self._result is None:
            return
        now = self._loop.time()
        if self._permit is False:
            self._waited()
        if now >= self._due:
            self._finish(End.OVERDUE, TimeoutError("the exchange took too long"))
        elif now >= self._heard + self._read_seconds:
            self._finish(End.QUIET, TimeoutError("nothing came for too long"))
        else:
            self._watch()

    def _finish(self, end: End, error: Exception | None = None) -> None:
        if self._result is not None and not self._result.done():
            self.late += self._slices.held
            if error is not None:
                self.detail = f"{type(error).__name__}: {error}"
            self._result.set_result(end)

    def _rest(self) -> None:
        """After an exchange, also one that was given up."""
        self._result = None
        if self._permit is not None:
            self._permits.give_back(self)
            self._permit = None
        self._free_bytes = BODY_FREE_BYTES
