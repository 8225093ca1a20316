"""HTTP/2 responses out of the frames of a connection, one stream at a time, with the header as HTTP/1.1 would have
carried it. Knows no sockets. Loaded when a server is to be asked in HTTP/2 (`fetch.http2`), else never.

h2 (python-hyper) decides what is HTTP/2. Each frame is looked at before h2 gets it, for three reasons: its size and the
number of frames are bounded, for a frame costs ten microseconds whatever is in it; and after a GOAWAY that leaves
our stream in peace h2 would take no frame any more. What is lax: connection headers in a response are kept, as browsers
do. What is strict: a field that would end its line in HTTP/1.1 refuses the response.
"""

from __future__ import annotations

import re

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error, InvalidBodyLengthError
from h2.settings import SettingCodes, Settings

from irlcrawl.base.reasons import Reason
from irlcrawl.worker.fetch.response import FRAMING_MAX, BrokenBody, NotHttp
from irlcrawl.worker.fetch.wants import Wants

PROTOCOL = "h2"
"""Its name in ALPN, and in WARC-Protocol."""
FRAME_BYTES_MAX = 16_384
"""Of a frame's payload; more is no HTTP/2, for we offer no more (RFC 9113 6.5.2)."""
FRAMES_MAX = 500
"""Frames of an exchange, beside one for each FRAME_BODY_BYTES of body."""
FRAME_BODY_BYTES = 64
"""Some servers stream a page by its rows."""
REQUESTS_MAX = 1000
"""On a connection: what h2 remembers of streams, and of the paths they asked for, is bounded by that."""
WINDOW_BYTES = 1 << 20
WITHOUT_BODY = (204, 304)
"""A length in their headers is that of another response (RFC 9110 8.6); h2 expects a body if a DATA frame ends them."""
_FRAME_HEAD, _GOAWAY, _FIELD_BYTES, _PADDED = 9, 7, 32, 8
_NOT_NAME, _NOT_VALUE = re.compile(rb"[\0- :\x7f]"), re.compile(rb"[\0\r\n]")


