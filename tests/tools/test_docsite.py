"""The documentation site: links of pages lead to pages, and (slow) MkDocs builds it without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.docsite import PAGES, ROOT, linked, made

MKDOCS = (ROOT / "mkdocs.yml").read_text()


def test_links_between_files_become_links_between_pages() -> None:
    of = linked("[a](docs/plugins.md), [b](ARCHITECTURE.md#the-words), [c](tools/dedupe.py)", "README.md", "index.md")
    assert of == "[a](plugins.md), [b](explanation/architecture.md#the-words), c (`tools/dedupe.py`)"
    text = "[a](../README.md), [b](formats.md), [c](https://a.example/), [d](#here)"
    of = linked(text, "docs/budgets.md", "budgets.md")
    assert of == "[a](index.md), [b](formats.md), [c](https://a.example/), [d](#here)"


def test_every_document_has_its_place_in_the_site() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("**/*.md")}
    pages |= set(PAGES.values()) | set(made())
    listed = re.findall(r": (\S+\.md)$", MKDOCS, re.MULTILINE)
    assert sorted(listed) == sorted(pages)
    assert all((ROOT / source).is_file() for source in PAGES)


@pytest.mark.slow
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    if not (find_spec("mkdocs") and find_spec("material")):
        pytest.skip("no mkdocs with its theme material is installed: pip install 'irlcrawl[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"index.html", "tutorial", "reference", "explanation"} <= {path.name for path in tmp_path.iterdir()}
    assert "politeness" in (tmp_path / "reference" / "configuration" / "index.html").read_text()
