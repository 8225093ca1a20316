"""The start tags of a page by HTML's tokenizer rules alone, in linear time whatever the page is.

A tree can take time and memory quadratic in the page: nested elements, thousands of attributes, formatting elements
that every paragraph reopens. One megabyte of `<div>` keeps Lexbor busy for minutes, and closing tags prove nothing, for
they can hide in comments and attributes. And links need no tree. An automaton (RE2) proves, mostly for a whole page at
once, that its markup is written as nearly everybody writes it; in such markup every `<` starts a token, and one plain
search finds the tags of interest. Other markup is read token by token. That costs half of building a tree, or less
(docs/performance.md). Questions that only a tree answers stay open: a link inside `<select>` counts as a link. The end
of an element that hides its content is found by counting tags of its name.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from html.entities import html5
from typing import NamedTuple

import re2

WINDOW_BYTES = 64 << 10
"""Of ordinary markup read at a time."""
WORK_MAX = 100_000
"""Units of work, each about 5 microseconds, that the reading of one page may take: a MB of ordinary markup takes 4,096,
one of tags that must be looked at one by one up to 200,000. More is left unread."""
STOP_WORK = 400
"""Units between two stops."""
FAST_BYTES = 256
"""Of ordinary markup that a unit of work reads."""
PARTS = 32
"""Tags and attributes of other markup that a unit of work reads."""
TOKENS_MAX = 1000
"""Tokens that are no tags of interest, read at a time."""
ATTRIBUTES_MAX = 200_000
"""A tag with more ends the reading."""
COMMENT_BYTES = 32 << 10
"""The end of a longer comment is looked for by an automaton, which takes a tenth of a pattern's time."""
TOKEN_BYTES = 1 << 20
"""Behind longer tags, or text, there is a stop before anything else looks at them."""
ATTRIBUTES_BYTES_MAX = 4 << 20
"""Bytes of a tag in which attributes are looked for."""
VALUE_BYTES_MAX = 256 << 10
"""Bytes of an attribute's value that are read."""

_RAW_TEXT = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_NAMED = ("link", "meta", "base", "area")
_STOPS = ("a", "frame", "noscript", "plaintext", "svg", "math", "template", *_NAMED, *_RAW_TEXT)
"""Start tags that can name a link, or change how the markup behind them is read."""
_ORDINARY = (
    "abbr|acronym|address|article|aside|audio|b|bdi|bdo|big|blockquote|body|br|button|canvas|caption|center|circle|"
    "cite|clippath|code|col|colgroup|data|datalist|dd|defs|del|desc|details|dfn|dialog|dir|div|dl|dt|ellipse|em|"
    "embed|fieldset|figcaption|figure|font|footer|form|g|h1|h2|h3|h4|h5|h6|head|header|hgroup|hr|html|i|img|input|"
    "ins|kbd|label|legend|li|line|lineargradient|main|map|mark|menu|meter|nav|nobr|object|ol|optgroup|"
    "option|output|p|param|path|picture|polygon|polyline|pre|progress|q|rb|rect|rp|rt|rtc|ruby|s|samp|search|section|"
    "select|slot|small|source|span|stop|strike|strong|sub|summary|sup|symbol|table|tbody|td|text|tfoot|th|thead|time|"
    "tr|track|tspan|tt|u|ul|use|var|video|wbr"
)
"""Elements, some of SVG's too, that do neither. The automaton needs the list: it has no "any name but these"."""


def _any_of(names: Iterable[str]) -> str:
    return "|".join("".join(f"[{letter}{letter.upper()}]" for letter in name) for name in names)


_S = r"[ \t\n\r\f]"
_SEPARATORS = b"<=/ \t\n\r\f"

# -- ordinary markup: RE2, so linear however it is written ------------------------------------------------------------

_VALUE_OR_NOT = r"""(?:="[^"<>]*"|='[^'<>]*'|=[^ \t\n\r\f<>"'=`]+)?"""
_NAMES = frozenset(map(chr, range(256))) - frozenset(" \t\n\r\f/<>\"'=")
_ANY_NAME = (_NAMES, _NAMES)
_PLAIN_NAME = (frozenset(string.ascii_lowercase + string.digits + "_:-"), frozenset(string.ascii_lowercase))
"""Of a plain attribute, whose value is in double quotes: characters, and those at the beginning."""


