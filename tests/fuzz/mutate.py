"""Bytes out of bytes: what a seed becomes after a few changes."""

from __future__ import annotations

import random
from collections.abc import Sequence

ODD = [
    b"\0", b"\xff", b"\x80", b"\r", b"\n", b"\r\n", b" ", b"\t", b"<", b">", b"'", b'"', b"&", b"&#", b"%", b"=",
    b"%25", b";", b":", b"/", b"//", b"\\", b"#", b"?", b"-", b"--", b"-->", b"<!--", b"]]>", b"0",
    b"9" * 30, b"-1", b"1e308",
    b"nan", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xc3", b"[", b"]", b"[" * 2000, b"{",
    b"}", b"\x1b",
    b"a" * 300, b" " * 300, b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"xn--", b"..", b"%2e%2e/", b"@", b"null", b"*",
]  # fmt: skip
BYTES_MAX = 1 << 16


def mutated(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """One of the seeds after one to eight changes; at most BYTES_MAX."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 5, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 16, 64, 1000)))
        match rng.randrange(8):
            case 0:
                data[at:at] = rng.choice(ODD)
            case 1:
                del data[at:end]
            case 2:
                data[at:end] = rng.choice(ODD)
            case 3:
                data[at:at] = data[at:end] * rng.choice((1, 2, 10, 100))
            case 4 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 5 if at < len(data):
                data[at] = rng.randrange(256)
            case 6:
                other = rng.choice(seeds)
                start = rng.randrange(len(other) + 1)
                data[at:at] = other[start : start + rng.choice((4, 40, 400))]
            case _:
                start = rng.randrange(len(data) + 1)
                data[at:at], data[start:end] = data[start:end], b""
        del data[BYTES_MAX:]
    return bytes(data)
