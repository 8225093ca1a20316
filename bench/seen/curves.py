"""`python -m bench.seen.curves ROWS.jsonl CURVES.svg`: what `bench seen --json` printed, over the size of the store.

Two panels share the axis of stored keys (in the middle of a run): links checked in a CPU-second, and bytes read and
written for a link. Systems are drawn where there are rows of the skewed stream.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench.seen.systems import Missing, library

SIZE_INCHES = (9.0, 4.2)


def points(rows: list[dict[str, Any]]) -> dict[str, list[tuple[float, float, float]]]:
    """system -> (keys stored, links a CPU-second, bytes read and written a link), by growing store."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        if row["repeats"] == "skewed" and not row.get("aux_bytes"):
            stored = row["store_keys"] + row["new_keys"] / 2
            moved = row["read_bytes_per_key"] + row["write_bytes_per_key"]
            found.setdefault(row["system"], []).append((stored, row["keys_per_cpu_s"], moved))
    return {system: sorted(where) for system, where in found.items()}


def draw(rows: list[dict[str, Any]], target: Path) -> None:
    """Write the figure in the format that the name of `target` ends with. Raises Missing without matplotlib."""
    matplotlib = library("matplotlib")
    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "seen", "svg.fonttype": "none", "font.size": 9})
    figure, (speed, traffic) = library("matplotlib.pyplot").subplots(1, 2, figsize=SIZE_INCHES, layout="constrained")
    for system, where in points(rows).items():
        stored, links, moved = zip(*where)
        style = {"marker": "o", "markersize": 4, "linewidth": 2.2 if system == "drum" else 1.0, "label": system}
        speed.plot(stored, links, **style)
        if any(moved):
            traffic.plot(stored, moved, **{**style, "color": speed.lines[-1].get_color()})
    for axes, title in ((speed, "links checked per CPU-second"), (traffic, "bytes read + written per link")):
        axes.set(xscale="log", yscale="log", xlabel="keys stored", title=title)
        axes.grid(alpha=0.3, which="both")
    figure.legend(*speed.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None)


def main(argv: list[str]) -> int:
    """Exit codes: 0 drawn, 1 a file or matplotlib is missing (stderr says which), 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.seen.curves", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", metavar="ROWS.jsonl", type=Path)
    parser.add_argument("target", metavar="CURVES.svg", type=Path)
    options = parser.parse_args(argv)
    try:
        draw([json.loads(line) for line in options.rows.read_text().splitlines()], options.target)
    except (OSError, Missing) as error:
        print(f"bench.seen.curves: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