class _Runs(NamedTuple):
    """Each matches text and tags in which every `<` that a letter follows starts a tag, and every `>` behind it ends
    that: so tags can be found in it without looking at anything else."""

    head: re2._Regexp[bytes]
    """Ordinary markup without an `<a>`."""
    body: re2._Regexp[bytes]
    """Ordinary markup whose only tags of interest are `<a>`, written as nearly everybody writes them."""
    any: re2._Regexp[bytes]


def _automaton(expression: str) -> re2._Regexp[bytes]:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    return re2.compile(expression.encode(), options)


def _name(characters: frozenset[str], firsts: frozenset[str], but: tuple[str, ...] = ()) -> str:
    """An attribute's name of those characters that begins with none of the pairs in `but`, in any case."""

    def one(of: frozenset[str], besides: str = "") -> str:
        return "[" + "".join(f"\\x{ord(char):02x}" for char in sorted(of - frozenset(besides + besides.upper()))) + "]"

    rest = one(characters)
    begins = [f"{one(firsts, ''.join(pair[0] for pair in but))}{rest}*"]
    for pair in but:
        first = one(firsts & {pair[0], pair[0].upper()})
        begins.append(f"{first}(?:{one(characters, pair[1])}{rest}*)?")
    return f"(?:{'|'.join(begins)})"


def _runs(attribute: str, of_a: str, of_plain_a: str) -> _Runs:
    """The attributes are those of a tag, of an `<a>`, and of one as nearly everybody writes it."""
    attributes = rf"(?:[ \t\n\r\f/]+{attribute})*[ \t\n\r\f/]*"
    tokens = (
        r"""/[a-zA-Z][^<>"'=]*""",
        rf"(?:(?i:{_ORDINARY})|[a-z]+-[a-z-]*){attributes}",
        r"!--[^<>-]*(?:-[^<>-]+)*--",
        r"![a-zA-Z][^<>]*",
        r"\?[^<>]*",
        *(  # without a slash at the end of the start tag, which in SVG would mean something
            rf"(?i:{name})(?:{_S}+{attribute})*{_S}*>(?:[^<]|<[^<!/a-zA-Z])*</(?i:{name}){_S}*"
            for name in ("script", "style", "title")
        ),
    )
    named = rf"(?i:{'|'.join(_NAMED)}){attributes}"
    plain_a = rf"a(?:{_S}+{of_plain_a})*{_S}*"
    any_a = rf"[aA](?:[ \t\n\r\f/]+{of_a})*[ \t\n\r\f/]*"
    kinds = ((*tokens, named), (*tokens, plain_a), (*tokens, named, any_a))
    return _Runs(*(_automaton(f"[^<]*(?:<(?:{'|'.join(kind)})>[^<]*)*") for kind in kinds))


_ANY_ATTRIBUTE = _name(*_ANY_NAME) + _VALUE_OR_NOT
_ORDINARY_RUNS = _runs(_ANY_ATTRIBUTE, _ANY_ATTRIBUTE, _name(*_PLAIN_NAME) + '="[^"<>]*"')

# In an innocent run besides nothing is hidden, and no `<a>` has a `rel` to look for. To prove that costs nothing, where
# a search costs a look at each byte. An automaton has no "any but these": so it knows beginnings of other names, styles
# without a `y:` as in `display:`, and some values of `rel`. What it does not know may still be innocent.
HARMLESS_RELS = (
    "alternate", "author", "bookmark", "contents", "copyright", "external", "help", "home", "index", "license", "me",
    "next", "noopener", "noreferrer", "prev", "previous", "search", "start", "tag", "top", "up",
)  # fmt: skip
_STYLE = r'style="(?:[^"<>yY]|[lL][yY]|[yY]+[^"<>yY: \t\n\r\f])*[yY]*"'
_REL = f'rel="(?:(?:{"|".join(HARMLESS_RELS)}) ?)*"'
_INNOCENT_RUNS = _runs(
    f"(?:{_name(*_ANY_NAME, ('hi', 'st'))}{_VALUE_OR_NOT}|{_STYLE})",
    f"(?:{_name(*_ANY_NAME, ('hi', 're', 'st'))}{_VALUE_OR_NOT}|{_STYLE}|{_REL})",
    f'(?:{_name(*_PLAIN_NAME, ("hi", "re", "st"))}="[^"<>]*"|{_STYLE}|{_REL})',
)
INNOCENT_RUNS_MAX = 8
"""Behind so many the rest of the page is searched instead: each costs as much as a search of 10 KB."""

