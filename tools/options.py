"""Values on the command lines of tools and benchmarks: what makes no sense is wrong usage, not a traceback later."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """A whole number, also as 1e6, of at least `least` and at most `most`."""

    def parsed(text: str) -> int:
        number = float(text)
        if not math.isfinite(number) or not least <= number <= most or number != int(number):
            bound = f"of at least {least}" if most == math.inf else f"from {least} to {most:g}"
            raise argparse.ArgumentTypeError(f"a whole number {bound}, not {text}")
        return int(number)

    parsed.__name__ = "number"  # argparse says: invalid number value
    return parsed


def amount(zero: bool = False) -> Callable[[str], float]:
    """A number above 0. zero: 0 is one, too."""

    def parsed(text: str) -> float:
        number = float(text)
        if not 0 <= number < math.inf or not (number or zero):
            raise argparse.ArgumentTypeError(f"a number {'of at least' if zero else 'above'} 0, not {text}")
        return number

    parsed.__name__ = "number"
    return parsed


def share(zero: bool = True) -> Callable[[str], float]:
    """A number from 0 to 1. zero: 0 is one, too."""

    def parsed(text: str) -> float:
        number = float(text)
        if not (0 <= number <= 1) or not (number or zero):
            raise argparse.ArgumentTypeError(f"a share is {'from' if zero else 'above'} 0 to 1, not {text}")
        return number

    parsed.__name__ = "number"
    return parsed


def wholes(least: int) -> Callable[[str], list[int]]:
    """A list of them, separated by commas."""
    one = whole(least)

    def parsed(text: str) -> list[int]:
        return [one(part) for part in text.split(",")]

    parsed.__name__ = "number"
    return parsed


def ranges(least: int) -> Callable[[str], list[int]]:
    """Whole numbers as 1,2,3 or 1-10."""
    one = whole(least)

    def parsed(text: str) -> list[int]:
        found: list[int] = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(one(first), one(last or first) + 1)
        if not found:
            raise argparse.ArgumentTypeError(f"no numbers in {text}: the first is to be the least")
        return found

    parsed.__name__ = "number"
    return parsed


def directory(text: str) -> Path:
    """A directory, made if there is none."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"no directory can be made at {text}: {error.strerror}") from None
    return path
