"""The bytes that drum moves, counted where it asks for them."""

from __future__ import annotations

from drum import Files
from drum.files import Data, Handle


class CountingFiles(Files):
    """The file system, with what went through it in bytes."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.bytes_written = 0

    def write(self, handle: Handle, data: Data) -> None:
        super().write(handle, data)
        self.bytes_written += memoryview(data).nbytes

    def pread(self, handle: Handle, length: int, offset: int) -> bytes:
        data = super().pread(handle, length, offset)
        self.bytes_read += len(data)
        return data

    def pread_into(self, handle: Handle, buffer: memoryview, offset: int) -> int:
        got = super().pread_into(handle, buffer, offset)
        self.bytes_read += got
        return got
