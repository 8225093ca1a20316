"""The command line called in this process, for tests that are about what it says and does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from irlcrawl.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*argv: object) -> tuple[int, str, str]:
        code = main.main([str(word) for word in argv])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def tree(path: Path) -> dict[str, bytes | None]:
    return {str(at.relative_to(path)): at.read_bytes() if at.is_file() else None for at in path.rglob("*")}
