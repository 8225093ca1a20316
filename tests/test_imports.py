"""I6: drum ← budgets ← irlcrawl ← tools, bench. No module imports against the arrow, not even within a function."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "drum": {"drum"},
    "budgets": {"drum", "budgets"},
    "irlcrawl": {"drum", "budgets", "irlcrawl"},
    "tools": {"drum", "budgets", "irlcrawl", "tools", "bench"},
    "bench": {"drum", "budgets", "irlcrawl", "tools", "bench"},
}
DRUM_LIBRARIES = {"numpy", "xxhash", "zstandard"}
BUDGETS_LIBRARIES = {"numpy"}


def imported(source: str, package: str) -> list[str]:
    """Top-level names of everything a module imports."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(package if node.level else (node.module or "").split(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "importlib.import_module"):
            names += [arg.value.split(".")[0] for arg in node.args if isinstance(arg, ast.Constant)]
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules, f"no modules in {ROOT / package}"
    for module in modules:
        names = set(imported(module.read_text(), package))
        wrong = (names & MAY_IMPORT.keys()) - MAY_IMPORT[package]
        assert not wrong, f"{module.relative_to(ROOT)} imports {sorted(wrong)}"
        assert "tests" not in names, f"{module.relative_to(ROOT)} imports the tests"


@pytest.mark.parametrize(("package", "libraries"), [("drum", DRUM_LIBRARIES), ("budgets", BUDGETS_LIBRARIES)])
def test_the_libraries_below_stay_light(package: str, libraries: set[str]) -> None:
    allowed = MAY_IMPORT[package] | libraries | set(sys.stdlib_module_names)
    for module in (ROOT / package).rglob("*.py"):
        wrong = set(imported(module.read_text(), package)) - allowed
        assert not wrong, f"{module.relative_to(ROOT)} imports {sorted(wrong)}"


def test_every_package_of_the_project_is_watched() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages == set(MAY_IMPORT)


def test_an_import_against_the_arrow_would_be_found() -> None:
    assert imported("def f():\n    from irlcrawl.rows import LINK\n    import drum.files as x\n", "drum") == [
        "irlcrawl", "drum",
    ]  # fmt: skip
