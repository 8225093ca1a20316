"""Where the public test vectors are: `$IRLCRAWL_DATA`, else `../shared/data` beside the repository. Never committed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("IRLCRAWL_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def path_of(name: str) -> Path:
    """The vector file; skips the test, naming the path, when it is not there."""
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"no test vectors at {path} (set IRLCRAWL_DATA)")
    return path


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a JSON file of the web platform tests, without its comments."""
    return [case for case in json.loads(path_of(name).read_text("utf-8")) if isinstance(case, dict)]
