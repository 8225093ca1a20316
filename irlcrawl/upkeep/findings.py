"""What a check finds: the shape that fsck, verify and repair share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drum import Damaged


@dataclass(frozen=True)
class Finding:
    """A difference from what was written (`damage`), or something worth knowing (a note). offset: bytes into the
    file."""

    damage: bool
    file: str
    offset: int | None
    what: str

    @classmethod
    def of(cls, error: Damaged) -> Finding:
        return cls(True, error.file, error.offset, error.what)

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file}: at offset {self.offset}"
        return f"{'damaged' if self.damage else 'note'}: {place}: {self.what}"


Findings = Iterator[Finding]


def note(file: str, what: str) -> Finding:
    return Finding(False, file, None, what)
