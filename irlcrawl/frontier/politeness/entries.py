"""A host as Politeness knows it, and what makes one an errand."""

from __future__ import annotations

from irlcrawl.base.keys import name_key
from irlcrawl.frontier.politeness.columns import NONE


class HostState:
    """Of an entry; a plain number, as Kind is one."""

    IDLE = 0  # not here
    WAITING = 1  # for a clock
    UNRESOLVED = 2  # for somebody to ask for its address
    RESOLVING = 3  # for the answer
    LEASED = 4


STATE_NAMES = ("idle", "waiting", "unresolved", "resolving", "leased")


class HostEntry:
    """An active host (origin). The frontier subclasses it to add what it needs: `class Host(HostEntry): __slots__ = …`.

    key: name_key(origin); name: bare host name; site: name_key(registrable domain), 0 none.
    address/address_until: as resolved, or known from the hosts drum; None or past: it will come out of `unresolved`.
    crawl_delay: seconds, from robots.txt; gap_floor: [site."x"].gap_host_seconds, None for the general one.
    """

    __slots__ = (  # noqa: RUF023 - in order of meaning
        "key", "name", "scheme", "port", "site", "address", "address_until", "crawl_delay", "gap_floor", "errand",
        "state", "number",
    )  # fmt: skip

    def __init__(
        self,
        *,
        key: int,
        name: str,
        scheme: str,
        port: int,
        site: int,
        address: str | None = None,
        address_until: float = 0.0,
        crawl_delay: float = 0.0,
        gap_floor: float | None = None,
    ) -> None:
        self.key = key
        self.name = name
        self.scheme = scheme
        self.port = port
        self.site = site
        self.address = address
        self.address_until = address_until
        self.crawl_delay = crawl_delay
        self.gap_floor = gap_floor
        self.errand: Errand | None = None
        self.state: int = HostState.IDLE
        self.number = NONE  # its row in the columns of the workbench while it is active

    @property
    def clock_host(self) -> int:
        """The key of its host's clock, which http and https share."""
        return name_key(self.name.encode())

    def __repr__(self) -> str:
        return f"HostEntry({self.scheme}://{self.name}:{self.port}, {STATE_NAMES[self.state]}, {self.address})"


class Errand:
    """What makes an entry a slot asked for by a running visit: it goes first, and beside the clocks its visit holds."""

    __slots__ = ("not_before", "parent", "token")

    def __init__(self, parent: HostEntry, token: object, not_before: float) -> None:
        self.parent = parent
        self.token = token
        self.not_before = not_before  # unix seconds: the gap of the clocks shared with the parent
