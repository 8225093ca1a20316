"""Programs by others that read what a crawl leaves: where they are. A test whose program is missing skips and says how
to get it (`make others` or `make readers`, and Debian's package chromium)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOM = Path(os.environ.get("IRLCRAWL_OTHERS") or Path(__file__).resolve().parents[2] / ".venv-others")
"""What `make others` makes: a Python environment of its own, since pywb's dependencies are old, and ReplayWeb.page."""
MISSING = "is missing: run `make others` (for fastwarc and cdxj-indexer `make readers`), or name it in IRLCRAWL_OTHERS"


@cache
def _has(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def python_with(module: str) -> str:
    """A Python that has the module."""
    for python in (str(ROOM / "bin" / "python"), sys.executable):
        if os.path.exists(python) and _has(python, module):
            return python
    pytest.skip(f"{module} {MISSING}")


def replay_web_page() -> Path:
    """The directory of ReplayWeb.page's npm package, whose sw.js is wabac.js."""
    found = ROOM / "replaywebpage"
    if not (found / "sw.js").is_file():
        pytest.skip(f"ReplayWeb.page {MISSING}")
    return found


def chromium() -> str:
    """Chromium's program."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is missing: apt-get install chromium")
    return found
