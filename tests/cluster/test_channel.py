"""Each message once and in order, over a carrier that loses, doubles, reorders and delays; and what a side believes of
the other's life and clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench._sim.virtual import VirtualLoop
from irlcrawl.base.clock import VirtualClock
from irlcrawl.cluster.channel import LIFE_S, WINDOW_BYTES, Channel
from irlcrawl.worker.fetch.wire import WireError
from tests.cluster.virtual_cluster import Weather, pair

SKEW_S = 1e6
"""The two sides' clocks have nothing in common."""


class Talk:
    """Two channels under one virtual clock."""

    def __init__(self, weather: Weather) -> None:
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock, 0.0)
        self.cut = False
        ours, theirs = pair(weather, lambda: self.cut)
        self.came: list[list[tuple[int, bytes]]] = [[], []]
        self.sides = [
            Channel(ours, self.clock.now, lambda *what: self._came(0, *what)),
            Channel(theirs, lambda: self.clock.now() + SKEW_S, lambda *what: self._came(1, *what)),
        ]

    def _came(self, side: int, message: dict[str, Any], data: memoryview) -> None:
        self.came[side].append((message["n"], bytes(data)))

    def run(self, talk: Any) -> None:
        async def beats() -> None:
            while True:
                for side in self.sides:
                    side.beat()
                await asyncio.sleep(0.5)

        async def both() -> None:
            beating = asyncio.ensure_future(beats())
            try:
                await talk()
            finally:
                beating.cancel()

        try:
            self.loop.run_until_complete(both())
        finally:
            self.loop.close()

    async def silence(self) -> None:
        while not all(side.idle for side in self.sides):
            await asyncio.sleep(1.0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1]), st.binary(max_size=20), st.floats(0, 3)), max_size=30),
    st.floats(0, 0.6), st.floats(0, 1), st.floats(0, 5), st.integers(0, 2**32),
)  # fmt: skip
def test_each_message_comes_once_and_in_order(
    said: list[tuple[int, bytes, float]], lost: float, doubled: float, delay_s: float, seed: int
) -> None:
    talk = Talk(Weather(lost, doubled, delay_s, seed))

    async def speak() -> None:
        for number, (side, data, pause) in enumerate(said):
            talk.sides[side].send({"t": "x", "n": number}, data)
            await asyncio.sleep(pause)
        await talk.silence()

    talk.run(speak)
    for side in (0, 1):
        assert talk.came[1 - side] == [(n, data) for n, (by, data, _) in enumerate(said) if by == side]


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 0.5), st.floats(0, 8), st.integers(0, 2**32))
def test_who_counts_its_life_by_echoes_ends_before_the_other_gives_it_up(
    lost: float, delay_s: float, seed: int
) -> None:
    """Whatever is late: from the moment of a cut on, packets that are under way included."""
    talk = Talk(Weather(lost, 0.3, delay_s, seed))

    async def watch() -> None:
        await asyncio.sleep(60.0)
        talk.cut = True
        await asyncio.sleep(60.0)

    talk.run(watch)
    node, frontier = talk.sides
    assert node.echoed_at + LIFE_S <= frontier.heard_at - SKEW_S + LIFE_S


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([0.0, 0.5]), st.floats(0, 8), st.integers(0, 2**32))
def test_the_time_that_a_packet_tells_is_never_behind_the_clock_it_was_told_by(
    lost: float, delay_s: float, seed: int
) -> None:
    talk = Talk(Weather(lost, 0.3, delay_s, seed))

    async def ask() -> None:
        for _ in range(40):
            await asyncio.sleep(1.0)
            if (told := talk.sides[0].told) is not None:
                theirs, ours = told
                offset = theirs - ours
                assert offset + 1e-6 >= SKEW_S
                if not lost:
                    assert offset <= SKEW_S + delay_s + 2.5 + 1e-6, "ahead of it by a way and a beat at most"

    talk.run(ask)


def test_garbage_is_refused() -> None:
    talk = Talk(Weather())
    channel = talk.sides[0]
    for packet in (
        b"",
        b"x" * 31,
        b"\1" + bytes(7) + bytes(24) + b"\xff\xff\xff\xff",
        b"\1" + bytes(31) + b"\2\0\0\0[]",
    ):
        with pytest.raises(WireError):
            channel._carrier.on_packet(packet)  # type: ignore[attr-defined]
        channel._expected, channel._early = 1, {}
    talk.loop.close()


def test_files_wait_when_much_is_under_way() -> None:
    talk = Talk(Weather())
    told = []

    async def ship() -> None:
        talk.cut = True
        talk.sides[0].on_room = lambda: told.append(talk.sides[0].room)
        while talk.sides[0].room:
            talk.sides[0].send({"t": "x", "n": 0}, bytes(1 << 20))
        assert not told
        talk.cut = False
        await talk.silence()

    talk.run(ship)
    assert told == [True] and len(talk.came[1]) == WINDOW_BYTES >> 20
