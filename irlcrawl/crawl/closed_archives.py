"""Closed and committed archives: the operator's command (archive.on_warc_closed) is run for each at least once.

From then on such a file is the operator's: it may be moved or deleted at any time, and resuming, snapshots and fsck
count it as moved away. A commit that closes archives says so (`closed/STREAM`: the first serial for which the command
has not run), so a crash before the command has run forgets none. Commands run one after the other on a thread of their
own.
"""

from __future__ import annotations

import logging
import os
import queue
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable

from drum import Edits

from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.worker.archive.warc import warc_files

PREFIX = "closed/"
COMMAND_SECONDS_MAX = 600.0
SAID_BYTES = 500
"""Bytes of a failed command's last words for the log."""

_log = logging.getLogger("irlcrawl.archive")


class ClosedWarcs:
    """Call `before` with each commit's edits, `after` when it is done, and `finish` when the crawl ends."""

    def __init__(self, state: CrawlState, command: str) -> None:
        self._state = state
        self._command = shlex.split(command)
        self.also: Callable[[str], None] | None = None
        self._told = {int(key.removeprefix(PREFIX)): serial for key, serial in state.catalog.items(PREFIX)}
        if self._command:
            self._from_now_on()
        self._due: list[tuple[int, int, str]] = []  # stream, serial, path: of the commit to come
        self._queue: queue.SimpleQueue[tuple[int, int, str] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, int, bool]] = queue.SimpleQueue()  # stream, serial, took note
        self._stuck: set[int] = set()  # streams one of whose archives could not be told: again at the next start
        self._asked: dict[int, int] = {}  # stream -> first serial not handed to the thread
        self._thread: threading.Thread | None = None
        self._all_told = True
        self._over = threading.Event()  # all were told, or nobody waits for it any longer

    def tell(self, also: Callable[[str], None]) -> None:
        """Tell `also`, too, of each archive from now on, on the thread of the command. Before the first commit."""
        self.also = also
        self._from_now_on()

    def _from_now_on(self) -> None:
        for stream, value in self._state.streams.items():
            self._told.setdefault(stream, value["warc"][0])

    def before(self, edits: Edits) -> None:
        """Put into a commit which archives it closes, and for which ones the command has run since the last commit."""
        if not self._command and self.also is None:
            return
        self._settle(edits)
        streams = self._state.streams
        known = {int(key.split("/")[1]) for key, _ in self._state.catalog.items("streams/")}  # also those that end now
        for stream in known | set(streams):
            self._told.setdefault(stream, 0)
        directory = os.fspath(self._state.job.warcs)
        for stream, told in list(self._told.items()):
            ended = stream not in streams
            until = None if ended else streams[stream]["warc"][0]
            if not ended and until <= max(told, self._asked.get(stream, 0)):
                continue
            there = [file for file in warc_files(self._state.files, directory, stream) if not file.open]
            closed = [file for file in there if file.serial >= told and (until is None or file.serial < until)]
            first = self._asked.get(stream, told)
            self._due += [(stream, file.serial, os.path.join(directory, file.name)) for file in closed
                          if file.serial >= first]  # fmt: skip
            if closed:
                edits.set(f"{PREFIX}{stream}", told)
                self._asked[stream] = closed[-1].serial + 1
            elif ended:
                edits.remove(f"{PREFIX}{stream}")
                self._told.pop(stream)
                self._asked.pop(stream, None)

    def _settle(self, edits: Edits) -> None:
        while not self._done.empty():
            stream, serial, took_note = self._done.get()
            if not took_note:
                self._stuck.add(stream)
            elif stream not in self._stuck:
                self._told[stream] = serial + 1
                edits.set(f"{PREFIX}{stream}", serial + 1)

    def after(self) -> None:
        """The commit is done: the command may run for its archives."""
        if self._due and self._thread is None:
            self._all_told = False
            self._thread = threading.Thread(target=self._run, name="on_warc_closed", daemon=True)
            self._thread.start()
        for one in self._due:
            self._queue.put(one)
        self._due.clear()

    def finish(self, seconds: float | None) -> bool:
        """Wait for the commands, at most `seconds` and until `leave`, and commit for which archives they ran; the next
        start runs them for the others. Returns whether there are no others."""
        if self._thread is None:
            return True
        self._queue.put(None)
        self._over.wait(seconds)
        all_told = self._all_told
        edits = Edits()
        self.before(edits)
        if edits:
            self._state.catalog.commit(edits)
        return all_told

    def leave(self) -> None:
        """Let `finish` wait no longer. Any thread."""
        self._over.set()

    def _run(self) -> None:
        while (one := self._queue.get()) is not None:
            stream, serial, path = one
            self._done.put((stream, serial, self._tell(path)))
        self._all_told = True
        self._over.set()

    def _tell(self, path: str) -> bool:
        """Run the command; returns whether it succeeded. If not, it is run again when the crawl is opened again."""
        if not os.path.exists(path):  # told before a crash, and moved already
            return True
        if self.also is not None:  # before the command, which may move the file
            self.also(path)
        if not self._command:
            return True
        try:
            # A file, not a pipe: nothing of what it says is held in memory, and what it leaves running holds up nobody.
            with tempfile.TemporaryFile() as said:
                done = subprocess.run(
                    [*self._command, path],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, timeout=COMMAND_SECONDS_MAX,
                )  # fmt: skip
                if done.returncode:
                    said.seek(-min(SAID_BYTES, said.seek(0, os.SEEK_END)), os.SEEK_END)
                    text = said.read(SAID_BYTES).decode(errors="replace").strip()
                    _log.warning("archive.on_warc_closed ended with %d for %s: %s", done.returncode, path, text)
        except (OSError, subprocess.TimeoutExpired) as error:
            _log.warning("archive.on_warc_closed failed for %s: %s", path, error)
            return False
        return done.returncode == 0
