"""A reader of Prometheus' text format, strict about what its documentation says; it shares no code with the writer."""

from __future__ import annotations

import re
from collections.abc import Iterator

SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>[+-]?(?:\d[\d.e+-]*|Inf|NaN))"
)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
Key = tuple[str, frozenset[tuple[str, str]]]


def samples(text: str) -> dict[Key, float]:
    """(name, labels) -> value. AssertionError where the text is not as it has to be."""
    return {key: value for key, value, _ in _read(text)}


def types(text: str) -> dict[str, str]:
    """Family -> type."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def _read(text: str) -> Iterator[tuple[Key, float, str]]:
    assert text.endswith("\n") and "\n\n" not in text
    known: dict[str, str] = {}
    seen: set[Key] = set()
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in known, f"{family} is in two places"
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name == family, "TYPE of what HELP was of"
            known[name] = kind
        elif not line.startswith("# "):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            labels = LABEL.findall(match["labels"] or "")
            assert sum(len(f'{name}="{value}",') for name, value in labels) in (0, len(match["labels"] or "") + 1), line
            assert match["name"].startswith(family), "samples stand below their family"
            key = (match["name"], frozenset(labels))
            assert key not in seen, f"{key} twice"
            seen.add(key)
            yield key, float(match["value"]), known[family]
