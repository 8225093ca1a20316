"""Headless Chromium, driven over its DevTools pipe: messages of JSON, each ended by a zero byte."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from typing import Any

OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --hide-scrollbars --remote-debugging-pipe"
)
READ, WRITE = 3, 4
"""The descriptors at which Chromium reads and writes messages."""


class Browser:
    """One window. Its waits are ended by the test's timeout."""

    def __init__(self, program: str, hosts: dict[str, str], width: int = 1000, height: int = 800) -> None:
        """hosts: name -> address; no other name is resolved."""
        self._profile = tempfile.TemporaryDirectory(prefix="chromium.")
        rules = ",".join([*(f"MAP {name} {address}" for name, address in hosts.items()), "MAP *.test ~NOTFOUND"])
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def pipes() -> None:
            high = os.dup(to_read), os.dup(to_write)
            for one, at in zip(high, (READ, WRITE)):
                os.dup2(one, at)

        self._process = subprocess.Popen(
            [program, *OPTIONS.split(), f"--window-size={width},{height}", f"--host-resolver-rules={rules}",
             f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=pipes, pass_fds=(READ, WRITE), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._waiting, self._number, self._session = b"", 0, None
        self.version = self.call("Browser.getVersion")["product"]
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def open(self, url: str) -> None:
        """Returns when the page and what it needs are loaded."""
        told = self.call("Page.navigate", url=url)
        assert not told.get("errorText"), (url, told)
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def ask(self, script: str) -> Any:
        """The value of an expression on the page; of a promise, what it brings."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def picture(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._message()
            if told.get("id") == self._number:
                assert "error" not in told, (method, told)
                return dict(told["result"])

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            more = os.read(self._from, 1 << 20)
            assert more, "Chromium ended"
            self._waiting += more
        message, _, self._waiting = self._waiting.partition(b"\0")
        return dict(json.loads(message))
