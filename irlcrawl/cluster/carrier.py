"""A carrier carries packets between a node and the frontier. It may lose, double, reorder and delay them; the channel
above it (channel.py) makes up for that, so a carrier promises nothing but that a packet that comes is a packet that was
sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

PACKET_BYTES_MAX = 256 << 20
"""A longer one is taken for garbage. A hello with a million scope entries has some 40 MB; a piece of a file 256 KiB."""


class Carrier(Protocol):
    """One end. Its owner sets `on_packet`; all of it belongs to one event loop."""

    on_packet: Callable[[bytes], None]
    on_open: Callable[[], None]
    """There is a connection (again): what was sent before may be lost."""
    reliable: bool
    """Between two calls of on_open packets arrive in order, each once, or not at all."""

    refused: str | None
    """Why the other side wants no packet of this session any more: it is another process now."""

    def send(self, packet: bytes, data: bytes) -> None:
        """A packet whose end is `data`, which is large at times and not copied for what is before it. At some time,
        perhaps. Nothing where there is no connection."""
        ...

    def close(self) -> None: ...
