"""Messages between a node and the frontier: in order, each once, whatever the carrier does; and the time that both may
believe in.

A packet is `u64 number, u64 taken, f64 sent, f64 echo`, then the message: u32 length of its JSON, the JSON, bytes. All
little endian. `number` counts messages from 1 on; 0: the packet has none. `taken`: all messages below it came. `sent`
is the sender's clock, `echo` the newest `sent` it had from the other side; the two clocks need not agree, and are never
compared.

A packet that arrives twice is dropped, one that comes early waits, and one that is not acknowledged is sent again: when
there is a new connection, and where the carrier is unreliable after RESEND_S without progress. So a message that was
sent is delivered once and in its turn as long as the channel lives, and a channel ends with either process.

`echo` is a proof of life that no delay can forge: a side that reads echo E knows that what it sent at E was heard.
A node ends its visits LIFE_S after the newest echo; the frontier takes it for gone LIFE_S + MARGIN_S after it last
heard something new from it, which is later, because what is heard was sent before.
"""

from __future__ import annotations

import json
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from irlcrawl.cluster.carrier import PACKET_BYTES_MAX, Carrier
from irlcrawl.worker.fetch.wire import WireError

Message = dict[str, Any]

LIFE_S, MARGIN_S = 20.0, 10.0
BEAT_S = 2.0
"""A packet goes at least so often."""
RESEND_S = 1.0
RESENT_AT_ONCE = 64
WAITING_MAX = 1024
"""So many messages that came early wait; later ones are dropped, and come again."""
WINDOW_BYTES = 32 << 20
"""So much may be on its way: who ships files waits then. Messages of workers, which are few and small, do not."""

_HEAD = struct.Struct("<QQdd")
_LENGTH = struct.Struct("<I")


class Channel:
    """One side. `on_message(message, data)` is called once for each, in order; `beat()` is to be called every second or
    so. now(): the clock of this side."""

    def __init__(
        self, carrier: Carrier, now: Callable[[], float], on_message: Callable[[Message, memoryview], None]
    ) -> None:
        self._carrier, self._now, self._on_message = carrier, now, on_message
        self._unheard: OrderedDict[int, tuple[bytes, bytes]] = OrderedDict()  # number -> message, not acknowledged
        self._unheard_bytes = 0
        self._next = 1
        self._expected = 1
        self._early: dict[int, memoryview] = {}
        self._sent_at = self._moved_at = now()
        self._newest = -1.0  # `sent` of the other side; below 0: none came
        self._owes = False
        self.heard_at = now()
        """When something new was heard, by this side's clock."""
        self.echoed_at = now()
        """What was sent then has been heard, by this side's clock."""
        self.told: tuple[float, float] | None = None
        """(its clock when it sent, ours when what it echoes was sent) of the newest packet: see node.py."""
        self.on_room: Callable[[], None] = lambda: None
        """There is room for more of a file."""
        self.bytes_sent = 0
        carrier.on_packet, carrier.on_open = self._heard, self._again

    # -- out -------------------------------------------------------------------------------------------------------

    @property
    def room(self) -> bool:
        """Whether more of a file may be sent."""
        return self._unheard_bytes < WINDOW_BYTES

    @property
    def idle(self) -> bool:
        """All that was sent has been heard."""
        return not self._unheard

    def send(self, message: Message, data: bytes = b"") -> None:
        text = json.dumps(message, separators=(",", ":")).encode()
        body = _LENGTH.pack(len(text)) + text
        number, self._next = self._next, self._next + 1
        if not self._unheard:
            self._moved_at = self._now()
        self._unheard[number] = body, data
        self._unheard_bytes += len(body) + len(data)
        self._packet(number, body, data)

    def beat(self) -> None:
        """Send again what nobody seems to have heard, and a word if nothing else was said."""
        now = self._now()
        if self._unheard and not self._carrier.reliable and now - self._moved_at >= RESEND_S:
            self._moved_at = now
            for number in list(self._unheard)[:RESENT_AT_ONCE]:
                self._packet(number, *self._unheard[number])
        elif self._owes or now - self._sent_at >= BEAT_S:
            self._packet(0)

    def close(self) -> None:
        self._carrier.close()

    def _again(self) -> None:
        """A new connection: nothing is known of what was under way."""
        self._packet(0)
        for number, (body, data) in self._unheard.items():
            self._packet(number, body, data)

    def _packet(self, number: int, body: bytes = b"", data: bytes = b"") -> None:
        self._owes, self._sent_at = False, self._now()
        packet = _HEAD.pack(number, self._expected, self._sent_at, self._newest) + body
        self.bytes_sent += len(packet) + len(data)
        self._carrier.send(packet, data)

    # -- in --------------------------------------------------------------------------------------------------------

    def _heard(self, packet: bytes) -> None:
        if not _HEAD.size <= len(packet) <= PACKET_BYTES_MAX:
            raise WireError(f"a packet of {len(packet)} bytes")
        number, taken, sent, echo = _HEAD.unpack_from(packet)
        if sent > self._newest:
            self._newest, self.heard_at = sent, self._now()
            if echo >= 0:
                self.told = sent, echo
        if echo > self.echoed_at:
            self.echoed_at = echo
        self._forget(taken)
        if not number:
            return
        self._owes = True
        if number < self._expected or number in self._early or number >= self._expected + WAITING_MAX:
            return
        self._early[number] = memoryview(packet)[_HEAD.size :]
        while (body := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            self._on_message(*_parse(body))

    def _forget(self, taken: int) -> None:
        full = not self.room
        while self._unheard and next(iter(self._unheard)) < taken:
            _, (body, data) = self._unheard.popitem(last=False)
            self._unheard_bytes -= len(body) + len(data)
            self._moved_at = self._now()
        if full and self.room:
            self.on_room()


def _parse(body: memoryview) -> tuple[Message, memoryview]:
    try:
        (length,) = _LENGTH.unpack_from(body)
        end = _LENGTH.size + length
        message = json.loads(bytes(body[_LENGTH.size : end]))
    except (struct.error, ValueError) as error:
        raise WireError(f"no message: {error}") from error
    if end > len(body) or not isinstance(message, dict) or not isinstance(message.get("t"), str):
        raise WireError("a message without a type")
    return message, body[end:]
