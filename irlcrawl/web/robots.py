"""robots.txt by RFC 9309: which group applies to us, what it allows, and what an answer without rules means.

A reader of our own, in place of Protego: that counts `?` or `&` as three octets when it looks for the longest match,
lets `$` stand for itself as well, takes all octets that are no UTF-8 for one, and needs 0.5 CPU-s for 512 KiB of rules.
Where the RFC leaves a choice this follows Google's parser, and beside it takes the generous spelling of real files
(`user agent`, `dissallow`, no colon). Only the rules of the group that applies are kept, so what is kept is small
however large the file was.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain, product
from operator import itemgetter

from irlcrawl.base.rows import Robots
from irlcrawl.config import keys as config
from irlcrawl.web import tdmrep, wishes

WORK_MAX = 1 << 28
"""Octets of wildcard rules times octets of a path that one check may compare, at most 0.1 CPU-s. Beyond it the path
counts as forbidden. Of 512 KiB of wildcard rules paths up to 512 octets are within."""

RULE_BYTES = 150
"""Memory that a rule takes besides its text (measured on rules with wildcards)."""
PART_BYTES = 48
"""Memory that a part of a wildcard rule takes besides its text."""
FILE_BYTES = 1300
"""Memory that a file takes besides its rules."""

_TOKEN = re.compile(r"[A-Za-z_-]+")
_STARS = re.compile(rb"\*{2,}")
_HIGH = re.compile(rb"[\x80-\xff]")
_PLAIN = re.compile(rb"[ !\"#&-)+-~]*+")
"""A pattern of nothing but itself: no `*`, `$`, `%` nor octets that a URL escapes."""
_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_RESERVED = b"%:/?#[]@!&()+,;="
"""Octets that mean something else where they are escaped (RFC 9309 2.2.2). Not so `*` and `$`, which patterns have to
escape, and `'`, which URLs have to escape in their queries alone."""
_OCTETS = {
    b"%" + high + low: b"%" + (high + low).upper() if octet[0] in _RESERVED else octet
    for high, low in product((b"%c" % digit for digit in b"0123456789abcdefABCDEF"), repeat=2)
    for octet in (bytes.fromhex((high + low).decode()),)
}
"""Escapes as they are compared."""
_RECORD = re.compile(
    rb"^[ \t\v\f]*+((?:user[ -]?agent|allow|dis?sallow|diss?alow|diasllow|disallaw)[\w-]*+|crawl[ -]delay"
    rb"|content-usage|content-signal|irlcrawl-tdm)"
    rb"(?:[ \t]*+:([^\n#]*+)|[ \t]++([^\s#:]++)[ \t]*+(?=[\n#]|\Z))",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that means something here; all others may stand anywhere and change nothing (RFC 9309 2.2.4). As Google's
parser, also names that begin so (`Disallowed`), and lines of two words without a colon."""
_AGENT_TOKEN = re.compile(rb"\*?([A-Za-z_-]+)|\*")


def product_token(user_agent: str) -> str:
    """The product token of a User-Agent header (RFC 9309 2.2.1): the letters, `_` and `-` it starts with.

    Raises ValueError when there is none.
    """
    found = _TOKEN.match(user_agent)
    if found is None:
        raise ValueError(f"a user agent must start with a product token of letters, '_' and '-': {user_agent!r}")
    return found[0]


