"""Keys of byte strings, for who has none of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from drum.kernels import Keys
from drum.library.checks import checked_key_bits

import numpy as np
import xxhash


def keys_of(rows: Sequence[bytes], seed: int = 0, key_bits: int = 64) -> Keys:
    """xxh3 keys of byte strings, u8[n], or u8[n, 2] of 128 bits; give a store of hostile strings a secret seed."""
    if checked_key_bits(key_bits) == 128:
        data = b"".join(map(xxhash.xxh3_128_digest, rows, repeat(seed)))
        return np.frombuffer(data, ">u8").astype(np.uint64).reshape(len(rows), 2)
    return np.fromiter(map(xxhash.xxh3_64_intdigest, rows, repeat(seed)), dtype=np.uint64, count=len(rows))
