"""Where the processor time of this process goes, by file: sampled beside it.

A thread looks at all others every few milliseconds. What the kernel says a thread has used since the last look counts
for the innermost file of ours on its stack. A look waits for the interpreter's lock, so the shares are about right, and
no more.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
LOOK_S = 0.004
SWITCH_S = 0.0005
"""So soon a thread gives up the interpreter's lock to one that waits: else a look would come where the lock is free."""


class Parts(threading.Thread):
    """`seconds`: processor time by (thread's name, file)."""

    def __init__(self) -> None:
        super().__init__(name="parts", daemon=True)
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self.own = 0.0  # of this thread
        self._used: dict[int, float] = {}
        self._over = threading.Event()

    def run(self) -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        try:
            while not self._over.wait(LOOK_S):
                self._look()
        finally:
            sys.setswitchinterval(before)

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _look(self) -> None:
        # The frames go before anything lets other threads on: what they hold would be in use when its owner changes it.
        files = {thread: _file_of(frame) for thread, frame in sys._current_frames().items()}
        for thread in threading.enumerate():
            used = _used_s(thread.native_id)
            spent = used - self._used.get(thread.native_id or 0, used)
            self._used[thread.native_id or 0] = used
            if thread is self:
                self.own += spent
            elif spent:
                self.seconds[thread.name.partition("_")[0], files.get(thread.ident or 0, "-")] += spent


def _used_s(thread: int | None) -> float:
    try:
        return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def _file_of(frame: FrameType | None) -> str:
    """The innermost file of the project on a stack; "-": the event loop's own, or none."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(str(ROOT)) and "/.venv/" not in name and not name.startswith(str(ROOT / "bench")):
            return name[len(str(ROOT)) + 1 :]
        frame = frame.f_back
    return "-"
