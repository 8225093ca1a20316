"""With which code a run ends, and which errors of the system mean a full disk, that has a code of its own."""

from __future__ import annotations

import errno
from enum import IntEnum


class ExitCode(IntEnum):
    """How a crawl ended; numbers that job runners know from Browsertrix, and two of our own (5, 6)."""

    DONE = 0
    FAILED = 1  # anything without a number of its own; the message says what
    DISK_FULL = 3
    CONFIG = 4  # configuration, command line or seeds are wrong; nothing was touched
    LOCKED = 5
    DAMAGED = 6  # the message names file and offset
    INTERRUPTED = 11  # stopped by a signal or `stop`; the same command goes on
    FORCED = 13  # by a second signal: what was in flight is dropped
    SIZE_LIMIT = 14  # limits.pages, limits.bytes or frontier.bytes_max
    TIME_LIMIT = 15  # limits.seconds or limits.wait_hours
    NOTHING_HAD = 16  # all is decided, and of no URL a page was had


def is_disk_full(error: BaseException) -> bool:
    """Whether the disk, or what this user may have of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