class Rules:
    """The rules of one robots.txt for one crawler. Never raises on bad text: lines without meaning are skipped.

    A rule has a *rank*, twice the octets of its pattern, and one more if it allows: of the rules that match a path the
    one of the highest rank decides (RFC 9309 2.2.2).
    """

    def __init__(self, text: bytes, product_token: str) -> None:
        group = _group_for(text, product_token.lower().encode("ascii"))
        self.crawl_delay = group.crawl_delay
        """Seconds between two requests, the longest that the group says; None when it has no (valid) Crawl-delay."""
        self._prefixes = {  # rank by what a path starts with; those first that need no closer look, which are most
            pattern: 2 * len(pattern) + allows
            for pattern, allows in group.patterns.items()
            if _PLAIN.fullmatch(pattern) and b"/index.htm" not in pattern
        }
        self._wholes: dict[bytes, int] = {}  # rank by what a path is
        self._wildcards: list[tuple[int, list[bytes], bool]] = []  # rank, the parts between `*`, whether `$` ends it
        if len(plain := set(self._prefixes)) < len(group.patterns):
            for pattern, allows in group.patterns.items():
                if pattern not in plain:
                    self._add(pattern, allows)
            self._wildcards.sort(key=itemgetter(0), reverse=True)
        self._usages = [(*_parts(path), words) for path, words in _longest_first(group.usages)]
        self._usage_bytes = sum(map(len, group.usages))
        self._tdm = [(*_parts(path), words) for path, words in group.tdm]
        self._tdm_bytes = sum(len(path) for path, _ in group.tdm)
        self._signals = frozenset(sorted(wishes.combined(group.signals))[: wishes.WISHES_MAX])
        self._lengths = sorted(set(map(len, self._prefixes)))
        wildcard_parts = [parts for _, parts, _ in self._wildcards]
        self._wildcard_bytes = sum(map(len, chain.from_iterable(wildcard_parts)))
        rules = len(self._prefixes) + len(self._wholes) + len(self._wildcards)
        parts = sum(map(len, wildcard_parts))
        rules += sum(len(words) + 1 for words in group.usages.values()) + len(group.signals)
        rules += sum(len(words) + 1 for _, words in group.tdm)
        texts = sum(map(len, group.patterns)) + self._usage_bytes + self._tdm_bytes
        self.nbytes = FILE_BYTES + RULE_BYTES * rules + PART_BYTES * parts + texts
        """Memory this takes, for the cache's bound."""

    def _add(self, pattern: bytes, allows: bool) -> None:
        # As Google counts: escapes as they stand, and octets that a URL has to escape as their escapes.
        octets = len(pattern) if pattern.isascii() else len(_HIGH.sub(b"%xx", pattern))
        rank = 2 * octets + allows
        parts, whole = _parts(pattern)
        if len(parts) == 1:
            ranks = self._wholes if whole else self._prefixes
            ranks[parts[0]] = max(rank, ranks.get(parts[0], 0))
        else:
            self._wildcards.append((rank, parts, whole))
        if allows and b"/index.htm" in pattern:  # as Google: where its index is allowed, `/` is
            slash = pattern.rfind(b"/")
            if pattern.startswith(b"/index.htm", slash):
                self._add(pattern[: slash + 1] + b"$", True)

    def allowed(self, url: bytes) -> bool:
        """Whether a URL (stored form), or its path and query alone, may be requested."""
        path = _path(url)
        return path == b"/robots.txt" or self._rank(path) % 2 == 1

    def wishes_for(self, url: bytes) -> wishes.Wishes:
        """What the file says about the use of a URL: its Content-Signal lines, and those lines of Content-Usage that
        have the longest path of all that match. That is asked of URLs that may be requested."""
        if not self._usages:
            return self._signals
        path = _unescaped(_path(url))
        if self._usage_bytes * len(path) > WORK_MAX:
            return self._signals
        for parts, whole, words in self._usages:
            if path == parts[0] if len(parts) == 1 and whole else _matches(path, parts, whole):
                return wishes.combined(self._signals | words)
        return self._signals

    def tdm_for(self, url: bytes) -> wishes.Wishes:
        """What tdmrep.json says about the use of a URL (tdmrep.py)."""
        if not self._tdm:
            return wishes.NONE
        path = _unescaped(_path(url))
        if self._tdm_bytes * len(path) > WORK_MAX:
            return wishes.NONE
        for parts, whole, words in self._tdm:
            if path == parts[0] if len(parts) == 1 and whole else _matches(path, parts, whole):
                return words
        return wishes.NONE

    def _rank(self, path: bytes) -> int:
        """Of the rule that decides about a path; 1 if none does, 0 if that would be too much work."""
        path = _unescaped(path)
        best = self._wholes.get(path, 1)
        for length in self._lengths:
            if length > len(path):
                break
            best = max(best, self._prefixes.get(path[:length], 1))
        if self._wildcard_bytes * len(path) > WORK_MAX:
            return 0
        for rank, parts, whole in self._wildcards:
            if rank < best:
                break
            if _matches(path, parts, whole):
                return rank
        return best


def verdict(text: bytes, product_token: str, url: bytes) -> tuple[bool, str | None]:
    """(whether a URL may be requested, the line that decides: the longest that matches it), for people."""
    rules, path = Rules(text, product_token), _path(url)
    allowed, rank = rules.allowed(url), rules._rank(path)
    for pattern, allows in _group_for(text, product_token.lower().encode("ascii")).patterns.items():
        line = b"%s: %s" % (b"Allow" if allows else b"Disallow", pattern)
        if rank > 1 and allows == allowed and Rules(b"User-agent: *\n" + line, product_token)._rank(path) == rank:
            return allowed, _HIGH.sub(lambda octet: b"%%%02X" % octet[0][0], line).decode("ascii")
    return allowed, None


def _path(url: bytes) -> bytes:
    return url if url.startswith(b"/") else url[url.index(b"/", url.index(b"//") + 2) :]


def _unescaped(text: bytes) -> bytes:
    """Paths and literal parts of patterns as they are compared: an octet is the same octet however it is written, but
    for reserved ones."""
    return _ESCAPE.sub(lambda escape: _OCTETS[escape[0]], text) if b"%" in text else text


