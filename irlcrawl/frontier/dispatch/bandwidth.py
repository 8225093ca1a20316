"""limits.bytes_per_second: how many URLs may be leased so that no more bytes come in than that, over all workers.

A lease is charged with the bytes that its URLs will bring, going by the mean of late; when its visit ends, what it did
bring takes the place of that. No more is leased before the time is reached at which all that was charged would have
come at the rate allowed. Before anything is known, a URL is charged with the largest body there may be.
"""

from __future__ import annotations

BURST_S = 1.0
"""So much of the past may be made up for: what was not used before is lost."""
WEIGHT = 1 / 16
"""Of one visit in the running mean of bytes a URL."""


class Bandwidth:
    """`rate`: bytes a second; 0: off. `guess`: bytes of a URL. Times are unix seconds."""

    def __init__(self, rate: float, guess: float) -> None:
        self._rate, self._mean = rate, float(guess)
        self._known = False
        self.due = 0.0
        """When all that was charged will have been paid for: URLs may be leased from then on."""

    def urls(self, now: float, most: int) -> int:
        """How many URLs may be leased now, of `most`."""
        if not self._rate:
            return most
        self.due = max(self.due, now - BURST_S)
        if self.due > now:
            return 0
        return min(most, 1 + int((now - self.due) * self._rate / max(self._mean, 1.0)))

    def exhausted(self, now: float) -> bool:
        """Whether nothing may be leased now."""
        return bool(self._rate) and self.due > now

    def leased(self, urls: int) -> float:
        """URLs are leased: the bytes they are charged with."""
        charged = urls * self._mean
        if self._rate:
            self.due += charged / self._rate
        return charged

    def ended(self, charged: float, received: int, requests: int) -> None:
        """A visit is over that was charged so."""
        if not self._rate:
            return
        self.due += (received - charged) / self._rate
        if requests:
            each = received / requests
            self._mean = self._mean + WEIGHT * (each - self._mean) if self._known else each
            self._known = True
