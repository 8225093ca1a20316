"""Numbers on a benchmark's command line: what makes no sense is wrong usage, and not a traceback minutes later."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole(least: int) -> Callable[[str], int]:
    """A whole number, also as 1e6, of at least so much."""

    def parsed(text: str) -> int:
        number = float(text)
        if not math.isfinite(number) or number < least or number != int(number):
            raise argparse.ArgumentTypeError(f"a whole number of at least {least}, not {text}")
        return int(number)

    parsed.__name__ = "number"  # argparse says: invalid number value
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
