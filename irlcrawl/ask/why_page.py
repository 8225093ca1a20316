"""`irlcrawl why JOB URL` of a page that is visited again: what is believed of it, what its next visit waits for, and
why that does not come earlier."""

from __future__ import annotations

import time
from typing import Any

from drum import Batch

import numpy as np

from irlcrawl.base.keys import host_key, origin_of
from irlcrawl.base.rows import PageFlag
from irlcrawl.frontier.state.view import Reading
from irlcrawl.revisit.beliefs import LEVELS, RATES
from irlcrawl.revisit.hubs import days_to_overflow, is_hub, link_rates
from irlcrawl.revisit.price import due_after, survival
from irlcrawl.revisit.signals import told_codes
from irlcrawl.revisit.visited import beliefs, intervals, silent, weights, wished_after, worth_now
from irlcrawl.revisit.weight import DAY_S, Rules
from irlcrawl.terminal import words

LATE = 1.1
"""A due that is later than the longest interval by this factor was made when that was longer."""
FULL = 1.05
"""A host is called full when its price is so many times the common one."""


def is_page(row: Batch) -> bool:
    """Whether a row (LINK and maybe PAGE) is of a page that was visited."""
    return "visits" in row and bool(row["visits"][0])


class PageRow:
    """A row (LINK and PAGE) of a page that was visited, asked at unix second `now`."""

    def __init__(self, reading: Reading, url: bytes, row: Batch, now: float) -> None:
        self._reading, self._url, self._row, self._now = reading, url, row, now
        self._rules = Rules(reading.config)
        self._terms = self._rules.of(row["url"])
        self._price: float | None = reading.catalog.get("price")
        found, values = reading.hosts.lookup(np.array([host_key(origin_of(url), int(row["site"][0]))], np.uint64))
        self._host: Batch | None = values if found[0] else None

    def answer(self) -> dict[str, Any]:
        """What is known of it."""
        row, belief = self._row, beliefs(self._row)
        days = max(self._now - float(row["visited"][0]), 0.0) / DAY_S
        rate = float(belief.a[0] / belief.b[0])
        worth = float(worth_now(row, self._terms, self._now)[0])
        return {
            "visits": int(row["visits"][0]),
            "visited": float(row["visited"][0]),
            "changed": float(row["changed"][0]) or None,
            "changes_a_day": rate,
            "belief": self._belief(rate),
            **({"new_links_a_day": float(link_rates(row)[0])} if is_hub(row)[0] else {}),
            **self._signals(),
            "chance_unchanged": float(survival(silent(row), np.array([days]))[0]),
            "weight": float(weights(row, self._terms)[0]),
            "worth_now": worth if np.isfinite(worth) else None,  # what an order is worth has no bound
            "price": self._price,
        }

    def _belief(self, rate: float) -> str:
        """The rate in words, and what it comes from."""
        row = self._row
        shape, days, prior = LEVELS[row["rate_a"][0]], LEVELS[row["rate_b"][0]], RATES[row["prior"][0]]
        before = f"before that, as other pages of its host, every {_days(1 / prior)}"
        seen = f"its visits tell as much as {shape:.1f} changes in {_days(days)}" if days else "no visit tells more yet"
        return f"a change every {_days(1 / rate)}: {seen}; {before}"

    def _signals(self) -> dict[str, Any]:
        """What its host's sitemaps and feeds were worth, and the price of a visit there if the host is full."""
        if self._host is None:
            return {}
        right, wrong, price = (float(self._host[name][0]) for name in ("right", "wrong", "price"))
        told = bool(told_codes(self._host["right"], self._host["wrong"], self._host["changes"])[0])
        signals = f"{right:.0f} of {right + wrong:.0f} were right; {'believed' if told else 'not believed'}"
        return {
            **({"signals": signals} if right + wrong else {}), **({"price_at_its_host": price} if price else {}),
        }  # fmt: skip

    def until(self, due: float) -> str:
        """Why a page that rests until `due` (unix seconds) is not visited earlier."""
        row, keys, at = self._row, self._reading.config.revisit, _date(due)
        if not keys.enabled:
            return "revisit.enabled is false, so it stays there"
        flags = int(row["flags"][0])
        if row["attempt"][0]:
            return f"its last visit failed; asked again {at}"
        if flags & PageFlag.DENIED:
            return f"robots.txt forbade its last visit; asked again {at}"
        if flags & (PageFlag.SIGNALLED | PageFlag.NOW):
            return f"called by {'a signal' if flags & PageFlag.SIGNALLED else 'an order'}; its visit is put off to {at}"
        if flags & PageFlag.GONE_ONCE:
            return f"its server says that it is gone; asked again {at}"
        least_key, most_key = self._rules.keys_of(self._url)
        price = self._price or 1.0
        _, least = intervals(row, self._terms, price, keys.chance_min)
        floor = float(row["visited"][0]) + float(least[0]) * DAY_S
        if floor > self._now and least[0] >= self._terms.most[0]:
            return f"due {at}: visited no later than {most_key} says, which goes before a longer minimum"
        if floor > self._now:
            bound = least_key if least[0] <= self._terms.least[0] else "revisit.chance_min"
            return f"by {bound} not before {_date(floor)}, and due {at}"
        if due > float(row["visited"][0]) + LATE * float(self._terms.most[0]) * DAY_S:
            return f"due {at}, as was decided at its last visit; {most_key} holds from its next one on"
        return f"due {at}{self._because(price, most_key)}; earlier if there is room"

    def _because(self, price: float, most_key: str) -> str:
        """What makes its due."""
        row, own = self._row, 0.0 if self._host is None else float(self._host["price"][0])
        wished = float(wished_after(row, self._terms, price)[0])
        if own > FULL * price:
            return f", when a visit is worth the price at its host, which takes fewer visits ({own / price:.1f} prices)"
        if wished >= self._terms.most[0]:
            return f": a visit is not worth the price, but it is looked at again; visited no later than {most_key} says"
        if wished >= days_to_overflow(row)[0]:
            return ", before its list drops items that no visit has seen"
        alone = float(due_after(silent(row), weights(row, self._terms), price, self._terms.most)[0])
        return f", when a visit is worth the price{', above all for its new links' if wished < alone / 2 else ''}"


def _days(days: float) -> str:
    return words.duration(float(days) * DAY_S)


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
