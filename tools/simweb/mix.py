"""Numbers out of numbers: the keyed hash that every property of the web comes from, and the distributions over it.

Everything takes and gives columns. `uniform` uses the upper 53 bits of a hash, `lot` the lower 16, so one hash may
serve both.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

U8s: TypeAlias = NDArray[np.uint64]
I8s: TypeAlias = NDArray[np.int64]
F8s: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = (np.uint64(s) for s in (30, 27, 31, 11))


def finish(x: U8s) -> U8s:
    """The finaliser of splitmix64, a bijection; overwrites x, which must be the caller's own."""
    x ^= x >> _S30
    x *= _M1
    x ^= x >> _S27
    x *= _M2
    x ^= x >> _S31
    return x


_M52 = np.uint64((1 << 52) - 1)
_M1_INVERSE52 = np.uint64(pow(int(_M1), -1, 1 << 52))
_S26 = np.uint64(26)


def finish52(x: U8s) -> U8s:
    """A bijection of the last 52 bits, mixed with the 12 before them, which stay."""
    high = x & ~_M52
    x = (x & _M52) ^ (high >> np.uint64(32))
    for _ in range(2):
        x ^= x >> _S26
        x = x * _M1 & _M52
    x ^= x >> _S26
    return high | x


def take_prefix(prefixes: U8s, x: U8s) -> U8s:
    """12 bits of the one, then 52 of the other."""
    return (prefixes & ~_M52) | (x & _M52)


def unfinish52(x: U8s) -> U8s:
    """The inverse of `finish52`."""
    high, x = x & ~_M52, x & _M52
    for _ in range(2):
        x ^= x >> _S26
        x = x * _M1_INVERSE52 & _M52
    x ^= x >> _S26
    return high | x ^ (high >> np.uint64(32))


def mix(salt: int, *columns: Array) -> U8s:
    """A hash of the rows of integer columns under a salt (a seed and a purpose: `salted`)."""
    first, *rest = columns
    x = finish(first.astype(np.uint64) + np.uint64(salt))
    for column in rest:
        x ^= column.astype(np.uint64, copy=False)
        x *= GOLDEN
        finish(x)
    return x


@cache
def salted(seed: int, purpose: str) -> int:
    """The salt of one purpose of a web: FNV-1a over both, so that it never depends on Python's own hash."""
    state = 0xCBF29CE484222325
    for byte in f"{seed}/{purpose}".encode():
        state = (state ^ byte) * 0x100000001B3 % (1 << 64)
    return state


def uniform(x: U8s) -> F8s:
    """In [0, 1), from the upper 53 bits."""
    return (x >> _S11).astype(np.float64) * 2.0**-53


def lot(x: U8s) -> NDArray[np.uint16]:
    """In [0, 65536), from the lower 16 bits."""
    return x.astype(np.uint16)


def lots(share: float) -> int:
    """How many of the 65,536 lots make up a share."""
    return round(share * 65536)


def below(u: F8s, bound: Array | int) -> I8s:
    """A whole number uniform in [0, bound)."""
    return np.minimum((u * bound).astype(np.int64), bound - 1)


def normal(x: U8s) -> F8s:
    """Nearly standard normal: the sum of four uniform 16-bit parts of x, within 3.5 either way."""
    parts = sum(((x >> np.uint64(s)) & np.uint64(0xFFFF)).astype(np.float64) for s in (0, 16, 32, 48))
    return (np.asarray(parts) / 65536.0 - 2.0) * 3.0**0.5


class Zipf:
    """Ranks 0..n-1 with P(r) = ((r+2)^(1-a) - (r+1)^(1-a)) / ((n+1)^(1-a) - 1): a power law that inverts in closed
    form. 0 < a, a != 1."""

    def __init__(self, n: int, exponent: float) -> None:
        self.n = n
        self.power = 1.0 - exponent
        self.span = (n + 1.0) ** self.power - 1.0

    def rank(self, u: F8s) -> I8s:
        ranks = ((u * self.span + 1.0) ** (1.0 / self.power)).astype(np.int64) - 1
        return np.minimum(ranks, self.n - 1)

    def probability(self, ranks: Array) -> F8s:
        low = ranks + 1.0
        return np.asarray(((low + 1.0) ** self.power - low**self.power) / self.span)


def skewed(u: F8s, n: Array, skew: float) -> I8s:
    """Of n pages one, the first ones most: floor(n * u^skew)."""
    power = u * u * u if skew == 6.0 else u ** (skew / 2.0)  # products cost a twentieth of a power
    power = power * power
    return np.minimum((power * n).astype(np.int64), n - 1)


def skewed_probability(index: Array, n: Array, skew: float) -> F8s:
    """P(skewed = index)."""
    return np.asarray(((index + 1.0) / n) ** (1.0 / skew) - (index / n) ** (1.0 / skew))
