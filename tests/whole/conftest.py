"""Fixtures of the end-to-end tests: a job directory, and loopback webs with an access log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.sampleweb.server import Handler, Origin, RunningWeb, running

Serve = Callable[..., RunningWeb]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """serve(handler, {host: address}, names={}) -> a web that runs until the test ends."""
    with contextlib.ExitStack() as stack:

        def up(handler: Handler, hosts: dict[str, str], names: dict[str, str] | None = None) -> RunningWeb:
            origins = [Origin(name, address) for name, address in hosts.items()]
            return stack.enter_context(running(origins, handler, tmp_path / "access.log", names))

        yield up
