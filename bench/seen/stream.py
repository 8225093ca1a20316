"""The stream every seen-check gets: a crawl's links as 64-bit keys, made before anybody's clock runs.

Link i is a new URL with probability 0.1, else a repeat of URL number ⌊count·u¹⁰⌋ of those so far, u uniform in [0, 1):
a few URLs are everywhere and most are rare, as on the web. With `uniform` repeats it is number ⌊count·u⌋, which no
cache helps with. Keys are splitmix64 of the URL's number, so the keys stored are always those of 0 … count-1: what a
system must find is known without asking another. With `by_site` they go by site, as a crawl's (irlcrawl/base/keys.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from drum import Ragged

import numpy as np
from numpy.typing import NDArray

from irlcrawl.base.keys import SITE_BITS

Keys = NDArray[np.uint64]
KeysOf = Callable[[Keys], Keys]
"""A key for each URL's number."""

BATCH = 1 << 18
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_AUX = b"http://www.site-00000.example.org/archive/2007/06/page-0000000000.html"
_HOST_AT, _PAGE_AT = _AUX.index(b"00000"), _AUX.index(b"0000000000")


@dataclass(frozen=True)
class Links:
    """A batch of the stream. new: how many of its keys were never there before; checksum: xor of those keys."""

    keys: Keys
    new: int
    checksum: int
    urls: Ragged | None = None


def splitmix64(numbers: Keys) -> Keys:
    """The splitmix64 output function: a bijection of u8[n]."""
    z = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def by_site(sites: int, zipf: bool) -> KeysOf:
    """Keys of URLs of so many sites, all of one size, or the n-th largest with 1/n of the largest; 0: of none."""
    if not sites:
        return splitmix64
    low, site_salt = np.uint64(64 - SITE_BITS), np.uint64(1 << 62)

    def keys(numbers: Keys) -> Keys:
        drawn = splitmix64(numbers ^ np.uint64(1 << 63))
        if zipf:
            site = (np.float64(sites + 1) ** (drawn.astype(np.float64) / 2.0**64)).astype(np.uint64)
        else:
            site = drawn % np.uint64(sites)
        return splitmix64(site ^ site_salt) >> low << low | splitmix64(numbers) >> np.uint64(SITE_BITS)

    return keys


def stream(
    links: int, count: int, seed: int, *, duplicates: float = 0.9, uniform: bool = False, aux_bytes: int = 0,
    keys_of: KeysOf = splitmix64,
) -> Iterator[Links]:  # fmt: skip
    """`links` links in batches, starting with URLs 0 … count-1 known; duplicates: the share of repeats."""
    random = np.random.default_rng(seed)
    for start in range(0, links, BATCH):
        size = min(BATCH, links - start)
        new = random.random(size) >= duplicates
        if not count:
            new[0] = True  # nothing to repeat yet
        counts = count + np.cumsum(new)
        share = random.random(size)
        if not uniform:
            share = ((share * share) ** 2 * share) ** 2  # u^10
        numbers = np.where(new, counts - 1, (counts * share).astype(np.int64)).astype(np.uint64)
        keys = keys_of(numbers)
        count = int(counts[-1])
        urls = urls_of(numbers, aux_bytes) if aux_bytes else None
        yield Links(keys, int(np.count_nonzero(new)), checksum(keys[new]), urls)


def known(count: int, keys_of: KeysOf = splitmix64) -> Iterator[Keys]:
    """Keys of URLs 0 … count-1, each once, in the order of their numbers."""
    for start in range(0, count, BATCH):
        yield keys_of(np.arange(start, min(start + BATCH, count), dtype=np.uint64))


def checksum(keys: Keys) -> int:
    """The same for any order of the same keys."""
    return int(np.bitwise_xor.reduce(keys))


def urls_of(numbers: Keys, length: int) -> Ragged:
    """A URL of `length` bytes for each number: one of 2²⁰ hosts, a page's name of 40 bits, the rest the same in all;
    longer ones are padded with a query."""
    row = np.frombuffer((_AUX[:-5] + b"?ref=" * length)[: max(length - 5, 0)] + b".html", np.uint8)
    table = np.repeat(row[None, -length:], len(numbers), axis=0)
    for at, width, source in ((_HOST_AT, 5, splitmix64(numbers)), (_PAGE_AT, 10, numbers)):
        for i in range(width):
            if at + i < length:
                table[:, at + i] = _HEX[((source >> np.uint64(4 * (width - 1 - i))) & np.uint64(15)).astype(np.int64)]
    return Ragged(table.reshape(-1), np.arange(len(numbers) + 1, dtype=np.int64) * length)
