"""Lines of charts out of JOB/history: what only grows as so much a second between two samples, the rest as it was."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from irlcrawl.crawl.history import LEVELS, TOTALS, Sample


class Chart(NamedTuple):
    """kind: count or bytes, of which `per second` where the field is one of TOTALS."""

    field: str
    title: str
    kind: str

    @property
    def rate(self) -> bool:
        return self.field in TOTALS


CHARTS = (
    Chart("fetched", "Pages per second", "count"),
    Chart("bytes", "Received per second", "bytes"),
    Chart("errors", "Errors per second", "count"),
    Chart("queued_urls", "URLs waiting", "count"),
    Chart("discovered_urls", "New URLs per second", "count"),
    Chart("active_hosts", "Hosts in memory", "count"),
    Chart("memory_bytes", "Memory", "bytes"),
    Chart("disk_free_bytes", "Free disk", "bytes"),
)

Line = list[float | None]
RATE_SECONDS = 60.0
"""Rates are those of the last minute, or of the last step where steps are longer: totals grow by commits, and those do
not keep step with samples."""


def line(samples: Sequence[Sample], chart: Chart) -> Line:
    """A value a sample. Of a rate None for the first one, behind a gap in which the crawl did not run, and where the
    total fell (URLs were put back)."""
    values = [sample[1].get(chart.field) for sample in samples]
    if not chart.rate:
        return values
    found: Line = [None] if samples else []
    usual, begin = _usual_step(samples), 0
    for number in range(1, len(samples)):
        before, at = samples[number - 1][0], samples[number][0]
        low, high = values[number - 1], values[number]
        if low is None or high is None or high < low or at - before > 3 * usual:
            begin = number
            found.append(None)
            continue
        while begin < number - 1 and at - samples[begin][0] > RATE_SECONDS + usual / 2:
            begin += 1
        found.append((high - (values[begin] or 0.0)) / (at - samples[begin][0]))
    return found


def _usual_step(samples: Sequence[Sample]) -> float:
    steps = sorted(later[0] - sample[0] for sample, later in pairwise(samples))
    return steps[len(steps) // 2] if steps else float(LEVELS[0][0])


def charts(samples: Sequence[Sample]) -> dict[str, Any]:
    """{"times": [unix seconds], "charts": [{"field", "title", "kind", "rate", "values"}]}."""
    told = [{**chart._asdict(), "rate": chart.rate, "values": line(samples, chart)} for chart in CHARTS]
    return {"times": [at for at, _ in samples], "step": _usual_step(samples), "charts": told}
