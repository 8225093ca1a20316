"""What owners say about the use of their pages, as words: one reader for each place where they say it.

    noindex nofollow noarchive nocache nosnippet noimageindex noai noimageai     X-Robots-Tag, <meta name=robots>
    unavailable_after=2027-01-31T00:00:00Z (`?` for a date that cannot be read)  the same
    train-ai=n search=y …                                                        Content-Usage (IETF AIPREF)
    ai-train=n ai-input=n search=y …                                             Content-Signal (header and robots.txt)
    tdm-reservation=1 tdm-policy=https://…                                       TDMRep

`none` is noindex and nofollow. A wish has no comma and no `+`, so that those of a page are one annotation of the crawl
log and one field of its unit: `noai+train-ai=n`. Where two places contradict each other the more restrictive one holds
(draft-ietf-aipref-vocab-08). Sources: draft-ietf-aipref-attach-05 (header and robots.txt), RFC 9651 (dictionaries),
contentsignals.org, the W3C community group's TDM Reservation Protocol of 2024.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice

SEPARATOR = "+"
WISHES_MAX = 32
"""Wishes of one page that are recorded, and preferences that one line or header may have."""
LABEL_CHARS = 64
"""A preference with a longer label is none."""
POLICY_CHARS = 300
"""Characters of a tdm-policy that are recorded."""
WORDS_MAX = 10_000
"""Robots directives of a page, or of its header, that are read."""
DATES_MAX, DATE_WORDS_MAX, DATE_CHARS_MAX = 8, 8, 200
"""Dates among them, and of each: to read one takes as long as a hundred directives."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

SAID_PLAINLY = frozenset((
    "noindex", "nofollow", "noarchive", "nocache", "nosnippet", "noimageindex", "noai", "noimageai",
))  # fmt: skip
_OF_IMAGES = frozenset(("noimageindex", "noimageai"))
_UNAVAILABLE = "unavailable_after"
_TDM = ("tdm-reservation", "tdm-policy")
META_NAMES = ("robots", *_TDM)
"""Names of `<meta>` elements that speak of use, beside the crawler's own product token."""
HEADERS = frozenset((b"x-robots-tag", b"content-usage", b"content-signal", b"tdm-reservation", b"tdm-policy"))

_DIRECTIVE = re.compile(r"""([^\s,;:"']+)(\s*+:)?""")  # some servers put quotes around all of them
_APART = re.compile("""[,"']""")
_VALUED_DIRECTIVES = frozenset({
    _UNAVAILABLE, "max-snippet", "max-image-preview", "max-video-preview", "revisit-after",
})  # fmt: skip

Wishes = frozenset[str]
NONE: Wishes = frozenset()


# -- robots directives ------------------------------------------------------------------------------------------------


def directives(values: Iterable[str], names: Collection[str]) -> set[str]:
    """The words of X-Robots-Tag values, or of the content of `<meta name=robots>`, that are said to one of `names`
    (lower case), to `*`, or to nobody by name: `otherbot: noindex, nofollow` speaks to otherbot up to the next name."""
    return {word for word, _, _ in _said(values, names)}