# -- what is found in it, and everything else -------------------------------------------------------------------------

# In the patterns every alternative consumes all it looks at (possessively, or to the end): that makes them linear.
# Python before 3.11.5 (Debian 12 has 3.11.2) forgets to go back when the last alternative of a possessive group fails
# half-way (gh-106052): there the last alternative is one that fails at once.
_OR_NOT = r"|(?!)"
_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^ \t\n\r\f>"'][^ \t\n\r\f>]*+)?+"""
_ATTRIBUTE = rf"[^ \t\n\r\f/>][^ \t\n\r\f/>=]*+(?:{_S}*+={_S}*+{_VALUE}{_OR_NOT})?+"
ATTRIBUTES = _ATTRIBUTES = rf"(?:[ \t\n\r\f/]*+{_ATTRIBUTE}{_OR_NOT}){{0,{ATTRIBUTES_MAX}}}+"
_END = r"[ \t\n\r\f/]*+(?:>|\Z)"


def _compiled(expression: str, flags: int = 0) -> re.Pattern[bytes]:
    return re.compile(expression.encode(), flags)


# A `#` behind an `&` may belong to a character reference; any other begins the fragment, which is not captured.
_HREF = (
    rf"""(?:{_S}++(?!href=)[a-z][a-z0-9_:-]*+="[^"]*+"{_OR_NOT})*+{_S}++"""
    rf"""href="([^"#]*+(?:(?<=&)\#[^"#]*+{_OR_NOT})*+\#?)"""
)
_HEAD_TAGS = _compiled(rf"<({_any_of(_NAMED)})(?=[ \t\n\r\f/>])([^<>]*+)")
_REFERENCES = _compiled(f"<a{_HREF}")
_ANY_TAGS = _compiled(rf"<([aA]|{_any_of(_NAMED)})(?=[ \t\n\r\f/>])([^<>]*+)")
_REFERENCE_IN = _compiled(_HREF)
_OTHER = _compiled(
    rf"""(?: [^<]*+
             < (?: /[a-zA-Z][^ \t\n\r\f/>]*+ {_ATTRIBUTES} {_END}
                 | /(?![a-zA-Z])[^>]*+ (?:>|\Z)
                 | !-- (?: -?> | .{{0,{COMMENT_BYTES}}}?--!?> )
                 | (?: !(?!--) | \? )[^>]*+
                 | (?!(?:{_any_of(_STOPS)})[ \t\n\r\f/>])[a-zA-Z][^ \t\n\r\f/>]*+ {_ATTRIBUTES} {_END}
                 | (?![!?/a-zA-Z])
               )
         ){{1,{TOKENS_MAX}}}+""",
    re.VERBOSE | re.DOTALL,
)
"""Text, and tokens that are no start tags of interest; no comment of more than COMMENT_BYTES."""
_TAG = _compiled(rf"[^<]*+<([a-zA-Z]++)({_ATTRIBUTES})[ \t\n\r\f/]*+(?:(>)|\Z)")
_RAW_TEXT_END = {name: _automaton(rf"(?i)</{name}[ \t\n\r\f/>]") for name in _RAW_TEXT}
_COMMENT_END = _automaton("--!?>")
_FOREIGN_END = {name: _automaton(rf"(?i)</{name}[ \t\n\r\f/>]") for name in ("svg", "math")}
_NESTED_FOREIGN = _compiled(
    rf"(?:[^<]*+<(?:{_any_of(('svg', 'math'))})(?=[ \t\n\r\f/>]){_ATTRIBUTES}[ \t\n\r\f/]*+>{_OR_NOT})"
    rf"{{1,{TOKENS_MAX}}}+"
)
_TEMPLATE = _automaton(r"(?i)</?template[ \t\n\r\f/>]")
_REFERENCE = re.compile(r"&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[a-zA-Z][a-zA-Z0-9]*+(?:;|(?!=)))")


_XLINK = "xlink:href"

# -- what nobody sees -------------------------------------------------------------------------------------------------

