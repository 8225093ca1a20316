"""HTTP/1 responses out of the bytes of a connection, with the header as the wire carried it. Knows no sockets.

llhttp (through httptools) decides what is HTTP and where a body ends; this module finds where the header ends, which
llhttp does not tell, and keeps its bytes. As lax as browsers are: bare LF, spaces after a chunk's size, odd characters
in header values, a Content-Length beside chunks. A header that llhttp refuses is parsed anew, once it is whole, as the
copy that repair.py makes of it; chunk lines that llhttp refuses are for chunks.py. `faults` says so.
"""

from __future__ import annotations

import re

import httptools

from irlcrawl.base.reasons import Reason
from irlcrawl.worker.fetch.chunks import FIRST_LINE, FIRST_LINE_MAX, BadChunk, LfChunks, ends_in_lf
from irlcrawl.worker.fetch.repair import FOLD, START, odd_coding, repaired
from irlcrawl.worker.fetch.wants import Wants

_HEADER_END = re.compile(rb"\n\r?\n")
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:", re.IGNORECASE)
_BODY = re.compile(rb"\n(?:transfer-encoding[ \t]*:|content-length[ \t]*:[ \t]*0*[1-9])", re.IGNORECASE)
_CODED = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_CHUNKED = re.compile(rb"\ntransfer-encoding[ \t]*:(?:[^\n]*[ \t,])?chunked[ \t]*\r?\n", re.IGNORECASE)

_PLAIN_CODING = re.compile(rb"\ntransfer-encoding: ?chunked\r?\n", re.IGNORECASE)

HELD_BYTES_MAX = 256 << 10
"""Of a body in chunks, kept as it came until it is whole: so far its chunk lines may turn out to be none for llhttp. In
a longer body they break it."""
FRAMING_MAX = 16
"""Bytes allowed around each byte of a body, beside as many as a header may have: the smallest chunks have 5, and
leading zeros."""


class NotHttp(Exception):
    """The bytes are no HTTP response, or its header is over the bound."""


class _Refused(NotHttp):
    """Says llhttp."""


class BrokenBody(Exception):
    """The header was good, but the body behind it is not the one it promised."""


