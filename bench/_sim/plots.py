"""The curves of a comparison, as SVG files: how each policy went, out of the lines that `--curves` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import numpy as np
from matplotlib import pyplot

matplotlib.rcParams["svg.hashsalt"] = "budgets"  # the same curves make the same file
NAIVE = "paper"  # whose queues the naive scheme's lookups are counted on

Curves = dict[str, Any]  # policy, seed, and a f8 column for each field of crawl.Point


def draw(lines: Path, where: Path) -> None:
    """The web's README shows budgets.svg and lookups.svg; queues.svg and memory.svg are beside them."""
    runs: list[Curves] = []
    for text in lines.read_text().splitlines():
        run = json.loads(text)
        runs.append({name: np.array(part) if isinstance(part, list) else part for name, part in run.items()})
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    _curves(left, runs, "fetches spent on enemies", lambda run: run["enemy"] / np.maximum(run["fetches"], 1))
    _curves(right, runs, "good pages fetched, by importance", lambda run: run["importance"])
    left.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
    left.set_ylim(0, 1)
    _save(figure, where / "budgets.svg")
    figure, axes = pyplot.subplots(figsize=(6, 3.6))
    _curves(axes, runs, "lookups per URL discovered", lambda run: run["lookups"] / np.maximum(run["discovered"], 1))
    naive = next((run for run in runs if run["policy"] == NAIVE), runs[-1])
    values = naive["naive"] / np.maximum(naive["discovered"], 1)
    axes.plot(naive["fetches"], values, "k--", label=f"{naive['policy']}, one queue read again each time")
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=7)
    _save(figure, where / "lookups.svg")
    figure, axes = pyplot.subplots(figsize=(6, 3.6))
    for part in ("queued", "deferred", "put_off", "runs"):
        axes.plot(runs[-1]["fetches"], runs[-1][part], label=part)
    axes.set_title(f"URLs waiting ({runs[-1]['policy']})", fontsize=9)
    axes.legend(frameon=False, fontsize=7)
    _save(figure, where / "queues.svg")
    figure, axes = pyplot.subplots(figsize=(6, 3.6))
    _curves(axes, runs, "memory, MiB", lambda run: run["rss_bytes"] / 2**20)
    _save(figure, where / "memory.svg")


def _curves(axes: pyplot.Axes, runs: list[Curves], title: str, value: Callable[[Curves], Any]) -> None:
    for run in runs:
        there = run["fetches"] > 0
        axes.plot(run["fetches"][there], value(run)[there], label=run["policy"])
    axes.set_title(title, fontsize=9)
    axes.legend(frameon=False, fontsize=7)


def _save(figure: pyplot.Figure, path: Path) -> None:
    for axes in figure.axes:
        axes.set_xlabel("fetches", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