_UNSEEN_STYLE = r"(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))"
_HIDING_WORDS = (rf"style\s*=[^<>]*{_UNSEEN_STYLE}", r"hidden[\s/=>]")
_HIDING = tuple(_automaton(f"(?i){word}") for word in _HIDING_WORDS)
"""In a start tag that may hide what is in it. Each begins with letters, which RE2 looks for at four times the speed."""
_SAYS_UNSEEN = re.compile(rf"(?:^|[;\s]){_UNSEEN_STYLE}", re.IGNORECASE)
_START = _compiled(rf"<([a-zA-Z][^ \t\n\r\f/>]*+)({_ATTRIBUTES})[ \t\n\r\f/]*+(?:>|\Z)")
_COMMENT = r"!--(?:-?>|.*?--!?>|.*+)"
_TOKEN = _compiled(rf"<(?:{_COMMENT}|[!?/][^>]*+|[a-zA-Z][^ \t\n\r\f/>]*+{_ATTRIBUTES})", re.DOTALL)
_CHILDLESS = frozenset({
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
})  # fmt: skip
_SHOWN_BY_SCRIPTS = frozenset({"html", "body"})
"""A page that hides all of itself shows it later."""
_TAG_IN = _compiled(
    r"<(?:(!--|(?:script|style|textarea|title)(?=[\s/>]))|(/?[a-zA-Z][^ \t\n\r\f/>]*+)[^<>]*+)", re.IGNORECASE
)
"""A tag, whose name is group 2 (with the slash of an end tag); or as group 1 the start of a comment or of raw text."""
_ENDED_BY = {
    name: frozenset(tags.split())
    for names, tags in {
        "a": "a /a",
        "li": "li /li /ul /ol /menu",
        "dt dd": "dt dd /dt /dd /dl",
        "td th": "td th tr tbody /td /th /tr /tbody /table",
        "tr": "tr tbody /tr /tbody /table",
        "option": "option optgroup /option /optgroup /select",
        "p": "p /p div /div ul /ul ol table section /section form h1 h2 h3 h4 /li /td /article",
    }.items()
    for name in names.split()
}
"""By names of elements that need no end tag, or no other one inside: tags that end such an element."""


class Attributes:
    """The attributes of a start tag, read when they are asked for."""

    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = text[:ATTRIBUTES_BYTES_MAX]

    def get(self, name: str) -> str | None:
        """The value of the first attribute with this (lower-case) name; None if there is none."""
        found = _finder(name).match(self._text)
        if found is None:
            return None
        return unescaped(found[1] or found[2] or found[3] or b"")


@lru_cache(maxsize=64)
def _finder(name: str) -> re.Pattern[bytes]:
    """Matches a start tag's attributes up to the first of that name; its value is group 1, 2 or 3."""
    others = rf"(?:[ \t\n\r\f/]*+(?!{re.escape(name)}(?:[ \t\n\r\f/=]|\Z)){_ATTRIBUTE}{_OR_NOT})*+"
    value = r"""(?:"([^"]*+)|'([^']*+)|([^ \t\n\r\f>"'][^ \t\n\r\f>]*+))"""
    expression = rf"{others}[ \t\n\r\f/]*+{re.escape(name)}(?:{_S}*+={_S}*+{value}?+{_OR_NOT})?+"
    return _compiled(expression, re.IGNORECASE)


def unescaped(value: bytes) -> str:
    """An attribute's value in UTF-8, character references resolved."""
    text = value[:VALUE_BYTES_MAX].decode("utf-8", "replace").replace("\0", "\ufffd")
    return _REFERENCE.sub(_character, text) if "&" in text else text


def _character(reference: re.Match[str]) -> str:
    """The character that a reference in an attribute stands for. A name counts whole or not at all (HTML 13.2.5.73):
    `&section` is no `&sect`. A number with very many digits stands for none."""
    text = reference[0]
    if text[1] != "#":
        return html5.get(text[1:], text)
    return "\ufffd" if len(text) > 40 else html.unescape(text)


class Work:
    """The work that may still go into a page. `over`: there was more to do, and it was left undone."""

    __slots__ = ("left", "over")

    def __init__(self, left: int = WORK_MAX) -> None:
        self.left = left
        self.over = False

    def take(self, units: int) -> bool:
        """Whether there was so much left."""
        self.left -= units
        self.over = self.over or self.left < 0
        return not self.over


class Element(NamedTuple):
    """A start tag. hidden: nobody sees it, for the page hides it or an element it is in (`Unseen`)."""

    tag: str
    attrs: Attributes
    hidden: bool = False


