"""ARCHITECTURE.md is the truth about the tree: every file has a place in it, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
NAMED = {Path(name).name for name in re.findall(r"[\w/]+\.py", TEXT)}


def test_every_file_has_a_place() -> None:
    files = (path for package in ("drum", "budgets", "irlcrawl") for path in (ROOT / package).rglob("*.py"))
    assert sorted({path.name for path in files} - NAMED - {"__init__.py"}) == []


def test_every_file_that_is_named_is_there() -> None:
    packages = ("drum", "budgets", "irlcrawl", "tools", "bench", "tests")
    there = {path.name for package in packages for path in (ROOT / package).rglob("*.py")}
    assert sorted(NAMED - there) == []
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
