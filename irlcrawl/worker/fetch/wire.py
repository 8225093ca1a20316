"""What the frontier and its fetch workers say to each other over a socket pair: JSON objects behind their length.

A frame is a little-endian u32 length and that many bytes of UTF-8 JSON. There is one object per visit and per harvest,
never one per URL, so JSON costs nothing that shows. Messages sent in the same pass of the loop leave in one write.
Times are unix seconds of the frontier's clock; keys are unsigned 64-bit integers. Robots state, reasons, sources and
classes are the numbers of irlcrawl.base (rows.py, reasons.py).

frontier -> worker

  hello    {"t":"hello", "config": dict, "seed": int, "scope_version": int, "scope_entries": [str], "stream": int,
            "secrets": {path: [[name, value], …]}, "logins": {proxy: text},
            "signing_key": hex, "crawl": str, "clock": [unix, since boot]?}
           The first frame. `config` is dataclasses.asdict(Config). `clock` is `clock_anchor(clock)`: with it both
           processes read the same time however the system's clock is stepped. "reading": path, where the worker notes
           what it reads (reading.py); "unreadable": [url], as of the messages of that name. Both may be missing.
  visit    {"t":"visit", "visit": id, …}: a lease; its fields are those of lease.py, which writes and reads it.
  harvest  {"t":"harvest"}: hand over what there is; always answered by a `harvest`, with "file": null when empty.
  ping     {"t":"ping"}: say something; a worker that does not is killed.
  scope    {"t":"scope", "version": int, "entries": [str]}: scope entries added by that version.
  unreadable {"t":"unreadable", "url": str}: its reading ended workers: it is not asked for any more.
  clock    {"t":"clock", "clock": [unix, since boot]}: as in hello; only where the frontier is another machine's.
  detour   {"t":"detour", "id": n, "address": ip | null, "reason": Reason?, "paces": {KIND: seconds}?}: the answer to a
           `detour`; null refuses it, without a reason for now only. `paces` as in a lease.
  doubt    {"t":"doubt", "visit": id, "charge": bool}: the answer to a `doubt`.
  stop     {"t":"stop"}: finish the exchanges in flight, end visits early, harvest, close the archive, `bye`, exit 0.
  abort    {"t":"abort"}: the same, but exchanges in flight are dropped (their URLs are not reached).

worker -> frontier

  ready    {"t":"ready", "stream": int, "pid": int}: hello was understood.
  end      {"t":"end", "visit": id, "reached": n, "started": unix | null, "ended": unix | null, "fetch_s": seconds,
            "fetching_s": seconds, "body_s": seconds, "requests": n, "bytes": n, "answered": bool, "outcome": OUTCOMES,
            "reason": Reason, "retry_after": seconds | null, "robots": ROBOTS | null,
            "proxy_down": [proxy, why] | null}
           `reached`: how many URLs of the lease, from its first, have a unit in the archive. `started`, `ended`: the
           start of the first request and the end of the last exchange, robots.txt included, null without a request;
           `fetch_s` is the duration of the last, `fetching_s` that of all, `body_s` of it the time from the first byte
           of each answer to its last; `bytes` what was received in all. `answered`: some request of the visit, if not
           the last, had a response. `robots` is there when robots.txt was asked for in this visit.
           `proxy_down`: the visit ended because that proxy does not answer; the last request did not reach its host.
  robots   {"t":"robots", "visit": id, "robots": ROBOTS}: what a visit learnt of robots.txt, told at once unless it is a
           denial, so that the frontier knows it before any harvest that holds it.
  harvest  {"t":"harvest", "number": n, "file": name | null, "bytes": b, "pages": p, "sync_s": seconds}: a harvest in
           JOB/state, complete and on the disk. `sync_s`: waited for the disk since the last such message.
  detour   {"t":"detour", "id": n, "visit": id, "url": str, "fetch_s": seconds}: robots.txt redirects to another host,
           or to this one, and the visit has made the one request it may; may it be asked, and at which address?
           `fetch_s` is the duration of the visit's last exchange. Answered by a `detour`.
  doubt    {"t":"doubt", "visit": id}: a request of the visit had no (whole) response. Is its URL and host to be charged
           with that, or is it our network? Answered by a `doubt`; if not, nothing is archived and the visit ends.
  detour_end {"t":"detour_end", "id": n, "ended": unix | null, "fetch_s": seconds, "outcome": "ok" | "throttled",
           "retry_after": seconds | null}: every granted detour ends with one, null when no request was made.
  pong     {"t":"pong"}: the answer to a `ping`.
  bye      {"t":"bye"}: everything is handed over; the process exits.

ROBOTS = {"state": Robots, "until": unix, "rules": [log, offset, length] | null, "crawl_delay": seconds}
OUTCOMES = "ok" (some or all URLs reached, nothing wrong with the host), "throttled" (verdict.py), "failed" (no response
to the last request, or robots.txt denies the host), "unreached" (ended before its first request: stop, not_after; or by
a doubt that was not charged).
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

import orjson

from irlcrawl.base.clock import Clock, since_boot

Message = dict[str, Any]

FRAME_BYTES_MAX = 256 << 20
"""A longer frame is taken for garbage. A hello with a million scope entries has some 40 MB."""

_LENGTH = struct.Struct("<I")
_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one for each message


class WireError(ValueError):
    """The other side sent what is no frame of this protocol."""


def encode(message: Message) -> bytes:
    """The frame of `message`."""
    body = _encode(message).encode()
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Cuts a byte stream into messages: feed() what arrives, take what is complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes, in order. Raises WireError; the stream is then lost."""
        buffer = self._buffer
        buffer += data
        messages: list[Message] = []
        at = 0
        while len(buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, at)
            if length > FRAME_BYTES_MAX:
                raise WireError(f"frame of {length} bytes, at most {FRAME_BYTES_MAX} are allowed")
            end = at + _LENGTH.size + length
            if end > len(buffer):
                break
            messages.append(_parse(bytes(buffer[at + _LENGTH.size : end])))
            at = end
        del buffer[:at]
        return messages


