"""A reader of Prometheus' text format, strict about what its documentation says, and a check of names by the rules of
`promtool check metrics`; both share no code with the writer."""

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


PREFIXES = "milli|micro|nano|kilo|mega|giga|tera|kibi|mebi|gibi|tebi"
WRONG_UNIT = re.compile(rf"(?:{PREFIXES})(?:seconds|bytes|bits)|minutes|hours|days|weeks|bits|percent(?:age|s)?")
ABBREVIATED = {"s", "ms", "us", "ns", "sec", "secs", "min", "mins", "hr", "b", "kb", "mb", "gb", "tb", "pb", "pct"}
KINDS = {"gauge", "counter", "histogram", "summary", "untyped"}


def lint(text: str) -> list[str]:
    """What is wrong with the names of families and labels, by Prometheus' practices
    (https://prometheus.io/docs/practices/naming/) and by what OpenMetrics adds: a unit is the last word of a name."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    told = []
    for name, kind in types(text).items():
        words = name.removesuffix("_total").split("_") if kind == "counter" else name.split("_")
        told += [f"{name}: no help"] if not helps.get(name, "").strip() else []
        told += [f"{name}: a counter ends in _total"] if kind == "counter" and not name.endswith("_total") else []
        told += [f"{name}: only a counter ends in _total"] if kind != "counter" and name.endswith("_total") else []
        told += [f"{name}: its type in its name"] if KINDS & set(words) else []
        told += [f"{name}: {word} is no base unit" for word in words if WRONG_UNIT.fullmatch(word)]
        told += [f"{name}: {word} is short for a unit" for word in words if word in ABBREVIATED]
        told += [f"{name}: its unit is not its last word" for unit in ("seconds", "bytes") if unit in words[:-1]]
        told += [f"{name}: capitals or colons"] if not re.fullmatch(r"[a-z][a-z0-9_]*", name) else []
        told += [f"{name}: reserved for histograms"] if words[-1] in ("bucket", "count", "sum") else []
    reserved = {"le", "quantile"}
    histograms = [name for name, kind in types(text).items() if kind == "histogram"]
    for name, labels in samples(text):
        for label, _ in labels:
            told += [f"{name}: label {label}"] if not re.fullmatch(r"[a-z][a-z0-9_]*", label) else []
            told += [f"{name}: label {label} is a unit"] if WRONG_UNIT.fullmatch(label) or label in ABBREVIATED else []
            if label in reserved and not name.startswith(tuple(histograms)):
                told.append(f"{name}: label {label} is reserved")
    return list(dict.fromkeys(told))
