"""A frontier's side of the wire for tests: starts a real worker process and talks to it, blocking."""

from __future__ import annotations

import dataclasses
import itertools
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drum import Batch, Files, Section, Segment

from irlcrawl.base.clock import SystemClock, since_boot
from irlcrawl.base.keys import priority_of
from irlcrawl.base.names import Names
from irlcrawl.base.rows import Carried, Robots, Source
from irlcrawl.config.keys import Config
from irlcrawl.worker.archive.known import Known
from irlcrawl.worker.fetch.lease import urls_alike
from irlcrawl.worker.fetch.wire import AnchoredClock, Decoder, Message, clock_anchor, encode

SEED = 12345
KEYS = Names(SEED)
PATIENCE_SECONDS = 120.0  # to end what hangs; under a load of ten the largest tables take half a minute
ALLOW = {"state": int(Robots.ALLOW), "until": 9e9, "rules": None, "crawl_delay": 0.0}
UNKNOWN = {"state": int(Robots.UNKNOWN), "until": 0.0, "rules": None, "crawl_delay": 0.0}


def crawl_config() -> Config:
    config = Config()
    config.crawl.user_agent = "Testbot/1.0 (+https://example.org/bot; bot@example.org)"
    config.scope.kind = "any"
    config.politeness.gap_host_factor = 0.0
    config.frontier.harvest_seconds = 1000.0
    return config


class Driver:
    """One worker. Use as a context manager; leaving it closes the wire and reaps the process."""

    def __init__(
        self, job: Path, config: Config, stream: int = 0, entries: tuple[str, ...] = ("any",),
        ahead_seconds: float = 0.0, **hello: Any,
    ) -> None:  # fmt: skip
        """ahead_seconds: by so much is the crawl's clock ahead of the machine's; hello: more of the first message."""
        for name in ("state", "warcs"):
            (job / name).mkdir(parents=True, exist_ok=True)
        self.job, self.config, self.stream = job, config, stream
        self.clock = AnchoredClock(SystemClock().now() + ahead_seconds, since_boot())
        self._ids = itertools.count(1)
        self._row = 0
        self._decoder = Decoder()
        self._inbox: list[Message] = []
        self.sock, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "irlcrawl.worker.fetch.worker", "--fd", str(theirs.fileno()), "--job", str(job)],
            pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()},
        )  # fmt: skip
        theirs.close()
        self.send({
            "t": "hello", "config": dataclasses.asdict(config), "seed": SEED, "scope_version": len(entries),
            "scope_entries": list(entries), "stream": stream, "crawl": "test", "clock": clock_anchor(self.clock),
            **hello,
        })  # fmt: skip

    charge = True
    """What is said to a worker that had no response: held against the host (True), or our own outage."""

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stderr is not None
            sys.stderr.write(self.process.stderr.read().decode())
            self.process.stderr.close()

    def send(self, message: Message) -> None:
        self.sock.sendall(encode(message))

    def receive(self, kind: str) -> Message:
        """The next message of a kind; others stay for later. EOFError when the worker closed the wire."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            for number, message in enumerate(self._inbox):
                if message["t"] == kind:
                    return self._inbox.pop(number)
            readable, _, _ = select.select([self.sock], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"no {kind!r} within {PATIENCE_SECONDS} s; there were {self._inbox}"
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError(f"the worker closed the wire before {kind!r}; there were {self._inbox}")
            for message in self._decoder.feed(data):
                if message["t"] == "doubt":
                    self.send({**message, "charge": self.charge})
                else:
                    self._inbox.append(message)

    def visit(
        self, origin: str, targets: list[str], address: str = "127.0.0.1", gap: float = 0.0,
        robots: dict[str, Any] | None = None, depth: int = 0, source: int = Source.SEED, attempt: int = 0,
        not_after: float | None = None, known: Sequence[Known] | None = None, **more: Any,
    ) -> int:  # fmt: skip
        """Lease `targets` of `origin` (scheme://host:port). Returns the visit's id."""
        scheme, _, authority = origin.partition("://")
        host, _, port = authority.partition(":")
        texts = [origin + target for target in targets]
        same = Carried(depth=depth, source=source, priority=priority_of(depth, source), attempt=attempt)
        urls = urls_alike(7, self._row, [KEYS.url_key(text.encode()) for text in texts], texts, same, known)
        self._row += len(texts)
        number = next(self._ids)
        self.send({
            "t": "visit", "visit": number, "host": host, "scheme": scheme, "port": int(port or 80), "address": address,
            "host_key": KEYS.of_origin(origin.encode())[1], "gap": gap, "robots": robots or ALLOW, "scope": 1,
            "urls": urls, "not_after": self.clock.now() + 30.0 if not_after is None else not_after, **more,
        })  # fmt: skip
        return number

    def end(self) -> Message:
        return self.receive("end")

    def harvest(self) -> Harvested:
        """Asks for a harvest and reads it. KeyError-free: every section is there, empty or not."""
        self.send({"t": "harvest"})
        message = self.receive("harvest")
        assert message["file"] is not None, "nothing was harvested"
        return Harvested(self.job, message)

    def crawl(self, *visit: Any, **options: Any) -> tuple[Message, Harvested]:
        """One visit from lease to harvest."""
        self.visit(*visit, **options)
        return self.end(), self.harvest()

    def stop(self, how: str = "stop") -> int:
        """Stops the worker; its exit code. Messages on the way stay in the inbox."""
        self.send({"t": how})
        self.receive("bye")
        return self.process.wait(PATIENCE_SECONDS)


class Harvested:
    """A harvest file: `h.links` and so on are lists of dicts, `h.meta` the counters and position."""

    def __init__(self, job: Path, message: Message) -> None:
        self.message = message
        self.segment = Segment.open(Files(), job / "state" / message["file"])
        self.meta = self.segment.sections["outcomes"].meta

    def __getattr__(self, name: str) -> list[dict[str, Any]]:
        section: Section = self.segment.sections[name]
        batch = Batch.concat([Batch.empty(section.schema), *section.scan()])
        columns = {column: batch[column].tolist() for column in section.schema}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
