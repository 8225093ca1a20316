"""Numbers as people read them, alike wherever the program speaks to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MESSAGE_CHARS_MAX = 8000
"""Of an error; a value in it may be as long as a stranger likes."""


def count(number: float | None) -> str:
    """12,345; a dash when it is not known."""
    return "-" if number is None else f"{number:,.0f}"


def rate(number: float | None) -> str:
    """Two or three significant digits: 0.25, 3.1, 45, 1,234."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def size(number: float | None) -> str:
    """Bytes in the unit that leaves one to three digits before the point (1 kB = 1000 bytes)."""
    if number is None:
        return "-"
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def duration(seconds: float | None) -> str:
    """Two units at most: 23 ms, 1.4 s, 59 s, 3 min 20 s, 5 h 01 min, 12 d 3 h."""
    if seconds is None:
        return "-"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def parts(numbers: Mapping[str, Any] | None) -> str:
    """`{"robots": 300, "dns": 2}` as `robots 300, dns 2`, largest first, zeros left out."""
    items = sorted((numbers or {}).items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name.replace('_', ' ')} {count(number)}" for name, number in items if number)


def plural(number: float, one: str, many: str | None = None) -> str:
    """`1 page`, `2 pages`."""
    told = count(number)
    return f"{told} {one if told == '1' else many or one + 's'}"


def shown(text: object) -> str:
    """Lines as printable() shows each: a name, a URL or an error may hold what a stranger wrote."""
    return "\n".join(map(printable, str(text).split("\n")))


def shortened(text: str) -> str:
    """A message without the middle of a value that fills screens."""
    beyond = len(text) - MESSAGE_CHARS_MAX
    half = MESSAGE_CHARS_MAX // 2
    return text if beyond <= 0 else f"{text[:half]} [{count(beyond)} characters] {text[-half:]}"


def printable(text: str) -> str:
    """`text` without characters that would move a terminal's cursor or cannot be encoded: servers write parts of it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
