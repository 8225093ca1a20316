"""The panels of view.py on a terminal, again every second: `irlcrawl watch`, and `status --watch`."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from drum import Damaged

from irlcrawl.base.job import JobDir
from irlcrawl.crawl import history, status
from irlcrawl.terminal import words
from irlcrawl.watch import series
from irlcrawl.watch.look import config_of
from irlcrawl.watch.sites import SiteBudgets
from irlcrawl.watch.view import Panel, Row, View, view

EVERY_SECONDS = 1.0
SPARK_SECONDS = 1800.0
SPARKS = {"fetched": "pages/s", "queued_urls": "waiting", "errors": "errors/s"}
WIDTH_OF_FILES = 80
COLUMN, BLOCKS = 38, "▁▂▃▄▅▆▇█"


def terminal_lines(seen: View, width: int, spark: Mapping[str, Sequence[float]] | None = None) -> list[str]:
    """The panels side by side, in as many columns as fit in `width` characters. spark: a line of history each."""
    at = time.strftime("%H:%M:%S", time.localtime(seen.updated)) if seen.updated else "-"
    lines = [f"{seen.name}: {seen.told} ({at})", ""]
    lines += ["   ".join(f"{tile.label} {tile.text}" + (f" ({tile.note})" if tile.note else "") for tile in seen.tiles)]
    lines += [f"{name:<12}{sparkline(values, max(width - 12, 10))}" for name, values in (spark or {}).items() if values]
    blocks = [_block(panel) for panel in seen.panels]
    count = max(width // (COLUMN + 2), 1)
    columns: list[list[str]] = [[] for _ in range(count)]
    for block in blocks:  # into the column that is shortest
        min(columns, key=len).extend(["", *block])
    for row in range(max(map(len, columns))):
        cells = [column[row] if row < len(column) else "" for column in columns]
        lines.append("  ".join(f"{cell:<{COLUMN}}" for cell in cells).rstrip())
    return lines


def _block(panel: Panel) -> list[str]:
    rows = [_told(row) for row in panel.rows] or [f"  {panel.empty}"]
    return [panel.title.upper(), *rows]


def _told(row: Row) -> str:
    label = words.printable(row.label)
    room = COLUMN - 3 - len(row.text)
    if len(label) > room > 1:
        label = label[: room - 1] + "…"
    return f"  {label:<{max(room, 0)}} {row.text}"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as blocks of an eighth each."""
    shown = [max(value, 0.0) for value in values[-width:]]
    most = max(shown, default=0.0) or 1.0
    return "".join(BLOCKS[min(int(value / most * len(BLOCKS)), len(BLOCKS) - 1)] for value in shown)


def show(job: JobDir) -> None:
    """Over the last one, until the crawl ends; elsewhere than on a terminal one below the other."""
    pause, sites = threading.Event(), SiteBudgets(job)
    while _print(job, sites) in status.ALIVE:
        pause.wait(EVERY_SECONDS)


def _print(job: JobDir, sites: SiteBudgets) -> str:
    """Print it once; returns the state."""
    record = status.read_status(job)
    on_terminal = sys.stdout.isatty()
    width, height = shutil.get_terminal_size((WIDTH_OF_FILES, 24)) if on_terminal else (WIDTH_OF_FILES, 0)
    seen = view(str(job.path), record, config_of(job), sites.of(record))
    lines = terminal_lines(seen, width, _sparks(job, record["updated"]))
    if on_terminal and len(lines) >= height:
        lines = [*lines[: max(height - 2, 1)], "… (a larger window shows more, and so does `irlcrawl watch --http`)"]
    clear = "\x1b[H\x1b[J" if on_terminal else ""
    print(clear + words.shown("\n".join([*lines, ""])), end="", flush=True)
    return str(record["state"])


def _sparks(job: JobDir, until: float | None) -> dict[str, list[float]]:
    """Title -> values of the last half hour."""
    until = until or time.time()
    try:
        samples = history.read(job.history, until - SPARK_SECONDS, until)
    except (Damaged, OSError):  # fsck says what is wrong with it
        return {}
    charts = {chart.field: chart for chart in series.CHARTS}
    lines = {name: series.line(samples, charts[name]) for name in SPARKS} if len(samples) > 1 else {}
    return {SPARKS[name]: [value or 0.0 for value in line] for name, line in lines.items()}
