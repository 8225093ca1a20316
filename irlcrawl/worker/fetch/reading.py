"""What a worker reads, in memory that it shares with the frontier.

A page may hold its worker for good, or take all memory; then the worker says nothing any more. So the URL stands here
before its reading begins, and is what remains to tell which page it was.
"""

from __future__ import annotations

import contextlib
import mmap
import os

BYTES = 1 << 16
"""A longer URL is not noted; of a shorter one only the pages of memory that it needs are taken."""
_LENGTH = 4
_NOTHING = bytes(_LENGTH)


class Reading:
    """One URL, or none. `path`: where the worker finds it; empty if it is nobody else's."""

    def __init__(self, fd: int = -1) -> None:
        """fd: of a file of BYTES; -1: memory of one's own. OSError."""
        self._memory = mmap.mmap(fd, BYTES)
        self._fd = -1
        self.path = ""
        self._stays = False

    @classmethod
    def shared(cls) -> Reading:
        """For the frontier: `path` is good until `close`. OSError."""
        fd = os.memfd_create("irlcrawl-reading")
        try:
            os.ftruncate(fd, BYTES)
            made = cls(fd)
        except OSError:
            os.close(fd)
            raise
        made._fd, made.path = fd, f"/proc/{os.getpid()}/fd/{fd}"
        return made

    @classmethod
    def at(cls, path: str) -> Reading:
        """For the worker. Where there is no such file what it notes is nobody's."""
        with contextlib.suppress(OSError, ValueError):
            if path:
                with open(path, "r+b") as file:
                    return cls(file.fileno())
        return cls()

    def close(self) -> None:
        """The worker has found it. What it notes can still be read here."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def begin(self, url: bytes) -> None:
        if not self._stays and len(url) <= BYTES - _LENGTH:
            self._memory[_LENGTH : _LENGTH + len(url)] = url
            self._memory[:_LENGTH] = len(url).to_bytes(_LENGTH, "little")

    def end(self) -> None:
        if not self._stays:
            self._memory[:_LENGTH] = _NOTHING

    def broke(self, url: bytes) -> None:
        """Its reading ends this worker, which may read others before it is gone."""
        self.begin(url)
        self._stays = True

    @property
    def url(self) -> bytes:
        """What is being read; empty: nothing."""
        length = int.from_bytes(self._memory[:_LENGTH], "little")
        return self._memory[_LENGTH : _LENGTH + length]
