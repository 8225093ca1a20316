"""The configuration's keys: every key once, with its default, unit, bounds and whether it may change on resume.

The dataclasses are what the program reads; `keys()` is the same as a table, from which the file format, the options of
the command line, the checks (checks.py) and the reference are made.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from irlcrawl.base.keys import WEIGHT_MAX

NO_LIMIT = 1 << 62
"""What a limit of 0 amounts to, where a number is needed."""


class ConfigError(ValueError):
    """A wrong configuration; the message names the key and what it allows. Exit code 4."""


BUDGET_MAX = 1_000_000_000
"""Largest budget: below the number that stands for no limit (budgets/star.py), so that sums and multiples of budgets
stay within 64 bits."""
PAGES_MAX = 10**15
"""Largest quota of a site, within 64 bits for the same reason."""
ROBOTS_FRESH_S_MAX = 86_400
"""RFC 9309, 2.4: no answer is used for longer than a day."""
CRAWL_DELAY_S_MAX = 1e9
"""Thirty years: a longer delay would make no difference, and would not fit into stored times."""


def key(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    fixed: bool = False,
) -> Any:
    """A configuration key. `fixed`: the key shaped the files on disk, so it may not change when the crawl is
    resumed."""
    metadata = {"doc": doc, "low": low, "high": high, "choices": choices, "fixed": fixed}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Crawl:
    user_agent: str = key(
        "", "Required. The User-Agent header, with a contact: Name/Version (+https://page-about-the-crawl; e-mail)."
    )
    operator: str = key(
        "", "Name or e-mail address of the person who runs the crawl. It goes into each archive's warcinfo record; an "
        "e-mail address is also sent as the From header. Empty: off.",
    )  # fmt: skip
    workers: int = key(0, "Number of fetch worker processes. 0: one per core.", low=0, high=64)
    ram_bytes: int = key(
        256 << 20, "Memory in bytes for rows that wait for a merge and for the merges themselves. Hosts in memory and "
        "workers come on top.", low=32 << 20,
    )  # fmt: skip
    pause: bool = key(False, "true: nothing is requested; everything waits. `irlcrawl pause` and `unpause` set it.")


@dataclass
class Scope:
    kind: str = key(
        "site", "How far links are followed from each seed: within its host and port (host), its registrable domain "
        "(site), its directory (prefix), or anywhere (any).", choices=("host", "site", "prefix", "any"),
    )  # fmt: skip
    include: list[str] = key(
        [], "Patterns (RE2 syntax) searched for anywhere in a URL. A URL that matches none of them is out of scope. "
        "Empty: off."
    )  # fmt: skip
    exclude: list[str] = key(
        [], "Patterns (RE2 syntax) searched for anywhere in a URL. A URL that matches one of them is out of scope. "
        "Empty: off.",
    )  # fmt: skip
    block: list[str] = key(
        [], "Patterns (RE2 syntax) searched for anywhere in a URL. A URL that matches one of them is not requested "
        "but excluded (blocked), even if it waits already. `irlcrawl block --pattern` adds to it. Empty: off.",
    )  # fmt: skip
    block_file: str = key(
        "", "File of host names, one a line; # begins a comment. Nothing is requested from these hosts and the hosts "
        "under them; their URLs are excluded (blocked). It is read at each start, and again when it changes. Empty: "
        "off.",
    )  # fmt: skip
    opt_out_file: str = key(
        "", "File of hosts, sites, URLs and patterns whose owners want to be left alone; each line has kind, name, "
        "date and reason (docs/wishes.md). Nothing that it names is requested, and waiting URLs that it names are "
        "excluded (opted_out). It is read again when it changes. Empty: off.",
    )  # fmt: skip
    depth_max: int = key(
        64,
        "URLs more than this many links away from a seed are out of scope. 0: no link is followed.",
        low=0,
        high=65_535,
    )
    hops_max: int = key(5, "Longest chain of redirects that is followed. 0: no redirect is followed.", low=0, high=50)
    url_bytes_max: int = key(2048, "URLs longer than this many bytes are out of scope.", low=64, high=65_535)
    path_segments_max: int = key(
        20, "URLs with more than this many directories in their path are out of scope.", low=1, high=256
    )
    path_repeats_max: int = key(
        3, "URLs are out of scope if their path repeats a directory, or a group of directories, more than this many "
        "times in a row.", low=1,
    )  # fmt: skip
    private_suffixes: bool = key(
        False, "true: names under private suffixes (blogspot.com, github.io) count as sites of their own. false: off.",
        fixed=True,
    )  # fmt: skip


URL_RULES = (
    "tracking", "sessions", "empty_query", "unreserved", "sort_query", "slashes", "default_pages", "trailing_slash",
    "path_case", "www", "https",
)  # fmt: skip
"""What urls.merge takes: the rules of web/spelling.py."""


@dataclass
class Urls:
    merge: list[str] = key(
        ["tracking", "sessions", "empty_query", "unreserved"], "Rules that give the spellings of one page one URL, for "
        "links that are found from now on: tracking (query parameters such as utm_source), sessions (session ids), "
        "empty_query (? with nothing behind it), unreserved (%7E is ~); and rules that may merge pages that differ: "
        "sort_query, slashes (// is /), default_pages (/index.html is /), trailing_slash (/a/ is /a), path_case, www "
        "(www.a.com is a.com), https (http is https). Empty: off.", choices=URL_RULES,
    )  # fmt: skip
    parameters_file: str = key(
        "", "File with more names of query parameters that tracking leaves out, one a line; * at the end stands for "
        "any rest. It is read at each start, and again when it changes. Empty: off.",
    )  # fmt: skip


@dataclass
class Limits:
    pages: int = key(
        0, "Stop after this many URLs have been fetched, error responses included (exit code 14). 0: off.", low=0
    )
    bytes: int = key(0, "Stop after this many bytes have been received (exit code 14). 0: off.", low=0)
    bytes_per_second: int = key(
        0, "Most bytes of headers and bodies that the crawl receives each second, on average over a minute. Bodies "
        "under way are not cut for it. 0: off.", low=0,
    )  # fmt: skip
    seconds: float = key(
        0.0, "Stop this many seconds after the crawl was started or resumed (exit code 15). 0: off.", low=0
    )
    wait_hours: float = key(
        0.1, "Stop (exit code 15) when every URL that is left rests after a failure, and none was fetched, failed or "
        "excluded for this many hours. The same command goes on with them. 0: off; the crawl waits, maybe for days.",
        low=0,
    )  # fmt: skip
    pages_per_host: int = key(
        0, "Let through at most this many URLs of a host; its other URLs are excluded for good. 0: off.", low=0
    )
    pages_per_site: int = key(
        0, "Queue at most this many URLs of a site; its other URLs are excluded for good. 0: off.", low=0,
        high=PAGES_MAX,
    )  # fmt: skip


@dataclass
class Politeness:
    unit: str = key(
        "host", "Which names share the gap of a host, with all that lengthens it (gap_host_factor, Crawl-delay, "
        "back-off, Retry-After). host: each name has its own. site: all hosts of a registrable domain share one. "
        "address: all hosts at an address share one, and requests overlap only at shared_addresses.",
        choices=("host", "site", "address"),
    )  # fmt: skip
    gap_host_seconds: float = key(
        1.0,
        "Least seconds between the end of a request to a host and the start of the next. 0: off; the other gaps and "
        "Crawl-delay hold.",
        low=0,
        high=86_400,
    )
    gap_host_factor: float = key(
        10.0, "A host's gap is also at least this many times the duration of its last fetch. 0: off.", low=0, high=1000
    )
    gap_host_max_seconds: float = key(
        300.0, "Longest gap in seconds that gap_host_factor can make. It does not bound Crawl-delay and back-off.",
        low=0,
    )  # fmt: skip
    crawl_delay_max_seconds: float = key(
        3600.0, "Longest Crawl-delay that is kept, in seconds; a longer one counts as this. 0: off, no Crawl-delay is "
        "kept.", low=0, high=CRAWL_DELAY_S_MAX,
    )  # fmt: skip
    gap_address_seconds: float = key(
        0.5, "Least seconds between the end of a request to an address and the start of the next. An address that "
        "many sites share begins with this gap. 0: off.", low=0, high=86_400,
    )  # fmt: skip
    gap_site_seconds: float = key(
        0.0, "Least seconds between the end of a request to a site and the start of the next, however few hosts the "
        "site has. 0: off; gap_site_hosts still holds.", low=0,
    )  # fmt: skip
    gap_site_hosts: int = key(
        5, "A site with more hosts in memory than this is asked no more often than this many hosts may be: its "
        "requests start at least gap_host_seconds divided by this number apart. 0: off.", low=0, high=10_000,
    )  # fmt: skip
    shared_address_sites: int = key(
        8, "An address at which hosts of about this many sites were met is shared: its requests may overlap, and the "
        "gap between their starts is learnt. It shrinks while the address answers, and doubles when several sites "
        "throttle, fail or slow down. 0: off; only shared_addresses are shared.", low=0, high=16,
    )  # fmt: skip
    shared_addresses: list[str] = key(
        [], "Networks (CIDR) whose addresses are known to be shared by many sites. They begin with "
        "gap_shared_address_seconds as their gap. Empty: off.",
    )  # fmt: skip
    gap_shared_address_seconds: float = key(
        0.02, "Least seconds between the starts of two requests to a shared address.", low=0.001, high=86_400
    )
    machine_clocks: str = key(
        "/dev/shm", "Directory of the file (16 MB at most) by which crawls on one machine keep the gaps after each "
        "other's requests. In a directory where everybody may write, each user's crawls have a file of their own. "
        "Empty: off.",
    )  # fmt: skip
    hours: str = key(
        "", 'Hours of the day in which hosts may be asked, such as "22:00-06:00" or "12:00-13:00, 18:30-24:00". At '
        "other times their URLs wait on the disk, and the crawl for its hours. Empty: at any time.",
    )  # fmt: skip
    time_zone: str = key("UTC", "Time zone of hours, such as Europe/Berlin.")
    visit_seconds: float = key(
        5.0, "Length of a visit in seconds: a visit holds as many URLs of its host as fit into this time with their "
        "gaps.", low=0,
    )  # fmt: skip
    visit_urls_max: int = key(64, "Most URLs in a visit.", low=1, high=1000)
    horizon_seconds: float = key(
        300.0, "URLs that cannot be fetched within this many seconds wait on the disk, not in memory.", low=1
    )
    retries_max: int = key(
        8, "How often a URL is requested again after a passing failure (no connection, no TLS, timeout, lost "
        "connection, 429, 5xx except 501 and 505). 0: off.", low=0, high=100,
    )  # fmt: skip
    retry_delay_seconds: float = key(
        60.0, "Seconds before a URL is requested again after its first failure. Each further failure makes the time "
        "four times as long, up to rest_max_seconds.", low=0,
    )  # fmt: skip
    rest_seconds: float = key(
        60.0, "Seconds for which a host rests if it does not answer, has no address, or has a robots.txt that cannot "
        "be had. Each further failure doubles the rest, up to rest_max_seconds. The host's URLs wait on the disk.",
        low=0.1,
    )  # fmt: skip
    rest_max_seconds: float = key(
        86_400.0, "Longest rest of a host or a URL, and longest back-off, in seconds.", low=0.1
    )
    backoff_seconds: float = key(
        5.0, "Least gap in seconds after a 429, a 503 or a failed connection. It doubles with each further failure, up "
        "to rest_max_seconds, and shrinks with each good visit. 0: off.", low=0,
    )  # fmt: skip
    cool_down_seconds: float = key(
        60.0, "Least back-off in seconds after the third 429 or 503 in a row, if the host gives no Retry-After. 0: "
        "off.", low=0,
    )  # fmt: skip
    retry_after_max_seconds: float = key(
        86_400.0, "Longest Retry-After that is kept, in seconds; a longer one counts as this. 0: off, no Retry-After "
        "is kept.", low=0,
    )  # fmt: skip
    host_dead_hours: float = key(
        72.0, "A host that gives no answer but 429 and 503, or a robots.txt that cannot be had, is given up when the "
        "rests between its failures in a row add up to this many hours. For as many hours the URLs of a dead host "
        "then fail without a request. 0: at the first failure.", low=0, high=100_000,
    )  # fmt: skip


@dataclass
class Robots:
    bytes_max: int = key(512 << 10, "Bytes of a robots.txt that are read (RFC 9309 demands 500 KiB).", low=500 << 10)
    fresh_seconds: float = key(
        86_400.0, "Seconds before a robots.txt is fetched again (RFC 9309 allows 24 hours).", low=1,
        high=ROBOTS_FRESH_S_MAX,
    )  # fmt: skip
    redirects_max: int = key(5, "Redirects followed from a robots.txt (RFC 9309 demands 5).", low=5, high=20)


@dataclass
class Fetch:
    client: str = key(
        "httptools", "The HTTP client. aiohttp is slower, and refuses more of what servers send wrong.",
        choices=("httptools", "aiohttp"),
    )  # fmt: skip
    connect_seconds: float = key(5.0, "Deadline in seconds for a connection, TLS handshake included.", low=0.1)
    read_seconds: float = key(30.0, "Most seconds for which a server may send nothing.", low=0.1)
    total_seconds: float = key(60.0, "Deadline in seconds for a request and its whole response.", low=0.1)
    header_bytes_max: int = key(64 << 10, "Most bytes of a response header; a longer one is a failure.", low=4096)
    body_bytes_max: int = key(
        10 << 20, "Bytes of a body that are kept. A longer body is cut and marked WARC-Truncated.", low=1024
    )
    types: list[str] = key(
        [], 'Media types that pages (answers with a 2xx status) may have, such as "text/html" or "text/*"; "!video/*" '
        'refuses a type. The first pattern that fits decides. A page that no pattern fits is kept only if all '
        'patterns refuse. The body of a refused page is not read. Sitemaps are pages of application/xml or text/xml. '
        'Empty: off.',
    )  # fmt: skip
    length_max: int = key(
        0, "The body of a page whose Content-Length is more than this many bytes is not read at all. 0: off.", low=0
    )
    decoded_bytes_max: int = key(
        32 << 20, "Bytes of a page that are read for links, once it is decompressed.", low=1024
    )
    visits_per_worker: int = key(128, "Visits that a worker carries at once.", low=1, high=4096)
    worker_silent_seconds: float = key(
        60.0, "A worker that sends nothing for this many seconds, although it was asked to, is killed and replaced.",
        low=1,
    )  # fmt: skip
    http2: str = key(
        "needed", "HTTP/2, to https hosts, with the client httptools alone. needed: with a server that refuses "
        "everything else. offered: with a server that chooses it. off: never.", choices=("off", "needed", "offered"),
    )  # fmt: skip
    accept_language: str = key(
        "", 'The Accept-Language header, such as "de, en;q=0.5". Empty: none is sent, and servers choose.'
    )
    headers: list[str] = key(
        [], 'Further headers of every request, each as "Name: value"; Accept may be replaced. No Cookie or '
        "Authorization: see secrets_file of a site. Empty: off.",
    )  # fmt: skip
    signing_key_file: str = key(
        "", "Private key (Ed25519, PEM) with which each request is signed (Web Bot Auth, RFC 9421); `irlcrawl "
        "key` makes one. It is read at each start; it is in no file of JOB. Empty: off.",
    )  # fmt: skip
    signature_agent: str = key(
        "", "Where servers find the key directory that goes with signing_key_file: https://NAME, which serves it below "
        "/.well-known/. Empty: off.",
    )  # fmt: skip
    tls_ca_file: str = key("", "PEM file of further certificate authorities, used with tls_verify. Empty: off.")
    tls_verify: bool = key(
        False, "true: hosts whose certificate does not verify are refused. false: every certificate and old protocols "
        "are accepted, since an archive wants such pages, too.",
    )  # fmt: skip


@dataclass
class Network:
    allow: list[str] = key(
        [], "Private, loopback or reserved networks (CIDR) that may be contacted. All other networks of these kinds "
        "are refused. Empty: off.",
    )  # fmt: skip
    resolvers: list[str] = key(
        [], "DNS servers, each as address, address:port or [address]:port. Empty: those of the system, and /etc/hosts."
    )
    proxy: str = key(
        "", "Proxy for all requests: http://HOST:PORT, socks5://HOST:PORT (names are resolved here), or "
        "socks5h://HOST:PORT. With http and socks5h the proxy resolves names, so irlcrawl cannot refuse names that "
        "lead to private networks. Empty: off.",
    )  # fmt: skip
    proxy_logins_file: str = key(
        "", "File with logins of proxies, one a line: HOST:PORT NAME:PASSWORD. It is read at each start; its values "
        "are in no file of JOB. Empty: off.",
    )  # fmt: skip
    prefer: str = key(
        "ipv4", "Which kind of address is tried first, of a host that has both. The other kind is tried when the "
        "first does not answer. With ipv4, IPv6 addresses are looked up only where there is no IPv4 address.",
        choices=("ipv4", "ipv6"),
    )  # fmt: skip
    dns_seconds: float = key(5.0, "Deadline in seconds for the address of a name.", low=0.1, high=3600)
    dns_in_flight_max: int = key(64, "Most names that are looked up at once.", low=1, high=4096)
    dns_ttl_min_seconds: float = key(
        60.0, "Least seconds that an address is used before its name is looked up again.", low=0
    )
    dns_ttl_max_seconds: float = key(
        86_400.0, "Most seconds that an address is used before its name is looked up again.", low=0
    )
    dns_cache_names: int = key(20_000, "Names whose address is kept in memory, about 300 bytes each.", low=1)


WISHES = (
    "noindex", "noarchive", "nocache", "nosnippet", "noimageindex", "noai", "noimageai", "unavailable_after",
    "train-ai", "ai-train", "ai-input", "search", "tdm-reservation",
)  # fmt: skip
"""What page.wishes_obeyed takes: the names of wishes (web/wishes.py)."""


@dataclass
class Page:
    scripts: bool = key(False, "true: quoted strings in scripts that look like links are followed, too. false: off.")
    nofollow: bool = key(
        True, "true: rel=nofollow, meta robots nofollow and X-Robots-Tag nofollow are honoured. false: such links are "
        "followed, but raise no site's reputation.",
    )  # fmt: skip
    sitemaps: bool = key(
        True, "true: the crawl asks for the sitemaps that robots.txt files name, and follows what sitemaps and feeds "
        "(RSS, Atom) list: at most 50,000 links of each. false: off.",
    )  # fmt: skip
    wishes_obeyed: list[str] = key(
        [], "Wishes of owners for which the body of a page is not stored (reason withheld), nor that of an error or a "
        "redirect; links are followed unless nofollow forbids it. All wishes are recorded, obeyed or not: noindex, "
        "noarchive, nocache, nosnippet, noimageindex, noai, noimageai and unavailable_after (of X-Robots-Tag and meta "
        "robots; those with image count for images), train-ai, ai-train, ai-input and search (=n of Content-Usage "
        "or Content-Signal), tdm-reservation (TDMRep). Empty: off.", choices=WISHES,
    )  # fmt: skip
    tdmrep: bool = key(
        False, "true: each host is asked for /.well-known/tdmrep.json whenever its robots.txt is fetched, and the "
        "answer is recorded as tdm-reservation and tdm-policy (TDMRep). It costs a request a host and day.",
    )  # fmt: skip
    requisites: bool = key(
        False, "true: the crawl also fetches what a page needs to look as it does: images, styles, scripts, fonts, "
        "media and icons, from any host, even out of scope, and what its style sheets need. Scripts are not run. "
        "Requisites count as pages.",
    )  # fmt: skip
    requisites_max: int = key(500, "Most requisites taken from a page or a style sheet.", low=1)
    links_max: int = key(10_000, "Most links taken from a page; its other links are ignored.", low=1)
    near_duplicates: bool = key(
        False, "true: the words of each page are compared with those of all pages before it (SimHash), to recognise "
        "mirrors with edited words. A near-duplicate counts as a page whose texts were met before, with the effects "
        "that budgets.yield_weight, budgets.duplicates_last and page.near_duplicates_max describe. false: off.",
    )  # fmt: skip
    near_duplicates_max: int = key(
        0, "Trap guard: once this many pages in a row of one directory had texts (digits apart) that were met before, "
        "links of further such pages are ignored until a page of the directory has new content. 10 ends most traps. "
        "0: off.", low=0,
    )  # fmt: skip


@dataclass
class Budgets:
    base: int = key(
        30, "Budget (URLs per queue) of a site to which one other site links, and of all sites outside top_sites.",
        low=1, high=BUDGET_MAX, fixed=True,
    )  # fmt: skip
    unsupported: int = key(
        1, "Budget of a site that no counted link supports; its URLs wait longest but are kept. 0: use base.", low=0,
        high=BUDGET_MAX,
    )  # fmt: skip
    yield_weight: float = key(
        1.0, "How slowly budgets follow yield (the share of a site's fetches that bring new content), in fetches: "
        "after this many fetches without new content a site has a quarter of its budget. 0: off.", low=0,
    )  # fmt: skip
    duplicates_last: bool = key(
        True,
        "A page whose texts (digits apart) were met before supports no other site, and its links to its own site "
        "are queued last there. false: off.",
    )
    link_list_sites: int = key(
        5, "Link-list filter: a page that links to more than this many other sites, with at least one link in six "
        "leading to a new one, gives none of them reputation (seeds excepted). Holds link farms down; also silences "
        "one good page in seven. 0: off.", low=0,
    )  # fmt: skip
    home_nearness: int = key(
        64, "How many times nearer the front a site's home page (or a seed) is queued than its other URLs, if the site "
        "has a seed or at least two other sites link to it; an eighth of this if one does. 1: off.", low=1,
        high=1_000_000,
    )  # fmt: skip
    hops: int = key(
        1, "Whose links count for reputation. 1: those of every site. 2: only those of sites with a seed, or with "
        "reputation of their own.", low=1, high=2,
    )  # fmt: skip
    seed_floor: int = key(3_000, "Least budget of a site that has a seed.", low=1, high=BUDGET_MAX)
    ranks_file: str = key(
        "", "File of lines `rank,domain`, by rank, such as Tranco's. A site on it has at least the budget top_budget "
        "/ rank, however few sites link to it yet. It is read at each start, and again when it changes. Empty: off.",
    )  # fmt: skip
    top_sites: int = key(
        10_000_000, "Number of sites, those of highest in-degree, whose budget is above base.", low=1, high=BUDGET_MAX
    )
    top_budget: int = key(300_000, "Budget of the site of highest in-degree.", low=1, high=BUDGET_MAX)
    curve: str = key(
        "linear", "What budgets between base and top_budget follow: in-degree (linear), its logarithm "
        "(log), or a site's rank by in-degree (rank). none: no budgets, breadth first.",
        choices=("log", "linear", "rank", "none"),
    )  # fmt: skip


@dataclass
class Archive:
    prefix: str = key("irlcrawl", "First part of the names of WARC files.")
    roll_bytes: int = key(1_000_000_000, "A WARC file is closed, and the next begun, at this many bytes.", low=1 << 20)
    compression: str = key(
        "gzip", "How WARC files are compressed. gzip: every tool reads them. zstd: .warc.zst by the IIPC's proposal, "
        "which few tools read yet. After a change, files that are there stay as they are.", choices=("gzip", "zstd"),
    )  # fmt: skip
    gzip_level: int = key(1, "Compression level of gzip WARC files, from 0 (fastest) to 3 (smallest).", low=0, high=3)
    zstd_level: int = key(
        3, "Compression level of zstd WARC files, from 1 (fastest) to 19 (smallest, a hundred times as slow).", low=1,
        high=19,
    )  # fmt: skip
    dedupe_bytes_min: int = key(
        1024, "A body of at least this many bytes that the same WARC file holds already is stored as a revisit "
        "record, which names the first one. 0: off.", low=0,
    )  # fmt: skip
    dedupe_from: list[str] = key(
        [], "Other crawls (JOB) and CDXJ files, read at each start. A body of at least dedupe_bytes_min that one of "
        "them has, or that this crawl had at its start, is stored as a revisit record, which names the record that "
        "has it. Empty: off.",
    )  # fmt: skip
    dedupe_window: int = key(
        0, "Number of bodies, the last ones that this crawl stored, by any worker of a machine. A body of at least "
        "dedupe_bytes_min that is among them is stored as a revisit record, which names the record that has it. "
        "Replay may then need more than one WARC file. 48 bytes each on the disk. 0: off.", low=0, high=1_000_000_000,
    )  # fmt: skip
    log_roll_bytes: int = key(
        100_000_000, "logs/crawl.log is put aside and compressed at this many bytes.", low=1 << 10
    )
    on_warc_closed: str = key(
        "", "Command that is run with the path of each WARC file once it is closed and committed; it may move or "
        "delete the file. Files closed before this was set are left out. Empty: off.",
    )  # fmt: skip
    archive_sync_seconds: float = key(
        10.0, "Seconds between two flushes of WARC files to the disk. A power loss costs at most the pages of that "
        "time.", low=0.1,
    )  # fmt: skip


@dataclass
class Frontier:
    harvest_bytes: int = key(64 << 20, "A worker hands over its harvest once it holds this many bytes.", low=1 << 16)
    harvest_seconds: float = key(
        30.0, "A worker hands over its harvest at the latest after this many seconds.", low=0.01
    )
    urls_per_host_max: int = key(1000, "Most URLs of a host in runs, ready to be leased.", low=4, high=1_000_000)
    level_hours: float = key(
        12.0, "A URL goes up a level (as if it were a link nearer to a seed) each time it has waited so many hours "
        "because its host was busy with better ones. 0: off.", low=0,
    )  # fmt: skip
    hosts_active_max: int = key(
        100_000, "Most hosts in memory. URLs of further hosts wait on the disk.", low=16, high=100_000_000
    )
    bytes_max: int = key(
        0, "Bytes on disk that waiting URLs may take; when_full says what happens "
        "then. 0: off.", low=0,
    )  # fmt: skip
    when_full: str = key(
        "stop", "What happens above bytes_max. stop: the crawl ends (exit code 14). delay: links that were found wait "
        "in harvests until there is room. drop: the URLs that would go last are excluded for good (frontier_full).",
        choices=("stop", "delay", "drop"),
    )  # fmt: skip
    harvests_bytes_max: int = key(
        4 << 30, "No further request is made while more than this many bytes of harvests wait to be merged.",
        low=1 << 16,
    )  # fmt: skip
    disk_reserve_bytes: int = key(
        0, "The crawl stops cleanly (exit code 3) when fewer bytes than this are free on a disk of JOB. 0: room for "
        "the largest pending merge and a WARC file.", low=0,
    )  # fmt: skip


EVENTS = ("warc_closed", "done", "stopped", "outage", "outage_over", "disk_low", "error_rate", "trap")


@dataclass
class Cluster:
    listen: str = key(
        "", "Address and port, HOST:PORT, at which the crawl waits for workers of other machines (`irlcrawl "
        "worker-node`). Empty: off.",
    )  # fmt: skip
    token_file: str = key(
        "", "File with the secret that the crawl and its machines share, at least 16 bytes, which only its owner may "
        "read. `listen` needs it.",
    )  # fmt: skip
    tls_cert: str = key(
        "", "File with the certificate (PEM) of the frontier, of which its machines need a copy. `listen` needs it "
        "unless the address is this machine's own (127.0.0.1, ::1).",
    )  # fmt: skip
    tls_key: str = key("", "File with the key (PEM) of tls_cert.")
    node_wait_seconds: float = key(
        3600.0, "Seconds for which the crawl waits for a silent machine. Then it gives the machine up, and other "
        "workers fetch the URLs that it had in hand, some of them a second time.", low=60.0,
    )  # fmt: skip
    ray: str = key(
        "", "Address HOST:PORT of a Ray cluster: each of its machines that has a resource `disk:NAME` fetches for the "
        "crawl. If `listen`, `token_file` or `tls_cert` is not set, irlcrawl makes it, in JOB/cluster. Empty: off.",
    )  # fmt: skip
    directory: str = key(
        "~/irlcrawl", "Where machines on Ray keep their archives: each in DIRECTORY/CRAWL/NAME, where ~ is the home "
        "of the user for whom Ray runs there.",
    )  # fmt: skip
    node_workers: int = key(0, "Workers on each machine on Ray. 0: one for each core.", low=0, high=256)


@dataclass
class Hooks:
    command: str = key(
        "", "Command that is run for each event, with the event's name as its last argument and the event as a JSON "
        "object on its standard input. Empty: off.",
    )  # fmt: skip
    webhook: str = key("", "Web address to which each event is sent as a JSON object (POST). Empty: off.")
    events: list[str] = key(
        list(EVENTS), "Events that are reported. stopped: the crawl ended before every URL was decided; outage: this "
        "machine's network, or a proxy, seems to be down; disk_low: twice the room is left at which "
        "the crawl stops; trap: only one page in twenty of a site has new content.", choices=EVENTS,
    )  # fmt: skip
    error_rate: float = key(
        0.5, "The event error_rate is reported when this share of the visits to a site ends without an answer, or "
        "with 429 or 503. 0: off.", low=0, high=1,
    )  # fmt: skip
    seconds: float = key(30.0, "Deadline in seconds for one call of the command or the web address.", low=0.1, high=600)
    retries: int = key(
        5, "How often a call that failed is repeated. Then the event goes to logs/hooks.undelivered. 0: off.", low=0,
        high=100,
    )  # fmt: skip
    retry_seconds: float = key(
        10.0, "Seconds before a call that failed is repeated; twice as long before each further repetition.", low=0,
        high=3600,
    )  # fmt: skip


@dataclass
class Plugins:
    filter: list[str] = key(
        [], "Plug-ins (names of entry points in the group irlcrawl.plugins; docs/plugins.md) that say which links are "
        "followed. All of them have to let a link through. Empty: off.",
    )  # fmt: skip
    priority: list[str] = key(
        [], "Plug-ins that weigh links, as the rules [[priority]] do; their weights are added up. Empty: off.",
    )  # fmt: skip
    normaliser: list[str] = key(
        [], "Plug-ins that give the spellings of a page one URL. They come after urls.merge, in this order. Empty: "
        "off.",
    )  # fmt: skip
    page: list[str] = key(
        [], "Plug-ins that are called with each page and may find more links, or note something in the crawl log. "
        "Empty: off.",
    )  # fmt: skip
    headers: list[str] = key(
        [], "Plug-ins that give the headers of requests to a host, beside fetch.headers. Empty: off."
    )
    options: list[str] = key(
        [], "Options for plug-ins, each as NAME.OPTION=VALUE; a plug-in gets its own when it is made.",
    )  # fmt: skip


@dataclass
class Revisit:
    enabled: bool = key(
        False, "true: a page that was fetched is visited again, when it is worth it. false: each URL is fetched once."
    )
    share_min: float = key(
        0.2, "Least share of visits to known pages among the URLs that become ready, while new URLs wait. 0: off.",
        low=0, high=1,
    )  # fmt: skip
    share_max: float = key(
        0.8, "Largest share of visits to known pages among the URLs that become ready, while new URLs wait. 1: off.",
        low=0, high=1,
    )  # fmt: skip
    every_min_seconds: float = key(3600.0, "A page is visited again no sooner than this. 0: off.", low=0)
    every_max_days: float = key(365.0, "A page is visited again no later than this, if its host allows.", low=0.001)
    chance_min: float = key(
        0.1, "A page is not visited again while the chance that it has changed is less than this, even if the crawl "
        "is idle. 0: off.", low=0, high=0.99,
    )  # fmt: skip
    first_rate_days: float = key(
        30.0, "Days between two changes of a page, assumed as long as nothing is known of it or of other pages of its "
        "host.", low=0.001, high=10_000,
    )  # fmt: skip
    unconditional_every: int = key(
        16, "One in this many visits of a page asks for the whole page, whatever its ETag and Last-Modified: some "
        "servers say that a page is unchanged though it changed. 1: every visit does. 0: off.", low=0,
    )  # fmt: skip


@dataclass
class Site:
    """Overrides for a host or a registrable domain and for every host under it, where no nearer name sets the key:
    `[site."example.com"]`."""

    gap_host_seconds: float | None = key(None, "Replaces politeness.gap_host_seconds for these hosts.", low=0)
    bytes_per_second: int | None = key(
        None, "Most bytes of headers and bodies that this registrable domain sends each second, on average: after an "
        "answer it is left alone for as long as the answer would have taken at this rate. 0: off.", low=0,
    )  # fmt: skip
    hours: str | None = key(None, "Replaces politeness.hours for these hosts. Empty: at any time.")
    time_zone: str | None = key(None, "Replaces politeness.time_zone for these hosts.")
    pages_max: int | None = key(
        None, "Replaces limits.pages_per_site for this registrable domain. 0: off.", low=0, high=PAGES_MAX
    )
    depth_max: int | None = key(None, "Replaces scope.depth_max for these hosts.", low=0)
    budget_min: int | None = key(
        None, "Least budget of this registrable domain, however few sites link to it: you vouch for it.", low=1,
        high=BUDGET_MAX,
    )  # fmt: skip
    merge_urls: list[str] | None = key(
        None, "Replaces urls.merge for links that lead to these hosts.", choices=URL_RULES
    )
    parameters: list[str] | None = key(
        None, "Query parameters that are left out of links to these hosts, beside those that urls.merge leaves out; * "
        "at the end of a name stands for any rest. `irlcrawl parameters` finds such parameters.",
    )  # fmt: skip
    headers: list[str] | None = key(
        None, 'Headers of requests to these hosts, each as "Name: value", beside those of fetch.headers and in the '
        "place of those of the same name.",
    )  # fmt: skip
    types: list[str] | None = key(None, "Replaces fetch.types for these hosts. Empty: all types.")
    length_max: int | None = key(None, "Replaces fetch.length_max for these hosts. 0: off.", low=0)
    proxy: str | None = key(None, "Replaces network.proxy for these hosts. Empty: no proxy.")
    secrets_file: str | None = key(
        None, "File with headers that only these hosts are sent, one a line: Cookie: NAME=VALUE, Basic-Auth: "
        "NAME:PASSWORD, or any other. It is read at each start; its values are in no file of JOB, archives included. "
        "Empty: off, even where a wider name sets one.",
    )  # fmt: skip
    revisit_weight: float | None = key(
        None, "A page of these hosts counts as much as this many other pages when visits are planned; the weight of "
        "its rule multiplies that. Without it: 1.", low=0.001, high=1000,
    )  # fmt: skip
    revisit_every_min_seconds: float | None = key(
        None, "Replaces revisit.every_min_seconds for these hosts; a rule that sets it takes precedence.", low=0,
    )  # fmt: skip
    revisit_every_max_seconds: float | None = key(
        None, "Replaces revisit.every_max_days for these hosts; a rule that sets it takes precedence.", low=1,
    )  # fmt: skip
    block: bool | None = key(None, "true: nothing more is requested from these hosts; their waiting URLs are excluded.")
    pause: bool | None = key(None, "true: nothing is requested from these hosts for now; their URLs wait.")


@dataclass
class Priority:
    """A rule of order. There may be any number of them; of each URL the first one holds whose pattern is found in it:
    `[[priority]]`."""

    match: str | None = key(None, "Required. Pattern (RE2 syntax) searched for anywhere in a URL.")
    weight: int | None = key(
        None, "Required. The URL goes before or after others of its site as if it were so many links nearer to a seed "
        "(less than 0: farther). 0: no change, whatever later rules say.", low=-WEIGHT_MAX, high=WEIGHT_MAX,
    )  # fmt: skip


@dataclass
class UrlRule:
    """A rule of spelling. There may be any number of them; of each URL the first one holds whose pattern is found in
    it: `[[url_rule]]`."""

    match: str | None = key(None, "Required. Pattern (RE2 syntax) searched for anywhere in the URL of a link.")
    merge: list[str] | None = key(
        None, "Replaces urls.merge, and merge_urls of a site, for links to these URLs.", choices=URL_RULES
    )
    parameters: list[str] | None = key(None, "Replaces parameters of a site for links to these URLs.")


@dataclass
class RevisitRule:
    """A rule of re-visits. There may be any number of them; of each URL the first one holds whose pattern is found in
    it: `[[revisit_rule]]`."""

    match: str | None = key(None, "Required. Pattern (RE2 syntax) searched for anywhere in the URL of a page.")
    weight: float | None = key(
        None, "The page counts as much as this many other pages when visits are planned. Without it: 1.", low=0.001,
        high=1000,
    )  # fmt: skip
    every_min_seconds: float | None = key(
        None, "Replaces revisit.every_min_seconds, and that of a site, for these pages.", low=0
    )
    every_max_seconds: float | None = key(
        None, "Replaces revisit.every_max_days, and that of a site, for these pages.", low=1
    )


@dataclass
class Config:
    crawl: Crawl = field(default_factory=Crawl)
    scope: Scope = field(default_factory=Scope)
    urls: Urls = field(default_factory=Urls)
    limits: Limits = field(default_factory=Limits)
    politeness: Politeness = field(default_factory=Politeness)
    robots: Robots = field(default_factory=Robots)
    fetch: Fetch = field(default_factory=Fetch)
    network: Network = field(default_factory=Network)
    page: Page = field(default_factory=Page)
    budgets: Budgets = field(default_factory=Budgets)
    archive: Archive = field(default_factory=Archive)
    frontier: Frontier = field(default_factory=Frontier)
    hooks: Hooks = field(default_factory=Hooks)
    cluster: Cluster = field(default_factory=Cluster)
    plugins: Plugins = field(default_factory=Plugins)
    revisit: Revisit = field(default_factory=Revisit)
    priority: list[Priority] = field(default_factory=list)
    revisit_rule: list[RevisitRule] = field(default_factory=list)
    url_rule: list[UrlRule] = field(default_factory=list)
    site: dict[str, Site] = field(default_factory=dict)


KINDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list of texts",
}  # fmt: skip


class Key(NamedTuple):
    """One key of the configuration, as the table of keys describes it."""

    section: str  # "site" for the keys of [site."NAME"], "priority" for those of [[priority]], …
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

    @property
    def single(self) -> bool:
        """Whether its section comes once."""
        return self.section not in REPEATED

    def allows(self) -> str:
        """The values that the key takes, in words."""
        if self.choices:
            return ("a list out of " if self.type == "list" else "one of ") + ", ".join(self.choices)
        bounds = {
            (True, True): f" from {self.low} to {self.high}",
            (True, False): f", at least {self.low}",
            (False, True): f", at most {self.high}",
        }
        return KINDS[self.type] + bounds.get((self.low is not None, self.high is not None), "")


@functools.cache
def section_keys(section: str) -> dict[str, Key]:
    """The keys of one section, in order; `site` gives the keys of every [site."NAME"], `priority` those of every
    [[priority]], and so on."""
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


RULES: dict[str, type] = {"priority": Priority, "revisit_rule": RevisitRule, "url_rule": UrlRule}
"""Sections that are lists of rules, each with `match`: `[[priority]]`."""

REPEATED: dict[str, type] = {**RULES, "site": Site}
"""Sections that may come any number of times: `[[priority]]`, [site."NAME"]."""

SECTIONS: dict[str, type] = {
    item.name: REPEATED.get(item.name) or get_type_hints(Config)[item.name] for item in dataclasses.fields(Config)
}


def keys() -> Iterator[Key]:
    """Every key, in the order of the reference."""
    for section in SECTIONS:
        yield from section_keys(section).values()


def value_of(config: Config, key: Key) -> Any:
    """The value of a key whose section comes once."""
    return getattr(getattr(config, key.section), key.name)