def _parts(pattern: bytes) -> tuple[list[bytes], bool]:
    """(what stands between the `*` of a pattern, whether `$` ends it)."""
    whole = pattern.endswith(b"$")
    text = pattern[:-1] if whole else pattern.rstrip(b"*")
    literals = (_STARS.sub(b"*", text) if b"**" in text else text).split(b"*")
    return [_unescaped(literal) for literal in literals] if b"%" in text else literals, whole


def _longest_first(usages: dict[bytes, set[str]]) -> list[tuple[bytes, wishes.Wishes]]:
    """Paths with what is said of them; of a path that stands twice all that is said."""
    return sorted(((path, wishes.combined(words)) for path, words in usages.items()), key=lambda one: -len(one[0]))


def _matches(path: bytes, parts: list[bytes], whole: bool) -> bool:
    """Whether a path has the parts one after the other, the first at its start, and with `whole` the last at its end.
    The first place of each part is as good as any later one, so nothing is tried twice."""
    if not path.startswith(parts[0]):
        return False
    end = len(parts[0])
    for part in parts[1:-1] if whole else parts[1:]:
        at = path.find(part, end)
        if at < 0:
            return False
        end = at + len(part)
    return not whole or (path.endswith(parts[-1]) and len(path) - len(parts[-1]) >= end)


@dataclass(slots=True)
class _Group:
    """What a robots.txt says to some agent, all its groups for that agent together."""

    patterns: dict[bytes, bool] = field(default_factory=dict)  # whether it allows; of two that are equal allow wins
    crawl_delay: float | None = None
    usages: dict[bytes, set[str]] = field(default_factory=dict)  # preferences of Content-Usage by path; b"": all
    signals: set[str] = field(default_factory=set)  # of Content-Signal
    tdm: list[tuple[bytes, wishes.Wishes]] = field(default_factory=list)  # by path, in order; of all agents


def _group_for(text: bytes, token: bytes) -> _Group:
    """Of every group that names `token`, or else of every group for `*`."""
    ours, everyone = _Group(), _Group()
    named = False  # some group names us, so `*` is not for us even if that group is empty
    for_us = for_all = in_agents = False
    groups: list[_Group] = []  # of the agents so far
    for record in _RECORD.finditer(text.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n")):
        kind, value = record[1][:2].lower(), record[record.lastindex or 2].strip()
        if kind == b"us":
            if not in_agents:
                for_us = for_all = False
            in_agents = True
            found = _AGENT_TOKEN.match(value)
            for_all = for_all or (found is not None and found[1] is None)
            for_us = for_us or (found is not None and found[1] is not None and found[1].lower() == token)
            named = named or for_us
            groups = [group for group, applies in ((ours, for_us), (everyone, for_all)) if applies]
            continue
        if kind == b"ir":  # of all agents
            if (rule := tdmrep.rule_of(value)) is not None and len(ours.tdm) < tdmrep.RULES_MAX:
                ours.tdm.append(rule)
                everyone.tdm.append(rule)
            continue
        if kind == b"cr":  # for the agents so far; others may follow
            if (delay := _seconds(value)) is not None:
                for group in groups:
                    group.crawl_delay = max(delay, group.crawl_delay or 0.0)
            continue
        if kind == b"co":  # the same
            for group in groups:
                _take_wishes(group, record[1].lower(), value)
            continue
        in_agents = False
        for group in groups if value[:1] in (b"/", b"*") else ():
            group.patterns[value] = kind == b"al" or group.patterns.get(value, False)
    return ours if named else everyone


def _take_wishes(group: _Group, name: bytes, value: bytes) -> None:
    """A line `Content-Usage: [/path] preferences`, or of Content-Signal."""
    if name == b"content-signal":
        group.signals |= wishes.of_signal(value.decode("latin-1"))
        return
    path, said = b"", value
    if value.startswith(b"/"):
        path, said = (*value.replace(b"\t", b" ").split(b" ", 1), b"")[:2]
    if words := wishes.of_usage(said.strip().decode("latin-1")):
        group.usages.setdefault(path, set()).update(words)


def _seconds(value: bytes) -> float | None:
    """Of a Crawl-delay; None if it is no number of seconds."""
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def outcome(status: int | None, params: config.Robots, rest_seconds: float) -> tuple[Robots, float]:
    """What the final answer to a request for robots.txt means: (state, seconds for which it holds). rest_seconds: for
    how long an answer that closes the host does.

    `status` is the last HTTP status after redirects, None when there was no response (DNS, connection, TLS, timeout,
    broken HTTP). RFC 9309 2.3.1: 2xx brings rules; 4xx means no restrictions; 5xx and no answer close the host for a
    while. So do 429 (an overloaded server has not given permission) and an endless redirect.
    """
    if status is not None and 200 <= status < 300:
        return Robots.RULES, params.fresh_seconds
    if status is not None and 400 <= status < 500 and status != 429:
        return Robots.ALLOW, params.fresh_seconds
    return Robots.DENY, rest_seconds


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
