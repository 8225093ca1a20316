"""I6: packages are layers, rooms within them are layers, and no files import one another in a circle.

drum ← budgets ← irlcrawl ← tools ← bench, and in each of them the rooms of ROOMS: an import goes to an earlier room
only. Lazy imports, those for types alone and names of modules in strings count, too.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from irlcrawl.crawl.start import SHARED

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "drum": {"drum"},
    "budgets": {"drum", "budgets"},
    "irlcrawl": {"drum", "budgets", "irlcrawl"},
    "tools": {"drum", "budgets", "irlcrawl", "tools"},
    "bench": {"drum", "budgets", "irlcrawl", "tools", "bench"},
}
DRUM_LIBRARIES = {"numpy", "xxhash", "zstandard"}
BUDGETS_LIBRARIES = {"numpy"}
ROOMS = {
    "drum": ("drum", "drum.library"),
    "budgets": ("budgets",),
    "irlcrawl": (
        "irlcrawl.base", "irlcrawl.terminal", "irlcrawl.config", "irlcrawl.web",
        "irlcrawl.worker.page", "irlcrawl.worker.archive", "irlcrawl.worker.harvest", "irlcrawl.worker.fetch",
        "irlcrawl.revisit",
        "irlcrawl.frontier.politeness", "irlcrawl.frontier.state", "irlcrawl.frontier.turn",
        "irlcrawl.frontier.dispatch", "irlcrawl.cluster",
        "irlcrawl.crawl", "irlcrawl.rounds", "irlcrawl.upkeep", "irlcrawl.ask", "irlcrawl.export.media",
        "irlcrawl.export", "irlcrawl.watch", "irlcrawl.cli",
    ),
    "tools": ("tools", "tools.docsweb", "tools.sampleweb", "tools.simweb"),
    "bench": ("bench._sim", "bench.crawl", "bench.seen", "bench"),
}  # fmt: skip
"""Of each package the rooms, in order. A room that is a package has the files that lie loose in it."""
HOUSES = {"irlcrawl.worker", "irlcrawl.frontier", "bench.crawl.spiders"}
"""Folders that are no rooms: they hold rooms, or scripts of other programs."""
ONE_IN = 6
"""No room holds more than this part of the code: not of irlcrawl's, and not of all."""


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Name -> file of every module of the five packages; a package is its `__init__`."""
    found = {}
    for package in MAY_IMPORT:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(source: str, name: str, known: Mapping[str, object] = MODULES) -> set[str]:
    """The modules that the module `name` imports anywhere in it: those of `known` in full, of others the first part."""
    asked: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            asked += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*name.split(".")[: -node.level], *filter(None, [node.module])] if node.level else [])
            base = base or node.module or ""
            asked += [full if (full := f"{base}.{alias.name}") in known else base for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "importlib.import_module"):
            asked += [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            path = known.get(node.value)  # a module that something imports by name, or runs with -m
            asked += [node.value] if isinstance(path, Path) and path.name != "__init__.py" else []
    return {one if one in known else one.split(".")[0] for one in asked} - {name}


@functools.cache
def imports() -> dict[str, set[str]]:
    """Module -> what it imports. Not when this file is loaded: every process of the tests does that."""
    return {name: imported(path.read_text(), name) for name, path in MODULES.items()}


def room_of(name: str) -> str | None:
    """The room a module is in; None for a package that imports nothing of its own: all may import that."""
    package = name.split(".")[0]
    if name == f"{package}.__main__":  # it begins everything else
        return ROOMS[package][-1]
    if name == package:  # the front of a library, made of all of its rooms
        return ROOMS[package][-1] if imports()[name] else None
    rooms = [room for room in ROOMS[package] if name == room or name.startswith(room + ".")]
    return max(rooms, key=len, default=None)


# -- packages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    found = {name: names for name, names in imports().items() if name.split(".")[0] == package}
    assert found, f"no modules in {ROOT / package}"
    for name, names in found.items():
        packages = {one.split(".")[0] for one in names}
        wrong = (packages & MAY_IMPORT.keys()) - MAY_IMPORT[package]
        assert not wrong, f"{name} imports {sorted(wrong)}"
        assert "tests" not in packages, f"{name} imports the tests"


@pytest.mark.parametrize(("package", "libraries"), [("drum", DRUM_LIBRARIES), ("budgets", BUDGETS_LIBRARIES)])
def test_the_libraries_below_stay_light(package: str, libraries: set[str]) -> None:
    allowed = MAY_IMPORT[package] | libraries | set(sys.stdlib_module_names)
    for name, names in imports().items():
        if name.split(".")[0] == package:
            wrong = {one.split(".")[0] for one in names} - allowed
            assert not wrong, f"{name} imports {sorted(wrong)}"


def test_every_package_of_the_project_is_watched() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages == set(MAY_IMPORT) == set(ROOMS)


# -- rooms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ROOMS)
def test_every_file_is_in_a_room(package: str) -> None:
    folders = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for name, path in MODULES.items()
        if name.split(".")[0] == package and path.name not in ("__init__.py", "__main__.py")
    }
    folders |= {name for name, path in MODULES.items() if name.startswith(package + ".") and path.name == "__init__.py"}
    assert folders - HOUSES == set(ROOMS[package])


@pytest.mark.parametrize("package", ROOMS)
def test_an_import_goes_to_an_earlier_room(package: str) -> None:
    order = {room: number for number, room in enumerate(ROOMS[package])}
    wrong = [
        f"{name} → {one}"
        for name, names in sorted(imports().items())
        for one in sorted(names)
        if name.split(".")[0] == one.split(".")[0] == package
        and (here := room_of(name)) is not None
        and (there := room_of(one)) is not None
        and order[there] > order[here]
    ]
    assert not wrong, "imports of a later room: " + ", ".join(wrong)


def test_no_files_import_one_another_in_a_circle() -> None:
    found = circles({name: {one for one in names if one in MODULES} for name, names in imports().items()})
    assert not found, "; ".join(" ↔ ".join(circle) for circle in found)


def test_no_verb_imports_the_verbs_of_another_file() -> None:
    verbs = {name for name in MODULES if name.startswith("irlcrawl.cli.verbs_")}
    assert len(verbs) > 1 and not {name: imports()[name] & verbs for name in verbs if imports()[name] & verbs}


def test_no_room_holds_more_than_a_sixth_of_the_code() -> None:
    lines: Counter[str] = Counter()
    for name, path in MODULES.items():
        lines[room_of(name) or name] += len(path.read_text().splitlines())
    ours = {room: rows for room, rows in lines.items() if room.startswith("irlcrawl")}
    for rooms in (lines, ours):
        assert not {room: rows for room, rows in rooms.items() if rows * ONE_IN > sum(rooms.values())}


@pytest.mark.parametrize(
    "room", [room for rooms in ROOMS.values() for room in rooms if "." in room] + sorted(HOUSES & MODULES.keys())
)
def test_the_door_of_a_room_imports_nothing(room: str) -> None:
    tree = ast.parse(MODULES[room].read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


@pytest.mark.parametrize("name", SHARED)
def test_what_is_loaded_before_the_fork_is_there(name: str) -> None:
    """Modules named in strings: a file that moves leaves them behind unnoticed until a crawl starts."""
    assert importlib.import_module(name)


# -- that these would find it ------------------------------------------------------------------------------------------


def test_an_import_against_the_arrow_would_be_found() -> None:
    source = (
        "from __future__ import annotations\nimport drum.files as x\n"
        "def f():\n    from irlcrawl.base.rows import LINK\n    from irlcrawl.cli import main, words\n"
        "if TYPE_CHECKING:\n    from irlcrawl.crawl.loop import CrawlLoop\n"
        "SHARED = ('irlcrawl.upkeep.fsck', 'irlcrawl.no.module', 'irlcrawl.worker')\n"
        "importlib.import_module('irlcrawl.ask.why')\nfrom . import url\nfrom ..config.keys import Config\n"
    )
    assert imported(source, "irlcrawl.base.clock") == {
        "__future__", "drum.files", "irlcrawl.base.rows", "irlcrawl.cli.main", "irlcrawl.cli", "irlcrawl.crawl.loop",
        "irlcrawl.upkeep.fsck", "irlcrawl.ask.why", "irlcrawl.base.url", "irlcrawl.config.keys",
    }  # fmt: skip


def test_a_circle_would_be_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d", "f"}, "f": {"e"}}) == [
        ["a", "b", "c"], ["e", "f"],
    ]  # fmt: skip


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node: Tarjan, SIAM Journal on Computing 1(2), 1972."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []
    for start in graph:
        calls: list[tuple[str, Iterator[str]]] = [] if start in index else [_enter(start, graph, index, low, path)]
        while calls:
            node, following = calls[-1]
            for one in following:
                if one not in index:
                    calls.append(_enter(one, graph, index, low, path))
                    break
                if one in path:
                    low[node] = min(low[node], index[one])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = path[path.index(node) :]
                    del path[path.index(node) :]
                    found += [sorted(circle)] if len(circle) > 1 else []
    return sorted(found)


def _enter(
    node: str, graph: Mapping[str, set[str]], index: dict[str, int], low: dict[str, int], path: list[str]
) -> tuple[str, Iterator[str]]:
    index[node] = low[node] = len(index)
    path.append(node)
    return node, iter(sorted(graph[node]))
