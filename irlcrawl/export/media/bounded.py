"""Reading what comes from strangers in a process of its own, with bounds on CPU time and memory: a library in C cannot
be interrupted otherwise. The process answers as long as it is asked. What takes more than its bounds ends it, and it is
started anew.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

LENGTH_BYTES = 8


class Bounded:
    """The side that asks. Of one thread; each process that is forked starts a reader of its own."""

    def __init__(self, module: str, seconds_max: float, bytes_max: int) -> None:
        """module: calls `serve`. seconds_max: CPU-seconds for what is asked at a time. bytes_max: of the process's
        address space."""
        self._module, self.seconds_max, self.bytes_max = module, seconds_max, bytes_max
        self._process: subprocess.Popen[bytes] | None = None
        self._asker = 0

    def asked(self, what: bytes, body: bytes) -> dict[str, Any] | None:
        """What the process says of `body`; None if that ended it. what: one byte."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(what + len(body).to_bytes(LENGTH_BYTES) + body)
            process.stdin.flush()
            length = int.from_bytes(process.stdout.read(LENGTH_BYTES))
            answer = process.stdout.read(length)
        except BrokenPipeError:
            length, answer = 1, b""
        if not length or len(answer) < length:
            self.end()
            return None
        return dict(json.loads(answer))

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._asker != os.getpid() or self._process.poll() is not None:
            command = [sys.executable, "-m", self._module, str(self.seconds_max), str(self.bytes_max)]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._asker = os.getpid()
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        return self._process

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def serve(told: Callable[[bytes, bytes], dict[str, Any]]) -> None:
    """The process. told(what, body): the answer, as JSON has it."""
    seconds_max, bytes_max = float(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while what := sys.stdin.buffer.read(1):
        length = int.from_bytes(sys.stdin.buffer.read(LENGTH_BYTES))
        body = sys.stdin.buffer.read(length)
        signal.setitimer(signal.ITIMER_PROF, seconds_max)  # its signal ends the process
        answer = json.dumps(told(what, body)).encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(len(answer).to_bytes(LENGTH_BYTES) + answer)
        sys.stdout.buffer.flush()
