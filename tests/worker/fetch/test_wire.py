"""The wire: frames survive any cut, garbage is refused, both ends agree on the time."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.worker.fetch.wire import (
    FRAME_BYTES_MAX,
    AnchoredClock,
    Decoder,
    Message,
    WireError,
    clock_anchor,
    encode,
    open_wire,
)

_json = st.recursive(
    st.sampled_from([None, False, True, 2**80, "\ud800"])
    | st.integers(0, 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_messages = st.lists(
    st.builds(lambda rest: {**rest, "t": "x"}, st.dictionaries(st.text(max_size=3), _json, max_size=4))
)


@given(_messages, st.lists(st.integers(1, 40)))
def test_frames_survive_any_cut(messages: list[Message], cuts: list[int]) -> None:
    data = b"".join(map(encode, messages))
    decoder = Decoder()
    got: list[Message] = []
    while data:
        size = cuts.pop() if cuts else len(data)
        got += decoder.feed(data[:size])
        data = data[size:]
    assert got == messages


@pytest.mark.parametrize(
    "data",
    [
        (FRAME_BYTES_MAX + 1).to_bytes(4, "little"), b"\x02\x00\x00\x00{]", b"\x02\x00\x00\x00[]",
        b"\x02\x00\x00\x00{}", b'\x07\x00\x00\x00{"t":1}', b"\x01\x00\x00\x00\xff",
    ],
)  # fmt: skip
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        Decoder().feed(data)


class End:
    def __init__(self) -> None:
        self.got: list[Message] = []
        self.closed: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def on_close(self, error: Exception | None) -> None:
        self.closed.set_result(error)


def talk(body: Any) -> Any:
    async def run() -> Any:
        left, right = socket.socketpair()
        return await asyncio.wait_for(body(left, right), 10)

    return asyncio.run(run())


def test_what_came_before_the_owner_was_ready_is_delivered_in_order() -> None:
    async def body(left: socket.socket, right: socket.socket) -> None:
        right.sendall(encode({"t": "a"}) + encode({"t": "b"}))
        end = End()
        wire = None

        def on_message(message: Message) -> None:
            assert wire is not None, "a message before open_wire returned"
            end.got.append(message)
            if message["t"] == "c":
                wire.close()

        wire = await open_wire(left, on_message, end.on_close)
        right.sendall(encode({"t": "c"}))
        assert await end.closed is None
        assert [message["t"] for message in end.got] == ["a", "b", "c"]
        right.close()

    talk(body)


def test_what_was_sent_leaves_before_a_close() -> None:
    async def body(left: socket.socket, right: socket.socket) -> None:
        end, other = End(), End()
        reader = await open_wire(right, other.got.append, other.on_close)
        wire = await open_wire(left, end.got.append, end.on_close)
        for number in range(1000):
            wire.send({"t": "n", "n": number, "pad": "x" * 1000})
        await wire.drain()
        wire.send({"t": "last"})
        wire.close()
        await other.closed
        assert [message.get("n") for message in other.got] == [*range(1000), None]
        assert (await end.closed) is None
        reader.send({"t": "too late"})

    talk(body)


def test_a_wire_that_brings_garbage_closes_with_the_reason() -> None:
    async def body(left: socket.socket, right: socket.socket) -> None:
        end = End()
        await open_wire(left, end.got.append, end.on_close)
        right.sendall(encode({"t": "fine"}) + b"\xff\xff\xff\xff")
        assert isinstance(await end.closed, WireError)
        right.close()

    talk(body)


def test_an_anchored_clock_shows_the_other_process_time() -> None:
    clock = VirtualClock(5_000.0)
    anchored = AnchoredClock(*clock_anchor(clock))
    first = anchored.now()
    assert 5_000.0 <= first <= anchored.now()
