"""Which payloads the WARC file that is being written holds already, as far as a table of fixed size remembers.

A revisit record refers to a record of its own file alone: the file can be moved, deleted and replayed without another
one, and a unit that no harvest covers yet is read again with its payload.
"""

from __future__ import annotations

import numpy as np

PLACES_BITS = 17
"""16 bytes a place: 2 MiB for the last 100,000 payloads or so."""
KEY_BYTES = 8


class Held:
    """Digest -> offset of the record in the open file: direct-mapped, so a payload may be forgotten. What is found is
    no proof, for a key is the beginning of a SHA-1: the record that lies there says what it holds."""

    def __init__(self, bits: int = PLACES_BITS) -> None:
        self._cells = np.zeros((1 << bits, 2), np.uint64)
        self._view = self._cells.reshape(-1).data
        self._mask = (1 << bits) - 1

    def find(self, sha1: bytes) -> int | None:
        """The offset of the record that should have a payload of this digest."""
        key = int.from_bytes(sha1[:KEY_BYTES], "big")
        at = (key & self._mask) << 1
        return self._view[at + 1] if self._view[at] == key and key else None

    def put(self, sha1: bytes, offset: int) -> None:
        key = int.from_bytes(sha1[:KEY_BYTES], "big")
        at = (key & self._mask) << 1
        self._view[at], self._view[at + 1] = key, offset
