"""What comes and goes: spells of trouble as pure functions of a key and a time, asked for in any order.

Time is cut into slots of `every` seconds. In a slot begins one spell or none, wherever its hash says; it lasts at most
`every`, so that what is so at a moment is known from two slots. Spells begin and end on whole seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tools.simweb.mix import GOLDEN

MASK = (1 << 64) - 1
_GOLDEN = int(GOLDEN)
Interval = tuple[float, float]
"""From the first second up to the second, which is not in it."""


def hashed(salt: int, *numbers: int) -> int:
    """mix.mix of one row: what a column's rows are, without the column."""
    x = _finished((numbers[0] + salt) & MASK)
    for number in numbers[1:]:
        x = _finished(((x ^ (number & MASK)) * _GOLDEN) & MASK)
    return x


def _finished(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fraction(x: int) -> float:
    """mix.uniform of one hash."""
    return (x >> 11) * 2.0**-53


def bell(x: int) -> float:
    """mix.normal of one hash."""
    parts = (x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48)
    return (parts / 65536.0 - 2.0) * 3.0**0.5


@dataclass(frozen=True)
class Spell:
    """A kind of trouble: `chance` that one begins in a slot of `every` seconds, and how long it lasts: log-uniform from
    `shortest` to `longest` seconds, which is at most `every`."""

    chance: float
    every: float
    shortest: float
    longest: float

    def __post_init__(self) -> None:
        if not (0 <= self.chance <= 1 and 0 < self.shortest <= self.longest <= self.every):
            raise ValueError(f"{self}: chance is from 0 to 1, and 0 < shortest <= longest <= every")

    def mean(self) -> float:
        """Mean duration in seconds."""
        if self.longest == self.shortest:
            return self.longest
        return (self.longest - self.shortest) / math.log(self.longest / self.shortest)

    def share(self) -> float:
        """The part of the time that lies in spells."""
        return self.chance * self.mean() / self.every

    def at(self, salt: int, key: int, at: float) -> tuple[float, float, int] | None:
        """(begin, end, hash) of the spell that covers a moment, the later one of two; None between spells."""
        if not self.chance:
            return None
        slot = math.floor(at / self.every)
        for number in (slot, slot - 1):
            found = self._of(salt, key, number)
            if found is not None and found[0] <= at < found[1]:
                return found
        return None

    def within(self, salt: int, key: int, since: float, until: float) -> Iterator[tuple[float, float, int]]:
        """Every spell that covers a moment of [since, until), in order of their slots."""
        if not self.chance:
            return
        for number in range(math.floor(since / self.every) - 1, math.floor(until / self.every) + 1):
            found = self._of(salt, key, number)
            if found is not None and found[0] < until and since < found[1]:
                yield found

    def _of(self, salt: int, key: int, slot: int) -> tuple[float, float, int] | None:
        x = hashed(salt, key, slot)
        if fraction(x) >= self.chance:
            return None
        begin = math.floor((slot + fraction(hashed(salt + 1, x))) * self.every)
        lasts = self.shortest * (self.longest / self.shortest) ** fraction(hashed(salt + 2, x))
        return begin, begin + max(1, math.floor(lasts)), hashed(salt + 3, x)


NEVER = Spell(0.0, 1.0, 1.0, 1.0)


def without(free: list[Interval], taken: list[Interval]) -> list[Interval]:
    """What is left of ordered intervals once others, in any order, are taken away."""
    for begin, end in sorted(taken):
        free = [part for one in free for part in _cut(one, begin, end)]
    return free


def _cut(one: Interval, begin: float, end: float) -> list[Interval]:
    if end <= one[0] or one[1] <= begin:
        return [one]
    return [part for part in ((one[0], begin), (end, one[1])) if part[0] < part[1]]


def after(first: list[Interval], seconds: float, until: float) -> list[Interval]:
    """The moments that come within `seconds` after a moment of `first`, that moment too, and before `until`."""
    merged: list[Interval] = []
    for begin, end in first:
        end = min(end + seconds, until)
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def both(left: list[Interval], right: list[Interval]) -> list[Interval]:
    """The moments in both of two ordered lists."""
    return [(max(a, c), min(b, d)) for a, b in left for c, d in right if max(a, c) < min(b, d)]
