"""robots.txt by RFC 9309: which group applies to us, what it allows, and what an answer without rules means.

Protego matches paths (wildcards, `$`, longest match, percent-encoding, and the generous spelling that real files need).
Cases that it gets wrong are mended here before it sees the text: the byte order mark, line ends, raw non-ASCII octets,
user agent lines with a version, and the choice of the group, which goes by the whole product token and never by a part
of it. Only the lines of the group that applies are kept, so a parsed file is small however large the file was.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from protego import Protego

from irlcrawl.base.rows import Robots
from irlcrawl.config import keys as config

RULES_MAX = 10_000
"""Rules of a group that are kept (the first ones): a check walks through all of them."""

CRAWL_DELAY_MAX = 1e9
"""Seconds, thirty years: a longer delay would make no difference, and would not fit into stored times."""

RULE_BYTES = 1300
"""Memory that a parsed rule takes, and that a parsed file takes besides its rules (measured on rules with
wildcards)."""

_TOKEN = re.compile(r"[A-Za-z_-]+")
_LINE_ENDS = re.compile(rb"[\r\n]+")
_HIGH = re.compile(rb"[\x80-\xff]")
_AGENT = re.compile(rb"\s*(?:user[ -]?agent)\s*(?::|\s)\s*(.*)", re.IGNORECASE | re.DOTALL)
_AGENT_TOKEN = re.compile(rb"\*?([A-Za-z_-]+)|\*")
_RULE = re.compile(
    rb"\s*(?:allow|disallow|dissallow|dissalow|disalow|diasllow|disallaw|crawl[ -]delay|request[ -]rate|visit[ -]time)"
    rb"\s*(?::|\s)",
    re.IGNORECASE,
)


def product_token(user_agent: str) -> str:
    """The product token of a User-Agent header (RFC 9309 2.2.1): the letters, `_` and `-` it starts with.

    Raises ValueError when there is none.
    """
    found = _TOKEN.match(user_agent)
    if found is None:
        raise ValueError(f"a user agent must start with a product token of letters, '_' and '-': {user_agent!r}")
    return found[0]


class Rules:
    """The rules of one robots.txt for one crawler. Never raises on bad text: lines without meaning are skipped."""

    def __init__(self, text: bytes, product_token: str) -> None:
        lines = _group_for(text, product_token.lower().encode("ascii"))
        self._parser = Protego.parse("\n".join(["user-agent: *", *lines]))
        self.nbytes = RULE_BYTES * (len(lines) + 1)
        """Memory this takes, for the cache's bound."""
        delay = self._parser.crawl_delay("*")
        self.crawl_delay: float | None = None if delay is None else min(delay, CRAWL_DELAY_MAX)
        """Seconds between two requests, as long as it says; None when the group has no (valid) Crawl-delay."""

    def __del__(self) -> None:
        # A parser and its rule sets name each other: cut, or what a cache dropped stays until the collector's last
        # generation, which a worker at full speed saw twice in an hour.
        vars(self._parser).clear()

    def allowed(self, url: bytes) -> bool:
        """Whether a URL (stored form), or its path and query alone, may be requested."""
        path = url if url.startswith(b"/") else url[url.index(b"/", url.index(b"//") + 2) :]
        return self._parser.can_fetch("http://host" + path.decode("ascii"), "*")


def verdict(text: bytes, product_token: str, url: bytes) -> tuple[bool, str | None]:
    """(whether a URL may be requested, the line that decides: the longest that matches it), for people."""
    allowed, best = Rules(text, product_token).allowed(url), ""
    path = url[url.index(b"/", url.index(b"//") + 2) :].decode("ascii")
    for line in _group_for(text, product_token.lower().encode("ascii")):
        name, _, pattern = line.partition(":")
        if not pattern.strip() or (name.strip().lower() == "allow") != allowed or len(line) <= len(best):
            continue
        # A line alone is tried as what it forbids: where it matches, it forbids.
        if not Protego.parse(f"user-agent: *\ndisallow:{pattern}").can_fetch("http://host" + path, "*"):
            best = line.strip()
    return allowed, best or None


def _group_for(text: bytes, token: bytes) -> list[str]:
    """The rule lines of every group that names `token`, or else of every group for `*`; at most RULES_MAX."""
    ours: list[str] = []
    everyone: list[str] = []
    named = False  # some group names us, so `*` is not for us even if that group is empty
    for_us = for_all = in_agents = False
    for line in _LINE_ENDS.split(text.removeprefix(b"\xef\xbb\xbf")):
        line = line.partition(b"#")[0]
        agent = _AGENT.match(line)
        if agent is not None:
            if not in_agents:
                for_us = for_all = False
            in_agents = True
            found = _AGENT_TOKEN.match(agent[1])
            for_all = for_all or (found is not None and found[1] is None)
            for_us = for_us or (found is not None and found[1] is not None and found[1].lower() == token)
            named = named or for_us
        elif _RULE.match(line):
            in_agents = False
            rule = _HIGH.sub(lambda octet: b"%%%02X" % octet[0][0], line).decode("ascii")
            if for_us and len(ours) < RULES_MAX:
                ours.append(rule)
            if for_all and len(everyone) < RULES_MAX:
                everyone.append(rule)
    return ours if named else everyone


def outcome(status: int | None, params: config.Robots) -> tuple[Robots, float]:
    """What the final answer to a request for robots.txt means: (state, seconds for which it holds).

    `status` is the last HTTP status after redirects, None when there was no response (DNS, connection, TLS, timeout,
    broken HTTP). RFC 9309 2.3.1: 2xx brings rules; 4xx means no restrictions; 5xx and no answer close the host for a
    while. So do 429 (an overloaded server has not given permission) and an endless redirect.
    """
    if status is not None and 200 <= status < 300:
        return Robots.RULES, params.fresh_seconds
    if status is not None and 400 <= status < 500 and status != 429:
        return Robots.ALLOW, params.fresh_seconds
    return Robots.DENY, min(params.deny_seconds, params.fresh_seconds)


class RulesCache:
    """Parsed rules by key, least recently used out first, within a bound of bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rules: OrderedDict[object, Rules] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._rules)

    def get(self, key: object) -> Rules | None:
        rules = self._rules.get(key)
        if rules is not None:
            self._rules.move_to_end(key)
        return rules

    def put(self, key: object, rules: Rules) -> None:
        """Keep `rules`, even if they alone exceed the bound: the caller is about to use them."""
        self.drop(key)
        self._rules[key] = rules
        self.nbytes += rules.nbytes
        while self.nbytes > self._bytes_max and len(self._rules) > 1:
            self.nbytes -= self._rules.popitem(last=False)[1].nbytes

    def drop(self, key: object) -> None:
        old = self._rules.pop(key, None)
        if old is not None:
            self.nbytes -= old.nbytes