def elements(markup: bytes, *rels: str, work: Work | None = None) -> Iterator[Element | bytes | None]:
    """The start tags of elements that can name a link (a, area, base, frame, iframe, link, meta), in order; of ordinary
    ones that are alike, perhaps only the first.

    Most `<a>` come as their references: as they are written (see unescaped), up to the fragment. `rels` (lower case)
    are values of the attribute `rel` to look for, none of HARMLESS_RELS: each `<a>` that may have one is an element,
    and so is each that is hidden, and, behind the first `<svg>`, each that may have an `xlink:href`. None is a stop: so
    much work went before that others may want to come first. Where `work` is over the page is read no further.
    """
    work = work or Work()
    stop = work.left - STOP_WORK
    at = 0
    foreign_end = 0
    svg = False
    unseen = Unseen(markup, work)
    wanted: re2._Regexp[bytes] | None = None
    runs, innocent = _INNOCENT_RUNS, INNOCENT_RUNS_MAX
    while True:
        if work.left < stop:
            stop = work.left - STOP_WORK
            yield None
        if work.over:
            return
        began = start = at
        at = _end(runs.head, markup, at)
        head_end, at = at, _end(runs.body, markup, at)
        for begin, upto, hidden in unseen.parts(start, at):
            for tag, text in _HEAD_TAGS.findall(markup, begin, min(upto, head_end)):
                yield Element(tag.decode("ascii").lower(), Attributes(text), hidden)
            yield from _references(markup, max(begin, head_end), upto, wanted, hidden)
            if work.left < stop:
                stop = work.left - STOP_WORK
                yield None
                if not work.take(0):
                    return
        if markup.startswith((b"<a", b"<A"), at):
            start, at = at, _end(runs.any, markup, at)
            for begin, upto, hidden in unseen.parts(start, at):
                yield from _tags(markup, begin, upto, wanted, hidden)
                if work.left < stop:
                    stop = work.left - STOP_WORK
                    yield None
                    if not work.take(0):
                        return
        work.take(1 + (at - began) // FAST_BYTES)
        if at - began >= WINDOW_BYTES // 2:
            continue  # the window may have ended it
        other = _OTHER.match(markup, at)
        tag = _TAG.match(markup, at) if other is None else None
        if other is None and tag is None and markup.startswith(b"<!--", comment := markup.find(b"<", at)):
            at = behind_comment(markup, comment)
            work.take((at - comment) // 2048)
            continue
        token = other or tag
        if token is not None and token.end() - at > TOKEN_BYTES:
            yield None
        if runs is _INNOCENT_RUNS and token is not None:
            innocent -= 1
            if not innocent or _telling(rels).search(markup, at, token.end()):
                runs = _ORDINARY_RUNS
                unseen.look()
                if rels and _wanted(rels).search(markup, at):
                    wanted = _wanted(rels) if wanted is None else _wanted(rels, _XLINK)
                continue
        if other is not None:
            work.take(_parts(markup[at : other.end()]))
            unseen.skim(at, other.end())
            at = other.end()
            continue
        if tag is None or tag[3] is None:
            work.over = tag is None and b"<" in markup[at:]  # behind a tag with very many attributes
            return  # the end, or a tag that the page ends in
        work.take(_parts(markup[at : tag.end()]))
        name = tag[1].decode("ascii").lower()
        hidden = unseen.at(tag.start(1) - 1, tag.end(), name == "noscript")
        at = tag.end()
        if name == "noscript":
            continue
        if name == "plaintext":
            return
        if name == "template":
            if (Attributes(tag[2]).get("shadowrootmode") or "").lower() not in ("open", "closed"):
                at = yield from _behind_template(markup, at, work)
        elif name in _FOREIGN_END:
            if name == "svg" and not svg:  # looked for in pages with an SVG only: a search of them all would be felt
                svg = True
                if _wanted((), _XLINK).search(markup, at):
                    wanted = _wanted((), _XLINK) if wanted is None else _wanted(rels, _XLINK)
            if at > foreign_end:
                closing = _FOREIGN_END[name].search(markup, at)
                foreign_end = len(markup) if closing is None else closing.start()
            if nested := _NESTED_FOREIGN.match(markup, at, foreign_end):
                at = nested.end()
        else:
            end = _RAW_TEXT_END.get(name)
            if end is None or name == "iframe":
                yield Element(name, Attributes(tag[2]), hidden)
            if end is not None and not (at < foreign_end and markup.startswith(b"/", at - 2)):
                found = end.search(markup, at)
                if found is None:
                    return
                at = found.start()


def behind_comment(markup: bytes, at: int) -> int:
    """The end of the comment that begins at `at`; the page's, if nothing ends it."""
    if markup.startswith((b">", b"->"), at + 4):
        return markup.index(b">", at) + 1
    end = _COMMENT_END.search(markup, at + 4)
    return len(markup) if end is None else end.end()


def behind_raw_text(markup: bytes, name: str, at: int) -> int:
    """Where the end tag of such an element begins; the page's end, if there is none."""
    found = _RAW_TEXT_END[name].search(markup, at)
    return len(markup) if found is None else found.start()


def _parts(tokens: bytes) -> int:
    """The work that it took to find the end of these tokens: by what stands between tags and attributes."""
    return (len(tokens) - len(tokens.translate(None, _SEPARATORS))) // PARTS + len(tokens) // 2048


def _end(run: re2._Regexp[bytes], markup: bytes, at: int) -> int:
    """Where a run that begins at `at` ends, or its window does: behind a token."""
    found = run.match(markup, at, at + WINDOW_BYTES)
    assert found is not None, "it may be empty"
    return found.end()


def _references(
    markup: bytes, start: int, end: int, wanted: re2._Regexp[bytes] | None, hidden: bool
) -> Iterator[Element | bytes]:
    """As elements, of a run in which every `<a>` is a plain one."""
    if hidden:
        yield from _tags(markup, start, end, wanted, hidden)
        return
    if wanted is not None:
        looked = start
        for word in wanted.finditer(markup, start, end):
            at = markup.rfind(b"<a", looked, word.start())
            tag = _ANY_TAGS.match(markup, at) if at >= 0 else None
            looked = word.end()
            if tag is not None and tag[1] == b"a" and tag.end() >= looked:
                yield from dict.fromkeys(_REFERENCES.findall(markup, start, tag.start()))
                yield Element("a", Attributes(tag[2]))
                start = tag.end()
    yield from dict.fromkeys(_REFERENCES.findall(markup, start, end))


def _tags(
    markup: bytes, start: int, end: int, wanted: re2._Regexp[bytes] | None, hidden: bool
) -> Iterator[Element | bytes]:
    """As elements, of a run in which an `<a>` may be written otherwise."""
    for tag, text in dict.fromkeys(_ANY_TAGS.findall(markup, start, end)):
        is_plain = tag == b"a" and not hidden and not (wanted and wanted.search(text))
        plain = _REFERENCE_IN.match(text) if is_plain else None
        yield Element(tag.decode("ascii").lower(), Attributes(text), hidden) if plain is None else plain[1]


@lru_cache(maxsize=16)
def _wanted(rels: tuple[str, ...], *words: str) -> re2._Regexp[bytes]:
    """Finds an attribute `rel` with one of the values, or one of the words, in any case."""
    return _automaton(f"(?i){'|'.join([*_says(rels), *map(re2.escape, words)])}")


@lru_cache(maxsize=16)
def _telling(rels: tuple[str, ...]) -> re2._Regexp[bytes]:
    """Finds what makes markup less than innocent."""
    return _automaton(f"(?i){'|'.join([*_says(rels), *_HIDING_WORDS])}")


def _says(rels: tuple[str, ...]) -> list[str]:
    values = "|".join(map(re2.escape, rels))
    return [rf"rel\s*=\s*(?:\"[^\"<>]*|'[^'<>]*|[^\s\"'<>]*)(?:{values})"] if rels else []


class Unseen:
    """The parts of a page that nobody sees: `<noscript>`, and what the attribute `hidden` or an inline style
    (display: none, visibility: hidden) hides. To be asked from the page's beginning to its end."""

    def __init__(self, markup: bytes, work: Work) -> None:
        self._markup = markup
        self._work = work
        self._words: list[_Words] = []  # that may hide something
        self._end = 0  # of the last such part found, as far as its tags were counted
        self._tags: Iterator[int] | None = None  # the count goes on

    def look(self) -> None:
        """From here on something may be hidden, not only by `<noscript>`."""
        self._words = [_Words(word, self._markup) for word in _HIDING]

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Ordinary markup cut where a part begins or ends: (start, end, whether it is hidden), in order."""
        while start < end:
            hidden = self._hidden(start, end)
            stop = min(self._end, end) if hidden else self._next(start, end)
            if stop > start:
                yield start, stop, hidden
            start = stop

    def at(self, start: int, end: int, may: bool = False) -> bool:
        """Whether the start tag there is in such a part, or begins one. may: it may, whatever words are in it."""
        return self._hidden(start, end) or ((may or self._word(start, end) is not None) and self._begins(start))

    def skim(self, start: int, end: int) -> None:
        """Other markup, without tags of interest, perhaps with comments."""
        if self._word(start, end) is not None:
            for token in _TOKEN.finditer(self._markup, start, end):
                self.at(token.start(), token.end())

    def _hidden(self, at: int, until: int) -> bool:
        """Whether the place is in the last part found, whose tags are counted up to `until`."""
        if self._tags is not None and self._end < until:
            for end in self._tags:
                self._end = end
                if end >= until:
                    break
            else:
                self._tags = None
        return at < self._end

    def _next(self, start: int, end: int) -> int:
        """Where the next part begins; `end` if there is none."""
        while (word := self._word(start, end)) is not None:
            tag = self._markup.rfind(b"<", start, word + 1)  # none: it stands in the same tag or text as the last
            if tag >= 0 and self._begins(tag):
                return tag
            start = self._markup.find(b"<", word + 1, end)
            if start < 0:
                break
        return end

    def _word(self, start: int, end: int) -> int | None:
        """The next place that may hide something, if it is before `end`."""
        word = min((words.next(start) for words in self._words), default=end)
        return word if word < end else None

    def _begins(self, at: int) -> bool:
        """Whether a part begins with the start tag there."""
        self._work.left -= 1
        tag = _START.match(self._markup, at)
        if tag is None:
            return False
        name = tag[1].decode("latin-1").lower()
        if not _hides(name, Attributes(tag[2])):
            return False
        empty = name in _CHILDLESS or self._markup.startswith(b"/", tag.end() - 2)
        self._end = tag.end()
        self._tags = None if empty else _until(self._markup, tag.end(), name, self._work)
        return True


class _Words:
    """Where an automaton finds something in a page, asked for from the page's beginning to its end."""

    def __init__(self, word: re2._Regexp[bytes], markup: bytes) -> None:
        self._word = word
        self._markup = markup
        self._next = -1

    def next(self, start: int) -> int:
        """The first such place from `start` on; the page's end if there is none."""
        if self._next < start:
            found = self._word.search(self._markup, start)
            self._next = len(self._markup) if found is None else found.start()
        return self._next


def _hides(name: str, attrs: Attributes) -> bool:
    if name == "noscript" or name in _SHOWN_BY_SCRIPTS:
        return name == "noscript"
    hidden = attrs.get("hidden")
    if hidden is not None and hidden.lower() != "until-found":  # which is searched, and shown if it is found
        return True
    return _SAYS_UNSEEN.search(attrs.get("style") or "") is not None


def _until(markup: bytes, at: int, name: str, work: Work) -> Iterator[int]:
    """How far an element reaches whose start tag ends at `at`, tag by tag."""
    ends, starts = _ENDED_BY.get(name, frozenset({"/" + name})), name if name not in _ENDED_BY else ""
    depth = 1
    while at < len(markup):
        for tag in _TAG_IN.finditer(markup, at):
            work.left -= 1
            if tag[1] is not None:
                yield tag.start()
                raw = tag[1].decode("ascii").lower()
                at = behind_comment(markup, tag.start()) if raw == "!--" else behind_raw_text(markup, raw, tag.end())
                break
            found = tag[2].decode("latin-1").lower()
            if found in ends:
                depth -= 1
            elif found == starts:
                depth += not tag[0].endswith(b"/")
            yield tag.start()
            if not depth:
                return
        else:
            break
    yield len(markup)


def _behind_template(markup: bytes, at: int, work: Work) -> Generator[None, None, int]:
    """The end of a template that began before `at`: what is in it is no part of the page, unless it is an open shadow
    root (`shadowrootmode`), which readers see. In steps."""
    depth = 1
    for count, tag in enumerate(_TEMPLATE.finditer(markup, at), 1):
        depth += -1 if tag[0].startswith(b"</") else 1
        if count % (8 * STOP_WORK) == 0:
            yield
        if not depth or not work.take(1):
            return tag.start()
    return len(markup)
