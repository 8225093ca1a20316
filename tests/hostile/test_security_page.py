"""docs/security.md and the program agree: each line of its tables names its test, the tests are there, keys have the
defaults and constants the names that it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_dict

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
DEFAULTS = {
    f"{section}.{name}": value
    for section, values in to_dict(Config()).items()
    if isinstance(values, dict)
    for name, value in values.items()
}
NUMBER = re.compile(r"\s(\d[\d,.]*)(?: (KiB|MiB))?")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, None: 1}
LINE = re.compile(r"^\|(.*)\|$", re.MULTILINE)


def lines() -> list[list[str]]:
    """The cells of each line of a table, without heads."""
    cells = [[cell.strip() for cell in line.split("|")] for line in LINE.findall(PAGE)]
    heads = {at - 1 for at, line in enumerate(cells) if set("".join(line)) == {"-"}}
    return [line for at, line in enumerate(cells) if at not in heads and at - 1 not in heads]


def test_each_line_names_a_test_that_is_there() -> None:
    assert len(lines()) > 40
    for line in lines():
        named = re.findall(r"`(tests/[\w/.]+|docs/[\w/.]+)`", line[-1])
        assert named or line[-1].startswith("the same"), line[0]
        assert [name for name in named if not (ROOT / name).exists()] == [], line[0]


def test_each_test_that_is_named_has_tests() -> None:
    for name in set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE)):
        if Path(name).name.startswith("test_"):
            tree = ast.parse((ROOT / name).read_text())
            assert any(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body), name


def test_keys_have_the_defaults_that_are_said() -> None:
    """A key without its section has that of the one before it in its line."""
    said = 0
    for line in lines():
        section = ""
        for match in re.finditer(r"`(?:(\w+)\.)?([a-z]\w+)`", "|".join(line[1:])):
            section = match[1] or section
            key = f"{section}.{match[2]}"
            if match[1] is None and key not in DEFAULTS:
                continue  # a reason, an annotation
            assert key in DEFAULTS, key
            number = NUMBER.match("|".join(line[1:])[match.end() :])
            if number is not None:
                value = float(number[1].rstrip(".,").replace(",", "")) * UNITS[number[2]]
                assert DEFAULTS[key] == value, f"{key} = {DEFAULTS[key]}, and {value:g} is said"
                said += 1
    assert said > 12


def test_constants_are_where_they_are_said_to_be() -> None:
    """In the file that is named behind them, or in any."""
    everywhere = "\n".join(path.read_text() for path in (ROOT / "irlcrawl").rglob("*.py"))
    found = re.findall(
        r"((?:`[A-Z][A-Z_]+_MAX`|`[A-Z][A-Z_]+_BYTES`|, )+)(?:[^|`(]*\(`(irlcrawl/[\w/]+\.py)`\))?", PAGE
    )
    names = [(name, file) for group, file in found for name in re.findall(r"`(\w+)`", group)]
    assert len(names) > 5
    for name, file in names:
        assert re.search(rf"^{name}\b", (ROOT / file).read_text() if file else everywhere, re.MULTILINE), (name, file)
