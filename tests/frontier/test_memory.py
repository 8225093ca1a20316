"""I4: what a process freed is the system's again, holes in its heap included."""

from __future__ import annotations

import os

from irlcrawl.clock import VirtualClock
from irlcrawl.memory import TRIM_S, Trim

PIECE, PIECES = 40_000, 2000


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_i4_holes_between_what_lives_are_given_back() -> None:
    """Half a worker was freed memory that glibc kept."""
    clock = VirtualClock()
    trim = Trim(clock)
    pieces = [b"x" * PIECE for _ in range(PIECES)]
    kept = pieces[::2]
    before = resident()
    del pieces
    trim.now_and_then()  # too early
    assert not trim.due and resident() > before - PIECE * PIECES / 8
    clock.advance(TRIM_S)
    assert trim.due
    trim.now_and_then()
    assert not trim.due and resident() < before - PIECE * PIECES / 4
    assert len(kept) == PIECES // 2
