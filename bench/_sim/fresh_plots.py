"""How fresh policies keep pages, as SVG files, out of the lines that `python -m bench freshness --curves DIR` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import numpy as np
from matplotlib import pyplot

matplotlib.rcParams["svg.hashsalt"] = "freshness"  # the same curves make the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: smaller, and found by a search
MIDDLE = 0.1
LABELS = {
    "optimum": "optimum (rates known)", "learnt": "irlcrawl", "lambdacrawl": "LambdaCrawl", "nutch": "Nutch's rule",
    "cc-news": "CC-News' rule", "uniform": "uniform",
}  # fmt: skip

Line = dict[str, Any]  # policy, rate, days, late, and what bench.freshness.Curve has


def draw(lines: Path, where: Path) -> None:
    """freshness.svg: over time, and by capacity; freshness-visits.svg: which pages have the visits."""
    found: list[Line] = [json.loads(text) for text in lines.read_text().splitlines()]
    middle = [line for line in found if line["rate"] == MIDDLE]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    for line in middle:
        share = np.array(line["fresh"] or [line["late"]] * 2)
        left.plot(np.linspace(0, line["days"], len(share)), share, label=LABELS[line["policy"]], **_style(line))
    left.set_title("copies that are right, by weight (0.1 visits a page and day)", fontsize=9)
    left.set_xlabel("days", fontsize=8)
    for policy, label in LABELS.items():
        own = [line for line in found if line["policy"] == policy]
        right.plot([line["rate"] for line in own], [1 - line["late"] for line in own], label=label, **_style(own[0]))
    right.set_title("copies that are wrong, late phase", fontsize=9)
    right.set_xlabel("visits a page and day", fontsize=8)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xticks(sorted({line["rate"] for line in found}), minor=False)
    right.set_yticks([0.03, 0.05, 0.1, 0.2, 0.3], minor=False)
    for axis in (right.xaxis, right.yaxis):
        axis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    _save(figure, where / "freshness.svg")
    figure, axes = pyplot.subplots(figsize=(6, 3.6))
    for line in middle:
        axes.plot(line["rates"], line["visits"], label=LABELS[line["policy"]], **_style(line))
    axes.set_title("visits a day, by how often a page changes (pages of one weight)", fontsize=9)
    axes.set_xlabel("changes a day", fontsize=8)
    axes.set_xscale("log")
    _save(figure, where / "freshness-visits.svg")


def _style(line: Line) -> dict[str, Any]:
    return {"color": "black", "linestyle": "--"} if line["policy"] == "optimum" else {}


def _save(figure: pyplot.Figure, path: Path) -> None:
    for axes in figure.axes:
        axes.tick_params(labelsize=8)
        axes.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
