"""The ledger: every URL ever discovered is in exactly one class, and at every commit the classes add up (invariant I1).

`discovered` counts the rows of the drum of URLs seen. URLs that are done are totals: fetched (any HTTP response, and
not to be asked for again), gone (visited again until it was missing for good), failed, excluded by reason. The places
of all other URLs are counted afresh for each check, from headers and cursors, by the parts that hold them: between
drums, queued, deferred, in runs, in calendars, leased, between two visits. robots.txt and links out of scope are
outside the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class LedgerError(Exception):
    """URLs were lost or counted twice; the message gives both sides of the sum, class by class."""


@dataclass
class Ledger:
    """Counts of URLs. `live` is set by the owner before each `check`: a class name -> how many are in it now."""

    discovered: int = 0
    fetched: int = 0
    failed: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    live: dict[str, int] = field(default_factory=dict)
    gone: int = 0
    visits: int = 0
    """Responses in all, those of pages that are visited again, too; no class."""

    def exclude(self, reason: str, rows: int = 1) -> None:
        """`rows` URLs are done without a request, for `reason`; fewer than 0: so many are not any more."""
        left = self.excluded.pop(reason, 0) + rows
        if left:
            self.excluded[reason] = left

    @property
    def done(self) -> int:
        return self.fetched + self.gone + self.failed + sum(self.excluded.values())

    @property
    def waiting(self) -> int:
        return sum(self.live.values())

    def classes(self) -> dict[str, int]:
        """Every class with its count, as people see them: `excluded` is one class per reason."""
        excluded = {f"excluded({reason})": rows for reason, rows in sorted(self.excluded.items())}
        gone = {"gone": self.gone} if self.gone else {}
        return {"fetched": self.fetched, **gone, "failed": self.failed, **excluded, **self.live}

    def check(self, live: Mapping[str, int] | None = None) -> None:
        """LedgerError unless discovered = done + live and no class is negative. `live` replaces the one set before."""
        if live is not None:
            self.live = dict(live)
        classes = self.classes()
        found = self.done + self.waiting
        if found == self.discovered and self.discovered >= 0 and all(rows >= 0 for rows in classes.values()):
            return
        negative = [name for name, rows in classes.items() if rows < 0]
        difference = found - self.discovered
        what = f"{difference} too many" if difference > 0 else f"{-difference} missing" if difference else "negative"
        raise LedgerError(
            f"the ledger does not add up ({what}): discovered {self.discovered} URLs, but "
            + " + ".join(f"{name} {rows}" for name, rows in classes.items())
            + f" = {found}"
            + (f"; negative: {', '.join(negative)}" if negative else "")
        )

    def to_json(self) -> dict[str, Any]:
        """The totals for the catalogue: what `live` holds is counted anew on open."""
        return {
            "discovered": self.discovered,
            "fetched": self.fetched,
            "failed": self.failed,
            "excluded": dict(sorted(self.excluded.items())),
            "gone": self.gone,
            "visits": self.visits,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Ledger:
        return cls(
            value["discovered"],
            value["fetched"],
            value["failed"],
            dict(value["excluded"]),
            {},
            value["gone"],
            value["visits"],
        )
