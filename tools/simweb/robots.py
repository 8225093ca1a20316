"""robots.txt of the simulated hosts, as columns of facts and as text that says the same."""

from __future__ import annotations

from drum.ragged import Batch

import numpy as np

from irlcrawl.base.rows import Robots
from tools.simweb.mix import Array, Bools, U8s, lot, lots, mix, uniform
from tools.simweb.params import DELAYS_LONG, DELAYS_SHORT
from tools.simweb.paths import DIRECTORIES
from tools.simweb.truth import INDEX_MASK, Section, Sites, section_of


def robots(web: Sites, hosts: U8s) -> Batch:
    """robots.txt of each host: state u1 (base/rows.py: Robots), crawl_delay f4 (0: none), closed bool (disallows all),
    directories u4 (bit d: directory d is disallowed), private bool (/private/ is)."""
    p = web.params
    h = mix(web.salt("robots"), hosts)
    site = (hosts >> np.uint64(32)).astype(np.int64)
    first = (hosts & INDEX_MASK) == 0
    private = first & (web.trap(site) == Section.HONEYPOT)
    error = (uniform(h) >= 1.0 - p.robots_error_share) & ~private
    has = ((uniform(h) < p.robots_share) & ~error) | private
    again = mix(web.salt("robots text"), hosts)
    closed = has & ~private & (lot(again) < lots(p.robots_closed_share))
    third, fourth = mix(web.salt("delay"), hosts), mix(web.salt("delay value"), hosts)
    long = uniform(fourth) < p.delay_long_share
    drawn = (fourth & np.uint64(0xFFFF)) / 65536.0
    delay = np.where(long, _drawn(DELAYS_LONG, drawn), _drawn(DELAYS_SHORT, drawn))
    delay = np.where(has & (uniform(third) < p.delay_share), delay, 0.0)
    # A directory in 16 is disallowed; a third of the files disallow none.
    bits = again & (again >> np.uint64(7)) & mix(web.salt("robots bits"), hosts) & mix(web.salt("more bits"), hosts)
    bits = np.where(has & (third % np.uint64(3) > 0), bits & np.uint64(0xFFFFFFFF), np.uint64(0))
    state = np.where(error, Robots.DENY, np.where(has, Robots.RULES, Robots.ALLOW))
    return Batch({
        "state": state.astype(np.uint8), "crawl_delay": delay.astype(np.float32), "closed": closed,
        "directories": bits.astype(np.uint32), "private": private,
    })  # fmt: skip


def _drawn(table: tuple[tuple[float, float], ...], u: Array) -> Array:
    values, weights = np.array(table).T
    bounds = np.cumsum(weights / weights.sum())[:-1]
    return np.asarray(values[np.searchsorted(bounds, u, side="right")])


def allowed(web: Sites, pages: U8s) -> Bools:
    """Whether robots.txt lets everybody fetch each page."""
    return permitted(web, pages, robots(web, web.host(pages)))


def permitted(web: Sites, pages: U8s, rules: Batch) -> Bools:
    """The same where the rules of each page's host are at hand."""
    _, page = web.place(pages)
    section = section_of(pages)
    bit = (rules["directories"] >> web.directory(pages, page).astype(np.uint32)) & 1
    hidden = (section == Section.PAGES) & (page > 0) & (bit == 1)
    hidden |= (section == Section.HONEYPOT) & rules["private"]
    return np.asarray((rules["state"] != Robots.DENY) & ~rules["closed"] & ~hidden)


def robots_text(rules: Batch, row: int) -> bytes:
    """The file of one row of `robots`."""
    lines = ["User-agent: *"]
    if rules["crawl_delay"][row]:
        lines.append(f"Crawl-delay: {rules['crawl_delay'][row]:g}")
    if rules["closed"][row]:
        lines.append("Disallow: /")
    if rules["private"][row]:
        lines.append("Disallow: /private/")
    bits = int(rules["directories"][row])
    lines += [f"Disallow: /{name.decode()}/" for place, name in enumerate(DIRECTORIES) if bits >> place & 1]
    return "\n".join([*lines, ""]).encode() if len(lines) > 1 else b"User-agent: *\nDisallow:\n"
