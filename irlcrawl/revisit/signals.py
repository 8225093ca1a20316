"""Signals: what sitemaps and feeds say of when pages changed, believed as far as their host has earned it.

Trust is binary. Of visits to pages after a signal, some found a change: where that is TRUST of at least TRIED visits,
the host's signals are believed, else they move nothing, but are judged further. (Believing a host by half fails: one
that says "now" of everything is never silent, so its silence would prove freshness.)

A signal that is believed calls its page at once, if a fresh copy of it is worth the price for as long as it may last.
And silence tells, too: of a host whose signals come with a share r of its changes, only 1 - r of the changes come
unannounced. So its pages age by the belief of a rate (1 - r) as large: they are visited unasked that much less, and
what is saved goes to the others.

The record of a host counts signals that were right, wrong, and changes found; all three fade by halves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irlcrawl.revisit.beliefs import F8, U1, Belief

TRUST, TRIED = 0.7, 8.0
RECALL_MAX = 0.95
"""The largest share of changes of which signals are believed to tell."""
KEPT_MAX = 64.0
"""When more changes and signals than this were counted, all counts are halved."""
RIGHT = 0.85
"""The chance that a signal of a believed host is right, where its worth is asked for."""
_CODES = 255.0


def told_codes(right: F8, wrong: F8, changes: F8) -> U1:
    """PAGE's `told` of hosts with these counts: r as a code, at least 1 where they are believed; else 0."""
    tried = right + wrong
    believed = (tried >= TRIED) & (right >= TRUST * tried)
    recall = np.clip(right / np.maximum(changes, 1e-9), 0.0, RECALL_MAX)
    return np.where(believed, np.maximum(np.rint(_CODES * recall), 1), 0).astype(np.uint8)


def unannounced(belief: Belief, told: U1) -> Belief:
    """The belief of changes of which no signal tells."""
    return Belief(belief.a, belief.b / (1.0 - told / _CODES))


def faded(right: NDArray[np.float32], wrong: NDArray[np.float32], changes: NDArray[np.float32]) -> NDArray[np.float32]:
    """The share of a host's counts that is kept."""
    return np.where(np.maximum(right + wrong, changes) > KEPT_MAX, 0.5, 1.0).astype(np.float32)
