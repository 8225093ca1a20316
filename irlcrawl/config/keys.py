"""The configuration's keys: every key once, with its default, unit, bounds and whether it may change on resume.

The dataclasses are what the program reads; `keys()` is the same as a table, from which the file format, the options of
the command line, the checks and the reference are made. irlcrawl/config.py is what other modules import.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

NO_LIMIT = 1 << 62
"""What a limit of 0 amounts to, where a number is needed."""


class ConfigError(ValueError):
    """A wrong configuration; the message names the key and what it allows. Exit code 4."""


BUDGET_MAX = 1_000_000_000
"""Less than what stands for no limit (budgets/star.py), and sums and multiples of it stay within 64 bits."""
PAGES_MAX = 10**15
"""The same of what is counted per site."""
ROBOTS_FRESH_S_MAX = 86_400
"""RFC 9309, 2.4."""


def key(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    fixed: bool = False,
) -> Any:
    """A configuration key. `fixed`: it shaped what is on disk, so it may not change when the crawl is resumed."""
    metadata = {"doc": doc, "low": low, "high": high, "choices": choices, "fixed": fixed}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Crawl:
    user_agent: str = key("", "Required, and with a contact: Name/Version (+https://page-about-the-crawl; e-mail).")
    operator: str = key("", "Who runs the crawl, for warcinfo; the From header too when it is an e-mail address.")
    workers: int = key(0, "Fetch worker processes; 0 means one per core.", low=0, high=64)
    ram_bytes: int = key(256 << 20, "Memory the frontier may use for batches and merges.", low=32 << 20)


@dataclass
class Scope:
    kind: str = key("site", "How far links are followed from the seeds.", choices=("host", "site", "prefix", "any"))
    include: list[str] = key([], "Patterns (RE2 syntax); when given, a URL must match one of them.")
    exclude: list[str] = key([], "Patterns (RE2 syntax); a URL that matches one is out of scope.")
    depth_max: int = key(64, "Links away from a seed.", low=0, high=65_535)
    hops_max: int = key(5, "Redirects in a row.", low=0, high=50)
    url_bytes_max: int = key(2048, "Longer URLs are out of scope.", low=64, high=65_535)
    path_segments_max: int = key(20, "URLs with more directories in their path are out of scope.", low=1, high=256)
    path_repeats_max: int = key(
        3, "URLs in whose path a directory, or several together, come more often than this in a row are out of scope.",
        low=1,
    )  # fmt: skip
    private_suffixes: bool = key(
        False, "Count names under private suffixes (blogspot.com, github.io) as sites of their own.", fixed=True
    )


@dataclass
class Limits:
    pages: int = key(0, "Stop after this many responses; 0 is no limit. Exit code 14.", low=0)
    bytes: int = key(0, "Stop after this many bytes received; 0 is no limit. Exit code 14.", low=0)
    seconds: float = key(0.0, "Stop after this long since the crawl was (re)started; 0: no limit. Exit code 15.", low=0)
    pages_per_host: int = key(0, "Request at most this many URLs of a host; 0 is no limit.", low=0)
    pages_per_site: int = key(0, "Queue at most this many URLs of a site; 0 is no limit.", low=0, high=PAGES_MAX)


@dataclass
class Politeness:
    gap_host_seconds: float = key(1.0, "Least time between two requests to a host.", low=0, high=86_400)
    gap_host_factor: float = key(10.0, "... and this many times the last fetch's duration.", low=0, high=1000)
    gap_host_max_seconds: float = key(
        300.0, "Upper bound of what fetch duration and back-off add to the gap; never of a Crawl-delay.", low=0
    )
    gap_address_seconds: float = key(0.5, "Least time between two requests to an address.", low=0, high=86_400)
    gap_site_seconds: float = key(0.0, "Least time between two requests to a site; 0: its budget is its rate.", low=0)
    shared_addresses: list[str] = key([], "Networks (CIDR) that serve many sites, with their own gap below.")
    gap_shared_address_seconds: float = key(0.1, "The address gap inside shared_addresses.", low=0)
    visit_seconds: float = key(5.0, "A visit holds as many URLs as fit in this many seconds of gaps.", low=0)
    visit_urls_max: int = key(64, "... and at most this many.", low=1, high=1000)
    horizon_seconds: float = key(300.0, "What is due later than this rests in calendar files, not in memory.", low=1)
    retries_max: int = key(
        3, "Repeats after a passing failure (connection, timeout, 429, 5xx but 501, 505).", low=0, high=100
    )
    retry_delay_seconds: float = key(5.0, "Wait before the first repeat; tripled for each further one.", low=0)
    backoff_seconds: float = key(5.0, "First back-off after 429, 503 or a failed connection; doubled each time.", low=0)
    retry_after_max_seconds: float = key(86_400.0, "Longest Retry-After that is believed.", low=0)
    host_failures_max: int = key(10, "A host this many of whose visits failed in a row ...", low=1)
    host_dead_hours: float = key(24.0, "... over at least this long is dead: its URLs fail without a request.", low=0)


@dataclass
class Robots:
    bytes_max: int = key(512 << 10, "Bytes of robots.txt that are read (RFC 9309: at least 500 KiB).", low=500 << 10)
    fresh_seconds: float = key(
        86_400.0, "How long an answer is used (RFC 9309: at most 24 h).", low=1, high=ROBOTS_FRESH_S_MAX
    )
    deny_seconds: float = key(
        3600.0, "How long an unreachable robots.txt closes a host before it is asked again.", low=1
    )
    redirects_max: int = key(5, "Redirects followed for robots.txt (RFC 9309: at least 5).", low=5, high=20)


@dataclass
class Fetch:
    client: str = key(
        "httptools", "The HTTP client; aiohttp is slower, for servers the other does not get on with.",
        choices=("httptools", "aiohttp"),
    )  # fmt: skip
    connect_seconds: float = key(5.0, "Deadline for a connection, TLS included.", low=0.1)
    read_seconds: float = key(30.0, "Deadline between two reads.", low=0.1)
    total_seconds: float = key(60.0, "Deadline for one exchange.", low=0.1)
    header_bytes_max: int = key(64 << 10, "Largest response header.", low=4096)
    body_bytes_max: int = key(10 << 20, "Body bytes kept; a longer body is cut and marked WARC-Truncated.", low=1024)
    decoded_bytes_max: int = key(32 << 20, "Bytes a compressed body may become.", low=1024)
    visits_per_worker: int = key(128, "Visits a worker carries at once.", low=1, high=4096)
    worker_silent_seconds: float = key(
        60.0, "A worker that says nothing for so long, though asked, is killed and replaced.", low=1
    )
    tls_ca_file: str = key("", "PEM file of extra certificate authorities.")
    tls_verify: bool = key(False, "Refuse hosts whose certificate does not verify (a crawler mostly archives them).")


@dataclass
class Network:
    allow: list[str] = key([], "Private, loopback or reserved networks (CIDR) that may be contacted all the same.")
    resolvers: list[str] = key([], "DNS servers, address or address:port; empty: the system's.")
    dns_seconds: float = key(5.0, "Deadline for a name.", low=0.1, high=3600)
    dns_in_flight_max: int = key(64, "Names resolved at once.", low=1, high=4096)
    dns_ttl_min_seconds: float = key(60.0, "An address is used at least this long.", low=0)
    dns_ttl_max_seconds: float = key(86_400.0, "... and at most this long.", low=0)
    dns_cache_names: int = key(20_000, "Names kept in memory, a third of a KB each.", low=1)


@dataclass
class Page:
    scripts: bool = key(False, "Also take link-like strings out of scripts.")
    nofollow: bool = key(True, "Honour rel=nofollow and meta robots nofollow.")
    links_max: int = key(10_000, "Links taken from one page.", low=1)
    near_duplicates_max: int = key(
        0, "After so many pages of a directory in a row whose content (digits apart) was met before, links of further "
        "ones are not followed until a page with new content comes; 0: never. 10 ends most traps.", low=0
    )  # fmt: skip


@dataclass
class Budgets:
    base: int = key(
        20, "URLs of a site per queue to which one other site links (B0).", low=1, high=BUDGET_MAX, fixed=True
    )
    unsupported: int = key(
        1, "... of a site to which none does whose links count: it goes last, but it goes; 0: the base.", low=0,
        high=BUDGET_MAX,
    )  # fmt: skip
    yield_weight: float = key(
        1.0, "Fetches of a site after which what they brought halves its budget if it was nothing; 0: never.", low=0
    )
    duplicates_last: bool = key(
        True, "Links of a page whose content (digits apart) was met before go last, and support no other site."
    )
    link_list_sites: int = key(
        5, "A page that links to more other sites than this, and one link in six to yet another, raises the reputation "
        "of none, unless it is a seed: this keeps link farms down, and one good page in seven silent; 0: none is.",
        low=0,
    )  # fmt: skip
    home_nearness: int = key(
        64, "So many times nearer than its other URLs a site's home page is queued, where two others link to it, and "
        "seeds are; an eighth of it where one does; 1: no nearer.", low=1, high=1_000_000
    )  # fmt: skip
    hops: int = key(1, "2: only sites with reputation, and of seeds, raise that of others; 1: all do.", low=1, high=2)
    seed_floor: int = key(2_000, "Least URLs per queue of a site that has a seed.", low=1, high=BUDGET_MAX)
    top_sites: int = key(
        10_000_000, "Sites with the highest in-degree, which get more than the base.", low=1, high=BUDGET_MAX
    )
    top_budget: int = key(200_000, "The budget of the first of them.", low=1, high=BUDGET_MAX)
    curve: str = key(
        "linear",
        "How budgets between fall with in-degree; none: no budgets, breadth first.",
        choices=("log", "linear", "rank", "none"),
    )


@dataclass
class Archive:
    prefix: str = key("irlcrawl", "First part of WARC file names.")
    roll_bytes: int = key(1_000_000_000, "A WARC file is closed at this size.", low=1 << 20)
    gzip_level: int = key(1, "Compression level (isal: 0 fastest, 3 smallest).", low=0, high=3)
    log_roll_bytes: int = key(100_000_000, "logs/crawl.log is put aside at this size, and compressed.", low=1 << 10)
    on_warc_closed: str = key(
        "",
        "A command run with the path of each WARC file that is closed and committed, from when it is set on; "
        "it may move or delete it.",
    )
    archive_sync_seconds: float = key(10.0, "WARC files are flushed to the disk this often.", low=0.1)


@dataclass
class Frontier:
    harvest_bytes: int = key(64 << 20, "A worker hands over its harvest at this size ...", low=1 << 16)
    harvest_seconds: float = key(30.0, "... or age, or when the frontier asks.", low=0.01)
    urls_per_host_max: int = key(1000, "URLs of a host ready in runs.", low=4, high=1_000_000)
    hosts_active_max: int = key(100_000, "Hosts in memory.", low=16, high=100_000_000)
    bytes_max: int = key(
        0, "What URLs that wait (queues, QF, calendar, runs) may take on the disk; 0 is no limit.", low=0
    )
    when_full: str = key(
        "stop", "... and when they take more: stop the crawl (exit code 14); delay, until there is room, the merging "
        "of links that were found; or drop those that would go last, for good (excluded, frontier_full).",
        choices=("stop", "delay", "drop"),
    )  # fmt: skip
    harvests_bytes_max: int = key(
        4 << 30, "Nothing more is requested while harvests of this size wait to be merged.", low=1 << 16
    )
    disk_reserve_bytes: int = key(
        0, "The crawl stops cleanly (exit 3) when less is free; 0: room for the largest merge and a WARC file.", low=0
    )


@dataclass
class Site:
    """Overrides for one host or registrable domain and what is under it, but for what the nearest name below sets:
    `[site."example.com"]`."""

    gap_host_seconds: float | None = key(None, "Instead of politeness.gap_host_seconds.", low=0)
    pages_max: int | None = key(
        None, "Instead of limits.pages_per_site, of this registrable domain.", low=0, high=PAGES_MAX
    )
    depth_max: int | None = key(None, "Instead of scope.depth_max.", low=0)
    budget_min: int | None = key(
        None, "Least URLs per queue of this registrable domain: you vouch for it.", low=1, high=BUDGET_MAX
    )
    block: bool | None = key(None, "true: request nothing more from it.")


@dataclass
class Config:
    crawl: Crawl = field(default_factory=Crawl)
    scope: Scope = field(default_factory=Scope)
    limits: Limits = field(default_factory=Limits)
    politeness: Politeness = field(default_factory=Politeness)
    robots: Robots = field(default_factory=Robots)
    fetch: Fetch = field(default_factory=Fetch)
    network: Network = field(default_factory=Network)
    page: Page = field(default_factory=Page)
    budgets: Budgets = field(default_factory=Budgets)
    archive: Archive = field(default_factory=Archive)
    frontier: Frontier = field(default_factory=Frontier)
    site: dict[str, Site] = field(default_factory=dict)


KINDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list of texts",
}  # fmt: skip


class Key(NamedTuple):
    """One key of the configuration, as the table of keys describes it."""

    section: str  # "site" for the keys of [site."NAME"]
    name: str
    type: str  # "str", "int", "float", "bool" or "list"
    default: Any
    doc: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    fixed: bool

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    def allows(self) -> str:
        """What the key takes, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        bounds = {
            (True, True): f" from {self.low} to {self.high}",
            (True, False): f", at least {self.low}",
            (False, True): f", at most {self.high}",
        }
        return KINDS[self.type] + bounds.get((self.low is not None, self.high is not None), "")


@functools.cache
def section_keys(section: str) -> dict[str, Key]:
    """The keys of one section, in order; `site` gives the keys of every [site."NAME"]."""
    cls = SECTIONS[section]
    hints = get_type_hints(cls)
    table = {}
    for item in dataclasses.fields(cls):
        hint = next(kind for kind in (get_args(hints[item.name]) or (hints[item.name],)) if kind is not type(None))
        kind = "list" if get_origin(hints[item.name]) is list else hint.__name__
        factory = item.default_factory
        default = item.default if factory is dataclasses.MISSING else factory()
        table[item.name] = Key(section, item.name, kind, default, **item.metadata)
    return table


SECTIONS: dict[str, type] = {
    item.name: Site if item.name == "site" else get_type_hints(Config)[item.name] for item in dataclasses.fields(Config)
}


def keys() -> Iterator[Key]:
    """Every key, in the order of the reference."""
    for section in SECTIONS:
        yield from section_keys(section).values()


def value_of(config: Config, key: Key) -> Any:
    """The value of a key outside [site."NAME"]."""
    return getattr(getattr(config, key.section), key.name)
