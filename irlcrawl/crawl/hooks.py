"""Calling the operator: a command, a web address, or both are told of what happens to a crawl ([hooks]).

An event is one JSON object. An event that cannot be told is told again later, and then goes to logs/hooks.undelivered,
a line each, from where it can be told by hand. All of it happens on a thread of its own: a crawl waits for it for a
moment at its end, and never else.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import shlex
import subprocess
import threading
from contextlib import suppress
from typing import Any

from drum import Files

from irlcrawl.base.clock import Clock
from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import Hooks as Keys

QUEUED_MAX = 1000
"""More events than this at once are not told, but written down."""
SAID_BYTES = 300
LAST_SECONDS = 5.0
"""So long a crawl that ends waits for the answer to an event that is being told."""

_log = logging.getLogger("irlcrawl.hooks")


class Hooks:
    """`emit` from any thread; `finish` when the crawl ends."""

    def __init__(self, job: JobDir, keys: Keys, clock: Clock) -> None:
        self._job, self._clock, self._files = job, clock, Files()
        self.keys = keys
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(QUEUED_MAX)
        self._thread: threading.Thread | None = None
        self._telling: dict[str, Any] | None = None
        self._leaving = threading.Event()
        self._writing = threading.Lock()

    def wants(self, event: str) -> bool:
        return bool(self.keys.command or self.keys.webhook) and event in self.keys.events

    def emit(self, event: str, **facts: Any) -> None:
        """Tell of it soon, if the operator wants to hear of such events."""
        if not self.wants(event):
            return
        with self._writing:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hooks", daemon=True)
                self._thread.start()
        told = self._event(event, facts)
        try:
            self._queue.put_nowait(told)
        except queue.Full:
            self._give_up(told, "too many events at once")

    def finish(self, seconds: float) -> None:
        """Wait so long for what was emitted, and then for what is being told; the rest is written down."""
        if self._thread is None:
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        self._thread.join(seconds)
        self._leaving.set()
        self._thread.join(min(self.keys.seconds, LAST_SECONDS))
        if self._thread.is_alive() and (telling := self._telling) is not None:
            self._give_up(telling, "no answer before the crawl ended")
        with suppress(queue.Empty):
            while True:
                if (told := self._queue.get_nowait()) is not None:
                    self._give_up(told, "the crawl ended")

    def _event(self, event: str, facts: dict[str, Any]) -> dict[str, Any]:
        return {"event": event, "job": os.fspath(self._job.path), "time": round(self._clock.now(), 3), **facts}

    def _run(self) -> None:
        while (told := self._queue.get()) is not None:
            self._telling = told
            self._deliver(told)
            self._telling = None

    def _deliver(self, told: dict[str, Any]) -> None:
        keys = self.keys
        left = [way for way, where in ((self._command, keys.command), (self._webhook, keys.webhook)) if where]
        wait, why = keys.retry_seconds, ""
        for attempt in range(keys.retries + 1):
            if attempt and self._leaving.wait(wait):
                break
            wait *= 2 if attempt else 1
            failed = [(way, said) for way in left if (said := way(told)) is not None]
            left = [way for way, _ in failed]
            why = "; ".join(said for _, said in failed)
            if not left:
                return
        self._give_up(told, why)

    def _command(self, told: dict[str, Any]) -> str | None:
        """Run the command with the event's name, and the event on its standard input; what went wrong, or None."""
        try:
            done = subprocess.run(
                [*shlex.split(self.keys.command), told["event"]], input=json.dumps(told).encode() + b"\n",
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=self.keys.seconds,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"hooks.command: {error}"
        if done.returncode == 0:
            return None
        said = done.stderr[-SAID_BYTES:].decode(errors="replace").strip()
        return f"hooks.command ended with exit code {done.returncode}" + (f": {said}" if said else "")

    def _webhook(self, told: dict[str, Any]) -> str | None:
        """POST the event; what went wrong, or None."""
        import urllib.request  # loaded only where it is used: it brings an HTTP client and mail headers

        request = urllib.request.Request(
            self.keys.webhook, json.dumps(told).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=self.keys.seconds):
                return None
        except (OSError, ValueError) as error:  # an HTTPError and a URLError are OSErrors
            return f"hooks.webhook: {error}"

    def _give_up(self, told: dict[str, Any], why: str) -> None:
        _log.warning("the event %s could not be delivered (%s); see %s", told["event"], why, self._job.undelivered)
        line = json.dumps({**told, "undelivered": why}).encode() + b"\n"
        try:
            with self._writing:
                handle = self._files.append(self._job.undelivered)
                try:
                    self._files.write(handle, line)
                finally:
                    self._files.close(handle)
        except OSError as error:
            _log.warning("%s: %s", self._job.undelivered, error)