def _parse(body: bytes) -> Message:
    try:
        message = orjson.loads(body)
    except ValueError:
        message = _parse_slowly(body)
    if not isinstance(message, dict) or not isinstance(message.get("t"), str):
        raise WireError("frame is not an object with a type")
    return message


def _parse_slowly(body: bytes) -> Any:
    """What orjson refuses: infinities, halves of surrogate pairs."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(f"frame is not JSON: {error}") from error


class Wire(asyncio.Protocol):
    """One end of the pipe inside an event loop; make it with `open_wire`.

    `on_message` is called with each message in order, `on_close` once, with the error that ended it or None.
    """

    def __init__(self, on_message: Callable[[Message], None], on_close: Callable[[Exception | None], None]) -> None:
        self._on_message = on_message
        self._on_close = on_close
        self._decoder = Decoder()
        self._pending: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None
        self._early: list[Message] | None = []  # what comes before the owner has its hands on this object
        self._writable = asyncio.Event()
        self._writable.set()

    def send(self, message: Message) -> None:
        """Queues a message; all that is queued leaves in one write at the end of this pass of the loop."""
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append(encode(message))

    def flush(self) -> None:
        """Hands what is queued to the transport now."""
        if self._pending and self._transport is not None:
            self._transport.write(b"".join(self._pending))
        self._pending.clear()

    async def drain(self) -> None:
        """Waits until the other side has taken enough that more may be sent."""
        self.flush()
        await self._writable.wait()

    def close(self) -> None:
        """Closes the connection after what was sent has left."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._decoder.feed(data)
        except WireError as error:
            self._error = error
            if self._transport is not None:
                self._transport.abort()
            return
        if self._early is not None:
            self._early += messages
            return
        for message in messages:
            self._on_message(message)

    def begin(self) -> None:
        """Deliver messages from now on, those that already came first."""
        early, self._early = self._early or [], None
        for message in early:
            self._on_message(message)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._pending.clear()
        self._writable.set()
        self._on_close(self._error or error)


async def open_wire(
    sock: socket.socket, on_message: Callable[[Message], None], on_close: Callable[[Exception | None], None]
) -> Wire:
    """A Wire over `sock`, which it owns from now on."""
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    _, wire = await loop.create_connection(lambda: Wire(on_message, on_close), sock=sock)
    loop.call_soon(wire.begin)  # after the caller has taken what this returns
    return wire


def clock_anchor(clock: Clock) -> list[float]:
    """What AnchoredClock needs to show the same time in another process of this machine."""
    return [clock.now(), since_boot()]


class AnchoredClock:
    """The clock of another process of this machine, carried on by what they share (irlcrawl/base/clock.py)."""

    def __init__(self, unix: float, booted_s: float) -> None:
        self.set(unix, booted_s)

    def set(self, unix: float, booted_s: float) -> None:
        """Show `unix` where this machine has been up for `booted_s`."""
        self._offset = unix - booted_s

    def now(self) -> float:
        return self._offset + since_boot()

    def since_boot(self) -> float:
        return since_boot()
