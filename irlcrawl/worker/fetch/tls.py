"""The client's end of TLS between two streams of bytes. Knows no sockets.

asyncio's own TLS layer resumes no sessions: a crawler that meets a host every few seconds with a new connection would
pay for a full handshake each time. This one also shows when the handshake is done.
"""

from __future__ import annotations

import ssl

READ_BYTES = 256 << 10
HANDSHAKE_BYTES_MAX = 16 << 10
"""Of a server's handshake, for its session to be worth keeping: it has all certificates that came, which take ten times
their bytes."""


class TlsClient:
    """Give bytes from the network to received(), and send the bytes of `outgoing()`, until `connected`; from then on
    send() and received() are the plain stream. Raises ssl.SSLError (and ValueError from the constructor, for a name
    that no certificate and no SNI can carry)."""

    def __init__(self, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host, session=session)
        self.connected = False
        self._handshake_bytes = 0
        self.ended = False
        """The other side said that nothing follows."""
        self.failure: ssl.SSLError | None = None
        """What ended the stream behind bytes that were good."""
        self._handshake()

    @property
    def session(self) -> ssl.SSLSession | None:
        """The session that another connection may resume; None if this one resumed it itself, or if the server keeps
        none, or large certificates. With TLS 1.3 it is there only after the server's first data."""
        if self._tls.session_reused or self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            return None
        return self._tls.session

    @property
    def speaks_http2(self) -> bool:
        """Whether that is what the server chose, of what it was offered."""
        return self._tls.selected_alpn_protocol() == "h2"

    def outgoing(self) -> bytes:
        """The bytes to be sent now."""
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        self._tls.write(data)

    def received(self, data: bytes) -> bytes:
        """The plain bytes that `data` completes. An error behind some of them is left in `failure`."""
        self._incoming.write(data)
        if not self.connected:
            self._handshake_bytes += len(data)
            self._handshake()
            if not self.connected:
                return b""
        pieces: list[bytes] = []
        try:
            while piece := self._tls.read(READ_BYTES):
                pieces.append(piece)
            self.ended = True
        except ssl.SSLWantReadError:
            pass  # that was all
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLError as error:
            if not pieces:
                raise
            self.failure = error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.connected = True
