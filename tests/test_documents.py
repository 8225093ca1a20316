"""Documents and the tree agree: each room says which file holds what, and what documents name is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("drum", "budgets", "irlcrawl")
PROGRAMS = (*PACKAGES, "tools", "bench", "tests")
ROOMS = sorted(str(path.parent.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("__init__.py"))
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "drum/*.md", "tools/**/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"  # what it names was there then
)
FILES = {path.name for name in PROGRAMS for path in (ROOT / name).rglob("*.py")}

ENTRY = re.compile(r"^(\w+(?:\.py)?) {2,}\S", re.MULTILINE)
PYTHON = re.compile(r"(?<![\w*/.])((?:\w+/)*\w+\.py)\b")
PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join((*PROGRAMS, 'docs'))})/[\w./-]*\.(?:py|md|svg|jsonl))\b")


def docstring(room: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_which_file_holds_what(room: str) -> None:
    there = {path.name for path in (ROOT / room).glob("*.py")} - {"__init__.py"}
    there |= {path.parent.name for path in (ROOT / room).glob("*/__init__.py")}
    named = ENTRY.findall(docstring(room))
    assert sorted(named) == sorted(there)


@pytest.mark.parametrize("room", [room for room in ROOMS if room.startswith("irlcrawl")])
def test_a_room_imports_nothing(room: str) -> None:
    """Asking a crawl is quick because only what is needed is loaded."""
    tree = ast.parse((ROOT / room / "__init__.py").read_text())
    assert [type(node).__name__ for node in tree.body if not isinstance(node, (ast.Expr, ast.Assign))] == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room.startswith("irlcrawl/")])
def test_the_tests_of_a_module_are_where_a_newcomer_looks(room: str) -> None:
    """Beside the tests of its room, under its name; or the room of tests says where."""
    modules = {path.stem for path in (ROOT / room).glob("[!_]*.py")}
    tests = ROOT / "tests" / room.removeprefix("irlcrawl/")
    beside = {name for name in modules if [*tests.glob(f"test_{name}.py"), *tests.glob(f"test_{name}_*.py")]}
    said = ast.get_docstring(ast.parse((tests / "__init__.py").read_text())) or "" if modules else ""
    elsewhere = {name: files.split(", ") for name, files in re.findall(r"^(\w+)\.py {2,}(\S.*)$", said, re.MULTILINE)}
    assert modules - beside == set(elsewhere)
    assert [file for files in elsewhere.values() for file in files if not (ROOT / "tests" / file).is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_files_that_are_there(document: str) -> None:
    text = (ROOT / document).read_text()
    assert [name for name in PYTHON.findall(text) if not is_there(name, ROOT / document)] == []
    assert [name for name in PATH.findall(text) if not list(ROOT.glob(name))] == []


def is_there(name: str, document: Path) -> bool:
    """Whether a document may call a file so: by its path from the top, from irlcrawl/ or from the document's own
    directory; or by its name alone."""
    if "/" not in name:
        return name in FILES
    return any((top / name).is_file() for top in (ROOT, ROOT / "irlcrawl", document.parent))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / document).read_text())
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not leads_somewhere(link, ROOT / document)] == []


def leads_somewhere(link: str, document: Path) -> bool:
    path, _, heading = link.partition("#")
    target = document.parent / path if path else document
    if not heading:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
    return heading in {re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for words in headings}


def test_programs_name_files_that_are_there() -> None:
    """In docstrings, comments and messages: a path from the top, and in the packages a file's name alone."""
    wrong = []
    for package in PROGRAMS:
        for module in (ROOT / package).rglob("*.py"):
            text = module.read_text()
            paths = [name for name in PATH.findall(text) if "NAME" not in name]
            wrong += [(module.name, name) for name in paths if not list(ROOT.glob(name))]
            if package in PACKAGES:
                wrong += [(module.name, name) for name in PYTHON.findall(text) if not is_there(name, module)]
    assert sorted(wrong) == []
