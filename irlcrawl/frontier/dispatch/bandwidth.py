"""limits.bytes_per_second: how many URLs may be leased so that no more bytes come in than that, over all workers.

A lease is charged with the bytes that its URLs may bring, going by the largest of late; when its visit ends, what it
did bring takes the place of that. No more is leased before the time is reached at which all that was charged would have
come at the rate allowed. Before anything is known, a URL is charged with the largest body there may be. A visit ends
before its next URL once it brought more than it was charged with.
"""

from __future__ import annotations

BURST_S = 1.0
"""So much of the past may be made up for: what was not used before is lost."""
KEPT = 31 / 32
"""Of the largest bytes a URL, per visit that brings fewer."""


class Bandwidth:
    """`rate`: bytes a second; 0: off. `guess`: bytes of a URL. Times are unix seconds."""

    def __init__(self, rate: float, guess: float) -> None:
        self._rate, self._each = rate, float(guess)
        self.due = 0.0
        """When all that was charged will have been paid for: URLs may be leased from then on."""

    def urls(self, now: float, most: int) -> int:
        """How many URLs may be leased now, of `most`."""
        if not self._rate:
            return most
        self.due = max(self.due, now - BURST_S)
        if self.due > now:
            return 0
        return min(most, 1 + int((now - self.due) * self._rate / max(self._each, 1.0)))

    def exhausted(self, now: float) -> bool:
        """Whether nothing may be leased now."""
        return bool(self._rate) and self.due > now

    def leased(self, urls: int) -> float:
        """URLs are leased: the bytes they are charged with; 0: off."""
        if not self._rate:
            return 0.0
        charged = urls * self._each
        self.due += charged / self._rate
        return charged

    def ended(self, charged: float, received: int, requests: int) -> None:
        """A visit is over that was charged so."""
        if not self._rate:
            return
        self.due += (received - charged) / self._rate
        if requests:
            self._each = max(received / requests, KEPT * self._each)
