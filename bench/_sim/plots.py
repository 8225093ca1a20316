"""The curves of a comparison, as SVG files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from bench._sim.crawl import Point, Run

FIGURES: dict[str, tuple[str, Callable[[Point], float]]] = {
    "enemies": ("fetches spent on enemies", lambda p: p.enemy / max(1, p.fetches)),
    "good": ("importance of the good pages fetched", lambda p: p.importance),
    "memory": ("memory, MiB", lambda p: p.rss_bytes / 2**20),
}


def draw(runs: list[Run], where: Path) -> None:
    """One file for each of FIGURES, one for lookups and one for the sizes of queues."""
    where.mkdir(parents=True, exist_ok=True)
    for name, (title, value) in FIGURES.items():
        figure, axes = pyplot.subplots(figsize=(7, 4))
        for run in runs:
            axes.plot([p.fetches for p in run.points], [value(p) for p in run.points], label=run.policy)
        _save(figure, axes, title, where / f"{name}.svg")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for run in runs:
        points = [p for p in run.points if p.discovered]
        axes.plot([p.fetches for p in points], [p.lookups / p.discovered for p in points], label=run.policy)
    last = next((run for run in runs if run.policy == "paper"), runs[-1])
    points = [p for p in last.points if p.discovered]
    naive = [p.naive / p.discovered for p in points]
    axes.plot([p.fetches for p in points], naive, "k--", label=f"one queue, read again each time ({last.policy})")
    axes.set_yscale("log")
    _save(figure, axes, "lookups per URL discovered", where / "lookups.svg")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for part in ("queued", "deferred", "calendar", "runs"):
        axes.plot([p.fetches for p in runs[-1].points], [getattr(p, part) for p in runs[-1].points], label=part)
    _save(figure, axes, f"URLs waiting ({runs[-1].policy})", where / "queues.svg")


def _save(figure: pyplot.Figure, axes: pyplot.Axes, title: str, path: Path) -> None:
    axes.set_xlabel("fetches")
    axes.set_title(title)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
