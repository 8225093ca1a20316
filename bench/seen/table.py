"""Rows of several rounds as one row a system and store, as a table for people, and as ratios to drum."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from bench.seen.plan import Row

ROUNDS_FOR_RATIOS = 5

_COLUMNS = (  # title, field, format
    ("system", "system", "{:<17}"),
    ("stored before", "store_keys", "{:>13,}"),
    ("links", "keys", "{:>11,}"),
    ("links/CPU-s", "keys_per_cpu_s", "{:>11,}"),
    ("links/s", "keys_per_s", "{:>10,}"),
    ("read B", "read_bytes_per_key", "{:>8.1f}"),
    ("written B", "write_bytes_per_key", "{:>9.1f}"),
    ("disk B/key", "disk_bytes_per_stored_key", "{:>10.1f}"),
    ("peak MiB", "peak_rss_mib", "{:>8,.0f}"),
    ("delay, links", "verdict_delay_keys_max", "{:>12,}"),
    ("merges", "merges", "{:>6}"),
    ("falsely seen", "falsely_seen", "{:>12,}"),
)


def medians(rows: Iterable[Row]) -> list[Row]:
    """One row for each case and system: the median of every number, and with enough rounds how many times as many
    links a CPU-second drum checked in the same round (`drum_times`: median, least, most)."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["case"], row["system"]), []).append(row)
    result = []
    for (case, _), group in groups.items():
        merged = {name: _median([row[name] for row in group]) for name in group[0] if name != "round"}
        merged["rounds"] = len(group)
        drum = groups.get((case, "drum"), [])
        if len(group) == len(drum) >= ROUNDS_FOR_RATIOS:
            ratios = sorted(ours["keys_per_cpu_s"] / its["keys_per_cpu_s"] for ours, its in zip(drum, group))
            merged["drum_times"] = [round(x, 2) for x in (statistics.median(ratios), ratios[0], ratios[-1])]
        result.append(merged)
    return result


def _median(values: list[Any]) -> Any:
    if isinstance(values[0], int | float):
        middle = statistics.median(values)
        return round(middle) if isinstance(values[0], int) else round(middle, 2)
    return values[0]


def text(rows: list[Row]) -> str:
    """The medians as a table for each case."""
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        here = [row for row in rows if row["case"] == case]
        lines += ["", f"{case}: RAM {here[0]['ram_bytes'] >> 20} MiB, np.sort {here[0]['np_sort_ns']} ns a key"]
        titles = [f"{title:>{len(_cell(form, here[0], field))}}" for title, field, form in _COLUMNS[1:]]
        lines.append("  ".join([f"{_COLUMNS[0][0]:<17}", *titles]))
        for row in here:
            times = row.get("drum_times")
            ratio = "  drum × {:.2f} ({:.2f}–{:.2f})".format(*times) if times and row["system"] != "drum" else ""
            lines.append("  ".join(_cell(form, row, field) for _, field, form in _COLUMNS) + ratio)
    return "\n".join(lines)


def _cell(form: str, row: Row, field: str) -> str:
    value = row["peak_rss_bytes"] / 2**20 if field == "peak_rss_mib" else row[field]
    return form.format(value)
