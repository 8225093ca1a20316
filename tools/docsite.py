"""What the documentation site has beside docs/: the pages that lie elsewhere in the repository, and those made of the
program itself. Hooks of MkDocs (mkdocs.yml); no page is copied.

A link to a file that is a page leads to that page; a link to another file of the repository becomes its name.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md", "ARCHITECTURE.md": "explanation/architecture.md",
    "CONTRIBUTING.md": "explanation/contributing.md", "CHANGELOG.md": "reference/changes.md",
    "drum/README.md": "reference/drum.md", "drum/FORMAT.md": "reference/drum-format.md",
}  # fmt: skip
"""Source file -> page."""
_LINK = re.compile(r"(!?)\[([^\]\[]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def made() -> dict[str, str]:
    """Pages that are made of the program: path -> text."""
    sys.path.insert(0, str(ROOT))
    from irlcrawl.config.toml import reference
    from irlcrawl.crawl.pace import PACE
    from irlcrawl.crawl.status import FIELDS
    from tools.manpage import markdown

    def table(rows: dict[str, str]) -> str:
        cells = (f"| `{name}` | {text} |" for name, text in rows.items())
        return "\n".join(["| field | meaning |", "|---|---|", *(cell.replace("->", "→") for cell in cells)])

    status = f"# Status record\n\n`irlcrawl status JOB --json`.\n\n{table(FIELDS)}\n\n## pace\n\n{table(PACE)}\n"
    configuration = f"# Configuration\n\n`irlcrawl config` prints this.\n\n```toml\n{reference()}```\n"
    return {
        "reference/commands.md": "\n".join(markdown()),
        "reference/configuration.md": configuration,
        "reference/status.md": status,
    }


def linked(text: str, source: str, page: str) -> str:
    """The text of a file of the repository as a page of the site: links lead to pages, or nowhere."""

    def replaced(match: re.Match[str]) -> str:
        image, words, target, anchor = match[1], match[2], match[3], match[4] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if there is None or path.endswith(".jsonl") or not (path in PAGES or (ROOT / path).is_file()):
            return f"{words} (`{path}`)" if words != path else f"`{path}`"
        return f"{image}[{words}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor})"

    return _LINK.sub(replaced, text)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Bring in the pages that do not lie in docs/."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=linked((ROOT / source).read_text(), source, page)))
    for page, text in made().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of the pages that lie in docs/."""
    path = page.file.src_uri
    known = path in PAGES.values() or path.startswith("reference/")
    return markdown if known else linked(markdown, f"docs/{path}", path)
