"""How many files a process may open: as many as the system allows, and enough to begin.

A frontier and two workers had at most 280 open in hours at full speed. A worker that runs out of them later on is held
back (worker/fetch/http.py); a process that begins with too few fails somewhere inside its event loop.
"""

from __future__ import annotations

import resource

FILES_MIN = 512


def allow_all() -> int:
    """Raise the soft limit of this process, and of those it starts, to the hard one; returns that limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
