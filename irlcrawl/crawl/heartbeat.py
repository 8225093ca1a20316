"""Telling systemd that a crawl is ready, alive, and about to stop (sd_notify(3)): a datagram to NOTIFY_SOCKET. Without
that variable nothing happens."""

from __future__ import annotations

import os
import socket

from irlcrawl.base.clock import Clock


class Heartbeat:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = os.environ.get("WATCHDOG_USEC", "") if ours else ""
        self._every = int(usec) / 1e6 / 3 if usec.isdecimal() else 0.0
        self._due = 0.0

    def say(self, text: str) -> None:
        """Lines such as READY=1. Whether anybody hears it makes no difference."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), address)
        except OSError:
            pass

    def beat(self) -> None:
        """As often as the loop passes: it is alive."""
        if self._every and (now := self._clock.now()) >= self._due:
            self._due = now + self._every
            self.say("WATCHDOG=1")
