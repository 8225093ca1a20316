"""PDF, by option (--pdf). A PDF is a program in a language of its own, and comes from strangers: so it is read in a
process of its own (pdf_reader.py), whose memory and CPU time are bounded. Of a PDF that kills it nothing is known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from irlcrawl.export.media.content import Content, Link, collapsed
from irlcrawl.export.media.extras import needed
from irlcrawl.export.media.pdf_reader import ABOUT, LENGTH_BYTES, LINKS, TEXT

ELEMENT = "pdf"
SECONDS_MAX = 10.0
"""CPU-seconds a PDF."""
BYTES_MAX = 1 << 30
"""Of the process's address space."""

_process: subprocess.Popen[bytes] | None = None


def read(body: bytes, codec: str) -> Content:
    told = _asked(ABOUT, body)
    return Content(
        title=collapsed(told.get("title")), description=collapsed(told.get("subject")), lang=told.get("lang", ""),
        links=told.get("links"),
    )  # fmt: skip


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    found = _asked(LINKS, body).get("links", [])
    return "", (Link(href.strip(), collapsed(words), "", ELEMENT) for href, words in found)


def text(body: bytes, codec: str) -> str:
    return str(_asked(TEXT, body).get("text", "")).strip()


def _asked(what: bytes, body: bytes) -> dict[str, Any]:
    """What the process says of a PDF; nothing if that ended it. JobError if the library is not installed."""
    global _process
    needed("pypdfium2", "--pdf")
    if _process is None or _process.poll() is not None:
        command = [sys.executable, "-m", "irlcrawl.export.media.pdf_reader", str(SECONDS_MAX), str(BYTES_MAX)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        _process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
    assert _process.stdin is not None and _process.stdout is not None
    try:
        _process.stdin.write(what + len(body).to_bytes(LENGTH_BYTES) + body)
        _process.stdin.flush()
        length = int.from_bytes(_process.stdout.read(LENGTH_BYTES))
        answer = _process.stdout.read(length)
    except BrokenPipeError:
        length, answer = 1, b""
    if not length or len(answer) < length:
        _process.kill()
        _process.communicate()
        _process = None
        return {}
    return dict(json.loads(answer))
