"""The command line, called in this process, which alone works unless --jobs says otherwise."""

import pytest

from tests.cli.conftest import run

__all__ = ["one_core", "run"]


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irlcrawl.export.processes.cores", lambda: 1)