class Http2Reader:
    """Asks and reads on one connection: begin(), ask(), then feed() until done; outgoing() after each. With `header`,
    `body`, `over`, `unwanted` and `reusable` as of ResponseReader, and its exceptions."""

    def __init__(self, header_bytes_max: int) -> None:
        self._header_bytes_max = header_bytes_max
        self._h2 = H2Connection(H2Configuration(header_encoding=None, validate_inbound_headers=False))
        self._h2.local_settings = Settings(client=True, initial_values={
            SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
            SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES_MAX, SettingCodes.MAX_HEADER_LIST_SIZE: header_bytes_max,
        })  # fmt: skip
        self._h2.decoder.max_header_list_size = header_bytes_max
        self._stream = 0
        self._requests = 0
        self._held = bytearray()  # of a frame that is not whole
        self._going = False  # the server takes no more streams
        self.http1_required = False
        """The server wants to be asked in HTTP/1.1 (RFC 9113 9.2.2)."""
        self.begin(0)

    def begin(self, body_bytes_max: int, wants: Wants | None = None) -> None:
        """The next response is expected."""
        self._wants = wants
        self._body_bytes_max = body_bytes_max
        self._wire = 0  # bytes of frames, header fields of 1xx responses as unpacked
        self._frames = 0
        self.header: bytes | None = None
        self.status = 0
        self.body = bytearray()
        self.done = False
        self.over = False
        self.unwanted = Reason.OK
        self.reusable = False
        self.faults: tuple[str, ...] = ()

    def ask(self, block: bytes) -> bytes:
        """The frames of a request that HTTP/1.1 would send as `block`. BrokenBody: it cannot be asked here."""
        line, *fields = block.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = line.split(" ")
        pairs = [(name.lower().encode("latin-1"), value.encode("latin-1"))
                 for name, _, value in (field.partition(": ") for field in fields)]  # fmt: skip
        host = next(value for name, value in pairs if name == b"host")
        asked = [(b":method", method.encode()), (b":authority", host), (b":scheme", b"https"),
                 (b":path", target.encode("latin-1"))]  # fmt: skip
        try:
            if not self._requests:
                self._h2.initiate_connection()
                self._h2.increment_flow_control_window(WINDOW_BYTES)
            self._stream = self._h2.get_next_available_stream_id()
            more = [pair for pair in pairs if pair[0] != b"host"]
            self._h2.send_headers(self._stream, [*asked, *more], end_stream=True)
        except H2Error as error:  # it was told to go, or lets nothing be asked
            raise BrokenBody(f"{type(error).__name__}: {error}") from error
        self._requests += 1
        return self.outgoing()

    def outgoing(self) -> bytes:
        """The bytes to be sent now."""
        return self._h2.data_to_send()

    def feed(self, data: bytes) -> None:
        """What came. NotHttp, BrokenBody: as of ResponseReader; a reset is a BrokenBody, whether a header came or not.
        Behind the end of a response nothing is raised."""
        try:
            self._feed(data)
        except (NotHttp, BrokenBody):
            self.reusable, self._going = False, True
            if not self.done:
                raise

    def end(self) -> bool:
        """The server left: whether the response is whole, which a stream without an end never is."""
        return self.done

    def close(self) -> None:
        """Nothing follows."""
        self._held.clear()

    def _feed(self, data: bytes) -> None:
        held = self._held
        held += data
        at = 0
        while len(held) - at >= _FRAME_HEAD and not self.over:
            length = int.from_bytes(held[at : at + 3], "big")
            if length > FRAME_BYTES_MAX:
                raise self._wrong(f"a frame of {length} bytes")
            end = at + _FRAME_HEAD + length
            if end > len(held):
                break
            self._count(end - at)
            if held[at + 3] == _GOAWAY:
                self._goes(bytes(held[at + _FRAME_HEAD : end]))
            else:
                self._take(bytes(held[at:end]))
            at = end
        del held[:at]

    def _count(self, size: int) -> None:
        self._frames += 1
        self._wire += size
        if self._frames > FRAMES_MAX + len(self.body) // FRAME_BODY_BYTES:
            raise self._wrong("frames without end")
        if self._wire > self._header_bytes_max + FRAME_BYTES_MAX + (1 + FRAMING_MAX) * len(self.body):
            raise self._wrong("more around the response than in it")

    def _take(self, frame: bytes) -> None:
        try:
            events = self._h2.receive_data(frame)
        except H2Error as error:
            if isinstance(error, InvalidBodyLengthError):  # h2 has given the connection up
                if self.status in WITHOUT_BODY and not error.actual_length:
                    self.done, self.reusable = True, False
                    return
                self._on_body(_data(frame))
            raise self._wrong(f"{type(error).__name__}: {error}") from error
        for event in events:
            self._on(event)

    def _on(self, event: Event) -> None:
        if isinstance(event, DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id == self._stream and not self.done:
                self._on_body(event.data)
        elif isinstance(event, InformationalResponseReceived | TrailersReceived):
            self._wire += sum(len(name) + len(value) + _FIELD_BYTES for name, value in event.headers)
        elif getattr(event, "stream_id", None) != self._stream or self.done:
            return
        elif isinstance(event, ResponseReceived):
            self._on_header([(bytes(name), bytes(value)) for name, value in event.headers])
        elif isinstance(event, StreamEnded):
            self.done = True
            self.unwanted, self.over = Reason.OK, self.over and not self.unwanted  # there is no body to leave out
            self.reusable = not self._going and self._requests < REQUESTS_MAX
        elif isinstance(event, StreamReset):
            self.http1_required = event.error_code == ErrorCodes.HTTP_1_1_REQUIRED
            if event.error_code == ErrorCodes.NO_ERROR and self.header is not None:
                self.done, self.reusable = True, False  # it is all that comes, says the server (RFC 9113 8.1)
                return
            raise BrokenBody(f"the server reset the stream ({_name(event.error_code)})")

    def _on_header(self, fields: list[tuple[bytes, bytes]]) -> None:
        header = http1_header(fields)
        if len(header) > self._header_bytes_max:
            raise NotHttp("a header over the bound")
        self.header, self.status = header, int(header[9:12])
        if self._wants is not None and self.status < 300:
            self.unwanted = self._wants.refuses(header)
            self.over = bool(self.unwanted)

    def _on_body(self, data: bytes) -> None:
        if self.over:
            return
        room = self._body_bytes_max - len(self.body)
        self.over = len(data) > room
        self.body += data[:room]

    def _goes(self, payload: bytes) -> None:
        """GOAWAY (RFC 9113 6.8): a stream it leaves in peace goes on to its end."""
        self._going, self.reusable = True, False
        if len(payload) < 8:
            raise self._wrong("a GOAWAY without its fields")
        last, error = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF, int.from_bytes(payload[4:8], "big")
        if error == ErrorCodes.HTTP_1_1_REQUIRED:
            self.http1_required = True
        if last < self._stream or (error != ErrorCodes.NO_ERROR and self.header is None):
            raise BrokenBody(f"the server goes away ({_name(error)})")

    def _wrong(self, what: str) -> NotHttp | BrokenBody:
        return NotHttp(what) if self.header is None else BrokenBody(what)


def http1_header(fields: list[tuple[bytes, bytes]]) -> bytes:
    """Response fields as HTTP/1.1 would have carried them, as archives have them (WARC-Protocol proposal): HTTP/2 has
    no reason phrase. NotHttp for fields that cannot be said in it."""
    status, lines = b"", [b""]
    for name, value in fields:
        if name == b":status" and not status:
            status = value
        elif not name or _NOT_NAME.search(name) or _NOT_VALUE.search(value):
            raise NotHttp(f"a header field {name[:60]!r} that HTTP cannot carry")
        else:
            lines.append(name + b": " + value)
    if not re.fullmatch(rb"[2-9][0-9][0-9]", status):
        raise NotHttp(f"a status of {status[:20]!r}")
    lines[0] = b"HTTP/1.1 " + status + b" "
    return b"\r\n".join([*lines, b"", b""])


def _data(frame: bytes) -> bytes:
    """The bytes in a DATA frame, without its padding (RFC 9113 6.1)."""
    payload = frame[_FRAME_HEAD:]
    return payload[1 : len(payload) - payload[0]] if frame[4] & _PADDED and payload else payload


def _name(code: int) -> str:
    return ErrorCodes(code).name if code in ErrorCodes._value2member_map_ else str(code)
