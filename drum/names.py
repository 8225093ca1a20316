"""Names of files in a directory of segments: the catalogue's logs, segments, and what is still being written.

The rest of this package, and programs that use it, make and parse these names here and nowhere else.
"""

from __future__ import annotations

import re

SEGMENT = ".seg"
"""How the name of every segment ends: the catalogue deletes those that no entry names."""
TEMPORARY = ".tmp"
"""What a name has behind it until its file is whole and durable."""
LOCK = "LOCK"
_LOG = re.compile(r"catalog-(\d{6,})\.log")
_NUMBERED = re.compile(r"(\d{8,})\.seg")


def log_name(generation: int) -> str:
    """A log of the catalogue; the highest number counts."""
    return f"catalog-{generation:06d}.log"


def parse_log(name: str) -> int | None:
    """Its generation; None for a file of another kind."""
    match = _LOG.fullmatch(name)
    return None if match is None else int(match[1])


def numbered(commit: int) -> str:
    """The segment of a `Drum`'s commit (programs with a catalogue of their own choose other names)."""
    return f"{commit:08d}{SEGMENT}"


def parse_numbered(name: str) -> int | None:
    """Its commit; None for a file of another kind."""
    match = _NUMBERED.fullmatch(name)
    return None if match is None else int(match[1])
