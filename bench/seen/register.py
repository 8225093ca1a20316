"""The systems that are measured, by name."""

from __future__ import annotations

from bench.seen import databases, ours
from bench.seen.systems import System


def register() -> dict[str, type[System]]:
    """name -> system, in the order of the table."""
    every: list[type[System]] = [
        ours.DrumSystem, databases.RocksDB, databases.LMDB, databases.SQLite, databases.DuckDB, ours.PythonSet,
        ours.Bloom, ours.MercatorB, ours.CachedMercatorB,
    ]  # fmt: skip
    return {system.name: system for system in every}