def _said(values: Iterable[str], names: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """(word, value, where the word ends in it) of such words."""
    left = WORDS_MAX
    for value in values:
        applies = True
        for found in islice(_DIRECTIVE.finditer(value), left):
            left -= 1
            word, colon = found[1].lower(), found[2]
            # Not every colon follows a name: `unavailable_after: Friday, 25-Jun-10 15:00:00 PST`.
            if colon and word not in _VALUED_DIRECTIVES and not word[0].isdigit():
                applies = word == "*" or word in names
            elif applies:
                yield word, value, found.end()


def of_robots(values: Iterable[str], names: Collection[str]) -> set[str]:
    """The wishes in such values."""
    found, dates = set(), 0
    for word, value, end in _said(values, names):
        if word in SAID_PLAINLY:
            found.add(word)
        elif word == "none":
            found |= {"noindex", "nofollow"}
        elif word == _UNAVAILABLE and dates < DATES_MAX:
            dates += 1
            found.add(f"{_UNAVAILABLE}={_date(value[end : end + DATE_CHARS_MAX].partition(';')[0])}")
    return found


def _date(text: str) -> str:
    """A date in any of the spellings that are used, and perhaps more behind it, as ISO 8601 in UTC. A day without a
    time means its beginning."""
    parts = _APART.sub(" ", text).split(maxsplit=DATE_WORDS_MAX)[:DATE_WORDS_MAX]
    if parts and parts[0][:3].lower() in _DAYS:
        del parts[0]
    for count in range(len(parts), 0, -1):
        part = " ".join(parts[:count])
        for read, written in (
            (datetime.fromisoformat, part),
            (parsedate_to_datetime, part),
            (parsedate_to_datetime, f"{part} 00:00:00 +0000"),
        ):
            try:
                at = read(written)
            except (ValueError, TypeError, IndexError, OverflowError):  # the second one raises what it meets
                continue
            at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
            try:
                utc = at.astimezone(UTC).replace(tzinfo=None)
                return f"{utc.isoformat(timespec='seconds')}Z"  # strftime writes the year 1 as `1`
            except (ValueError, OverflowError):  # a year that UTC does not have
                continue
    return "?"


# -- Content-Usage ----------------------------------------------------------------------------------------------------

# Of a possessive group the last alternative fails at once: see worker/page/scan.py.
_KEY = r"[a-z*][a-z0-9_.*-]*+"
_BARE = (
    r"""(?:"(?:[ !#-\[\]-~]|\\["\\]|(?!))*+"|[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*+"""
    r"""|-?[0-9]{1,15}+(?:\.[0-9]{1,3}+|(?!))?+|:[A-Za-z0-9+/=]*+:|\?[01]|@-?[0-9]{1,15}+|%"[ !#-~]*+")"""
)
_PARAMETERS = rf"(?:; *+{_KEY}(?:={_BARE}|(?!))?+|(?!))*+"
_MEMBER = re.compile(rf"({_KEY})(?:=({_BARE}|\( *+(?:{_BARE}{_PARAMETERS} *+|(?!))*+\))|(?!))?+{_PARAMETERS}")
_COMMA = re.compile(r"[ \t]*+,[ \t]*+")
_PREFERENCES = frozenset("yn")


def of_usage(value: str) -> set[str]:
    """The preferences in a Content-Usage value, all lines of the header joined by commas: `train-ai=n`. Any label is
    recorded, also one that the vocabulary does not have (yet). None where it is no dictionary of RFC 9651."""
    members: dict[str, str | None] = {}
    value = value.strip(" ")
    at = 0
    while at < len(value):
        member = _MEMBER.match(value, at)
        if member is None:
            return set()
        members[member[1]] = member[2]  # of a key that stands twice the last one counts
        at = member.end()
        if at < len(value):
            comma = _COMMA.match(value, at)
            if comma is None or comma.end() == len(value):
                return set()
            at = comma.end()
    if len(members) > WISHES_MAX:
        return set()
    known = ((key, value) for key, value in members.items() if value in _PREFERENCES and len(key) <= LABEL_CHARS)
    return {f"{key}={preference}" for key, preference in known}


# -- Content-Signal ---------------------------------------------------------------------------------------------------

_SIGNAL = re.compile(r"([a-z][a-z0-9_-]{0,63})\s*+=\s*+(yes|no)")


def of_signal(value: str) -> set[str]:
    """The signals in a Content-Signal line or header: `search=yes, ai-train=no` are `search=y` and `ai-train=n`."""
    parts = (_SIGNAL.fullmatch(part.strip()) for part in value.lower().split(","))
    return {f"{part[1]}={part[2][0]}" for part in parts if part is not None}


# -- TDMRep -----------------------------------------------------------------------------------------------------------

_NOT_IN_A_WISH = re.compile(r"[^!-*\--~]")  # a comma, a plus, and all that is not printable ASCII


def of_tdm(name: str, value: str) -> set[str]:
    """The wish in a header or `<meta>` of that name."""
    value = value.strip().strip('"')
    if name == "tdm-reservation":
        return {f"{name}={value}"} if value in ("0", "1") else set()
    escaped = _NOT_IN_A_WISH.sub(_percent, value[:POLICY_CHARS])[:POLICY_CHARS]
    return {f"{name}={escaped}"} if escaped else set()


def _percent(character: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in character[0].encode("utf-8", "replace"))


# -- all together -----------------------------------------------------------------------------------------------------


def of_header(fields: Iterable[tuple[bytes, bytes]], names: Collection[str]) -> set[str]:
    """Of the fields of a response, names in lower case. names: of the agents that we are."""
    robots: list[str] = []
    usage: list[str] = []
    found: set[str] = set()
    for name, value in fields:
        if name not in HEADERS:
            continue
        text = value.decode("latin-1")
        if name == b"x-robots-tag":
            robots.append(text)
        elif name == b"content-usage":
            usage.append(text)
        elif name == b"content-signal":
            found |= of_signal(text)
        else:
            found |= of_tdm(name.decode("ascii"), text)
    if robots:
        found |= of_robots(robots, names)
    return found | of_usage(", ".join(usage)) if usage else found


def of_metas(metas: Collection[tuple[str, str]], names: Collection[str]) -> set[str]:
    """Of the `<meta>` elements of a page: (name in lower case, content) of each."""
    robots = of_robots([content for name, content in metas if name not in _TDM], names)
    return robots.union(*(of_tdm(name, content) for name, content in metas if name in _TDM))


def superseding(nearer: Iterable[str], farther: Iterable[str]) -> set[str]:
    """The wishes of two places; what the nearer one says of TDM takes the place of what the farther one says of it,
    name by name (TDMRep, "Processing priority": meta, header, tdmrep.json)."""
    found = set(nearer)
    said = {name for wish in found if (name := wish.partition("=")[0]) in _TDM}
    return found | {wish for wish in farther if wish.partition("=")[0] not in said}


def combined(wishes: Iterable[str]) -> Wishes:
    """All of them, without those that a more restrictive one contradicts."""
    found = set(wishes)
    if len(found) < 2:
        return frozenset(found)
    for wish in list(found):
        if wish.endswith("=n"):
            found.discard(wish[:-1] + "y")
    if "tdm-reservation=1" in found:
        found.discard("tdm-reservation=0")
    return frozenset(found)


def joined(wishes: Iterable[str]) -> str:
    """As log and archive have them."""
    return SEPARATOR.join(sorted(wishes)[:WISHES_MAX])


def words_of(text: str) -> list[str]:
    """The wishes of such a text."""
    return text.split(SEPARATOR) if text else []


def withheld(wishes: Iterable[str], obeyed: Collection[str], mime: str, now: float) -> bool:
    """Whether one of the wishes that are obeyed (page.wishes_obeyed) asks not to keep a page. `now`: unix seconds."""
    for wish in wishes:
        name, _, value = wish.partition("=")
        if name not in obeyed or (name in _OF_IMAGES and not mime.startswith("image/")):
            continue
        if name == _UNAVAILABLE:
            if value != "?" and datetime.fromisoformat(value).timestamp() <= now:
                return True
        elif value in ("", "n") or wish == "tdm-reservation=1":
            return True
    return False
