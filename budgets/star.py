"""STAR (Spam Tracking and Avoidance through Reputation): from how many sites link to a site, how much of it may queue.

Reputation is in-degree: the number of distinct *other* sites with a link to it. Hosts are free, registrable domains
cost money, so a spammer pays for each unit of reputation. Everybody gets `base` URLs per queue; the `top_sites` sites
with the highest in-degree get more, up to `top_budget` for the first of them (Lee, Leonard, Wang, Loguinov 2008).

A histogram of in-degrees says which sites are in the top: signed changes are added as merges go, nothing is ever sorted
or recounted. One histogram serves all buckets, since only the sum is ever read and a sum survives a bucket's split. A
`Star` is what a histogram says at one moment; a merge uses one from its beginning to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

CURVES = ("log", "linear", "rank", "none")

WITHOUT_LIMIT = 1 << 30
"""The budget of every site under the curve "none"."""

TOP_SUPPORTERS = 100
"""The top budget is that of an in-degree of at least so many. While the highest there is is lower, it has that many
hundredths of it: else the first site that two others link to had as much of each queue as the best of the web later."""

EXACT = 32
"""In-degrees below this have a bin each; above, an octave has half as many bins (so a bin is at most 6% wide)."""
STEPS = EXACT // 2
BINS = EXACT + (32 - EXACT.bit_length() + 1) * STEPS
"""Bins of in-degrees up to 2**32 - 1."""


@dataclass(frozen=True)
class BudgetParams:
    """How reputation turns into budgets. `curve`: how budgets fall between the first of the top sites and the base:
    with the rank of in-degree, with in-degree itself (what the paper used of these two is not settled), or with its
    logarithm; `none`: no budgets, breadth first. The defaults are the paper's numbers; those of a crawl are in its
    configuration (irlcrawl/config/keys.py), and docs/budgets.md says why."""

    base: int = 10
    top_sites: int = 10_000
    top_budget: int = 10_000
    curve: str = "linear"

    def __post_init__(self) -> None:
        if self.base < 1 or self.top_sites < 1 or self.top_budget < 1:
            raise ValueError(f"budgets must be at least 1: {self}")
        if self.curve not in CURVES:
            raise ValueError(f"curve {self.curve!r} is none of {', '.join(CURVES)}")


def bin_of(in_degree: npt.NDArray[Any]) -> Ints:
    """The histogram bin of each in-degree (0 .. 2**32 - 1): i8[n], monotone in the in-degree."""
    value = in_degree.astype(np.int64)
    # frexp is exact for integers below 2**53: value = fraction * 2**exponent with fraction in [0.5, 1).
    octave = np.frexp(value.astype(np.float64))[1].astype(np.int64) - EXACT.bit_length()
    coarse: Ints = STEPS * octave + (value >> np.maximum(octave + 1, 0)) + STEPS
    return np.where(value < EXACT, value, coarse)


def bin_last(index: int) -> int:
    """The largest in-degree that falls into bin `index`."""
    if index < EXACT:
        return index
    octave, step = divmod(index - EXACT, STEPS)
    return int((STEPS + step + 1) << (octave + 1)) - 1


class Histogram:
    """How many sites have which in-degree (those with none are not counted), and the highest in-degree there is."""

    def __init__(self, counts: Ints | None = None, highest: int = 0) -> None:
        self.counts: Ints = np.zeros(BINS, np.int64) if counts is None else counts
        self.highest = highest

    def change(self, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> None:
        """Sites whose in-degree was before[i] (0 for a site not seen yet) and is after[i] from now on."""
        self.counts -= np.bincount(bin_of(before), minlength=BINS)
        self.counts += np.bincount(bin_of(after), minlength=BINS)
        self.counts[0] = 0
        if len(after):
            self.highest = max(self.highest, int(after.max()))

    def add(self, change: Histogram) -> None:
        """Changes gathered elsewhere since."""
        self.counts += change.counts
        self.highest = max(self.highest, change.highest)

    def to_json(self) -> dict[str, Any]:
        filled = np.flatnonzero(self.counts)
        return {"highest": self.highest, "bins": filled.tolist(), "sites": self.counts[filled].tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Histogram:
        counts = np.zeros(BINS, np.int64)
        counts[value["bins"]] = value["sites"]
        return cls(counts, value["highest"])

    def star(self, params: BudgetParams) -> Star:
        """The budgets this histogram stands for, frozen."""
        above = np.append(np.cumsum(self.counts[::-1])[::-1], 0)[1:]  # sites in higher bins, per bin
        outside = np.flatnonzero(above + self.counts > params.top_sites)
        # The first site outside the top is in the highest bin that does not fit into it whole.
        floor = bin_last(int(outside[-1])) if len(outside) else 0
        return Star(params, floor, self.highest, np.minimum(above, params.top_sites))


@dataclass(frozen=True)
class Star:
    """Budgets by in-degree at one moment. `floor`: the in-degree from which on a site has no more than the base (that
    of the first site outside the top, 0 while all fit in); `highest`: the in-degree that has the top budget (below
    TOP_SUPPORTERS, a part of it); `above`: per histogram bin, the sites in higher bins."""

    params: BudgetParams
    floor: int
    highest: int
    above: Ints

    def budgets(self, in_degree: npt.NDArray[Any]) -> Ints:
        """URLs per queue of a site with each in-degree: i8[n], at least `base`, never less for a higher in-degree."""
        base = self.params.base
        if self.params.curve == "none":
            return np.full(len(in_degree), WITHOUT_LIMIT, np.int64)
        room = max(self.params.top_budget - base, 0) * min(self.highest / TOP_SUPPORTERS, 1.0)
        return base + np.floor(room * self._share(in_degree)).astype(np.int64)

    def _share(self, in_degree: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """How far up from base (0) to top (1) each in-degree is."""
        value = in_degree.astype(np.float64)
        top = value > self.floor
        if self.params.curve == "rank":
            return np.where(top, 1.0 - self.above[bin_of(in_degree)] / self.params.top_sites, 0.0)
        low, high = float(self.floor), float(self.highest)
        if self.params.curve == "log":
            value, low, high = np.log1p(value), float(np.log1p(low)), float(np.log1p(high))
        if high <= low:  # all sites of the top have the same in-degree as the first one outside
            return np.zeros(len(value))
        return np.where(top, np.clip((value - low) / (high - low), 0.0, 1.0), 0.0)