class ResponseReader:
    """Reads the responses of one connection, one after another: begin(), then feed() until done.

    Everything that may come is bounded: the header, including 1xx responses before it; the body; and its framing,
    because chunks may have extensions and trailers without end.

    `header` is there as soon as it is whole (1xx responses are skipped); `body` grows up to the bound given to begin().
    `over`: there was more, which is not read; `unwanted`: because the page is not wanted, as its header says.
    `faults`: what is wrong with the response (repair.py), `chunk-lf`, `chunk-line` (LF later on, an extension or a
    trailer that is none), `length-beside-chunks`, and `tls-end`: the body ends with the connection, and TLS did not say
    that it was the end (RFC 8446 6.1).
    """

    def __init__(self, header_bytes_max: int) -> None:
        self._header_bytes_max = header_bytes_max
        self._parser = self._new_parser()
        self._strict = False  # llhttp refuses lines that end in LF: behind the first chunk line it would misread them
        self.begin(0)

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True,
            lenient_chunked_length=True,
        )  # fmt: skip
        return parser

    def begin(self, body_bytes_max: int, wants: Wants | None = None) -> None:
        """The next response is expected. Of a successful one whose header `wants` refuses the body is not read."""
        self._wants = wants
        self._body_bytes_max = body_bytes_max
        self._head = bytearray()
        self._refused: str | None = None  # why llhttp refuses this header, whose end is waited for
        self._parsed: bytes | None = None  # the copy of the header that was parsed in its place
        self._lf: bytes | LfChunks | None = None  # chunk lines end in LF; bytes: what came, while that is open
        self._passing = False  # inside a 1xx response
        self._passed = 0  # bytes of 1xx responses
        self._closing = False  # one of them said that the connection ends behind it, which it does not
        self._wire = 0  # bytes behind the header, framing included
        if self._strict:
            self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        self._chunked = self._strict = False
        self._held: bytearray | None = None  # the body in chunks as it came, while chunks.py may have to read it
        self.header: bytes | None = None
        self.status = 0
        self.body = bytearray()
        self.over = False
        self.unwanted = Reason.OK
        self.done = False
        self.faults: tuple[str, ...] = ()
        self.reusable = False
        """Once done: the connection may carry another exchange."""

    def feed(self, data: bytes) -> None:
        """Take in arrived bytes. After NotHttp or BrokenBody the connection is of no use."""
        view = memoryview(data)
        while self.header is None and view:
            end = self._header_end(view)
            piece, view = view[:end], view[end:]
            self._head += piece
            if self._passed + len(self._head) > self._header_bytes_max:
                raise NotHttp(f"a header of more than {self._header_bytes_max} bytes")
            self._parse_header(piece)
        if view and not self.unwanted:
            if self.done:
                self.reusable = False  # more than it promised
            else:
                self._wire += len(view)
                if self._lf is None and (self._wire > len(view) or FIRST_LINE.match(view, 0, FIRST_LINE_MAX) is None):
                    self._parse_body(view)
                elif isinstance(self._lf, LfChunks):
                    self._read_lf_chunks(self._lf, bytes(view))
                else:
                    self._read_first(view)
                framing = self._wire - len(self.body)
                if framing > self._header_bytes_max + FRAMING_MAX * len(self.body) and not (self.done or self.over):
                    raise BrokenBody(f"{framing} bytes of framing around {len(self.body)}")

    def end(self) -> bool:
        """The server closed the connection. Returns whether that ends the body as it should. NotHttp for a header that
        llhttp refuses and that did not end."""
        if self._refused is not None:
            raise NotHttp(self._refused)
        if self.header is not None and not self.done:
            header = self._unfolded()
            framed = _CHUNKED if _CODED.search(header) else _LENGTH  # RFC 9112 6.3: a coding overrides a length
            self.done = framed.search(header) is None
        return self.done

    def close(self) -> None:
        """Nothing more comes; the response can still be read. The parser knows this reader, which would keep both, and
        the last body, until garbage is collected."""
        del self._parser

    def _header_end(self, view: memoryview) -> int:
        """How many bytes of `view` belong to the header, as far as one can see; all when it does not end there."""
        tail = bytes(self._head[-2:])
        if tail:
            found = _HEADER_END.search(tail + view[:2])
            if found is not None and found.end() > len(tail):
                return found.end() - len(tail)
        found = _HEADER_END.search(view)
        return len(view) if found is None else found.end()

    def _unfolded(self) -> bytes:
        """The header as it frames the body, a field a line."""
        assert self.header is not None
        return FOLD.sub(b" ", self._parsed or self.header)

    def _parse_header(self, piece: memoryview) -> None:
        """A piece of the header, in `_head` already. One that llhttp refuses is tried again when whole."""
        if self._refused is None:
            try:
                self._parse(piece)
                if self._closing and self.header is None and not self._head:
                    self._parser = self._new_parser()
                return
            except _Refused as error:
                self._refused = str(error)
                if not START.startswith(self._head.lstrip(b"\r\n")[: len(START)].upper()):
                    raise NotHttp(self._refused) from error
        if self._head.endswith((b"\n\n", b"\n\r\n")):
            copy = repaired(bytes(self._head))
            if copy is None:
                raise NotHttp(self._refused)
            self._refused = None
            self._parsed, faults = copy
            self.faults += tuple(faults)
            self._parser = self._new_parser()
            self._parse(memoryview(self._parsed))

    def _read_first(self, view: memoryview) -> None:
        """The first bytes of a body, when they may be a chunk line that ends in LF: llhttp does not see that."""
        held = self._lf if isinstance(self._lf, bytes) else b""
        start = held + view
        lf = ends_in_lf(start) if _CHUNKED.search(self._unfolded()) else False
        self._lf = None if lf is False else start
        if lf:
            self._lf = LfChunks()
            self.faults += ("chunk-lf",)
            self._read_lf_chunks(self._lf, start)
        elif lf is False:
            self._parse_body(memoryview(start))

    def _parse_body(self, view: memoryview) -> None:
        """What llhttp refuses of chunks is read by chunks.py, from the first one on."""
        first = self._wire == len(view)
        try:
            self._parse(view)
        except BrokenBody:
            held = b"" if first else self._held
            if held is None or self._wire > HELD_BYTES_MAX or not _CHUNKED.search(self._unfolded()):
                raise
            self.body.clear()
            self._lf = LfChunks()
            self.faults += ("chunk-line",)
            self._read_lf_chunks(self._lf, bytes(held) + view)
            return
        if not (self.done or self.over):
            if first and (self._chunked or not self.body):  # no body yet: it may be inside of the first chunk line
                self._held = bytearray(view)
            elif self._held is not None and self._wire <= HELD_BYTES_MAX:
                self._held += view
            else:
                self._held = None

    def _read_lf_chunks(self, chunks: LfChunks, data: bytes) -> None:
        if not self._chunked:
            self._in_chunks()
        try:
            for piece in chunks.feed(data):
                self.on_body(piece)
                if self.over:
                    return
        except BadChunk as error:
            raise BrokenBody(str(error)) from error
        if chunks.done:
            self.on_message_complete()
            self.reusable = False  # llhttp is still where the header ended

    def _in_chunks(self) -> None:
        """The first chunk begins. What is told of a body must not depend on how much of it is read."""
        self._chunked = True
        if not isinstance(self._lf, LfChunks):
            self._strict = True
            self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=False)
        if self.header is not None and _LENGTH.search(self.header):
            self.reusable = False  # RFC 9112 6.3: it might be an attack on whoever shares the connection
            self.faults += ("length-beside-chunks",)

    def _parse(self, piece: memoryview) -> None:
        try:
            self._parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__
            if isinstance(cause, NotHttp):
                raise cause from None
            if self.header is None:
                raise _Refused(str(error)) from error
            if not (self.done or self.over):
                raise BrokenBody(str(error)) from error
            self.reusable = False

    # What llhttp calls; once done, because more came than was promised

    def on_message_begin(self) -> None:
        if self.done:
            self.reusable = False  # a response nobody asked for

    def on_headers_complete(self) -> None:
        if self.done:
            return
        header = bytes(self._head).lstrip(b"\r\n")
        second = header.find(b"\n") + 1
        if self._parsed is None and (header[second : second + 1] in (b" ", b"\t") or b"\r\r" in header):
            raise _Refused("a space before the first field, or CR twice: llhttp might end the header there")
        if self._parsed is None and (b"ransfer-" in header or b"RANSFER-" in header) and self._codes_oddly(header):
            raise _Refused("a Transfer-Encoding of which llhttp would not see what it means")
        parser = self._parser
        self.status = parser.get_status_code()
        if self.status < 200:
            if self.status < 100 or self.status == 101:
                raise NotHttp(f"a status of {self.status:03d}, which answers nothing")
            if _BODY.search(header):
                raise NotHttp(f"a status of {self.status} with a body, which it cannot have")  # RFC 9112 6.3
            self._passing = True
            self._closing = self._closing or not parser.should_keep_alive()
            return
        if not header.endswith((b"\n\n", b"\n\r\n")) or b"\0" in header:
            raise NotHttp("a header that does not end, or with a NUL in it")
        self.header = header
        self.reusable = parser.should_keep_alive() and not self._closing
        if self._wants is not None and self.status < 300:
            self.unwanted = self._wants.refuses(header)
            self.over = bool(self.unwanted)

    def _codes_oddly(self, header: bytes) -> bool:
        plain = header.count(b"ransfer-") == 1 and _PLAIN_CODING.search(header) is not None
        return not plain and odd_coding(header)

    def on_chunk_header(self) -> None:
        if not self._chunked and not self.done:
            self._in_chunks()

    def on_body(self, data: bytes) -> None:
        if self.done:
            return
        room = self._body_bytes_max - len(self.body)
        if len(data) > room:
            self.over = True
            data = data[:room]
        self.body += data

    def on_message_complete(self) -> None:
        if self.done:
            return
        if self._passing:
            self._passing = False
            self._passed += len(self._head)
            self._head.clear()
            self._parsed = None
            return
        self.done = True
        self.unwanted, self.over = Reason.OK, self.over and not self.unwanted  # there is no body to leave out
