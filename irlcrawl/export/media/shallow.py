"""How much of a page of HTML a parser is given: as much as takes it memory and time that go with the page's length.

The rules of HTML let a few bytes make a parser work for hours or fill memory: it looks through all elements that are
open, and each paragraph opens the `<b>` and `<font>` anew that none ended (WHATWG HTML 13.2.4.2, 13.2.4.3). What stands
here is a parser's bookkeeping without its tree. Where the two may differ, more elements are taken for open than are.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from irlcrawl.export.media.extras import compiled, needed

SHALLOW_BYTES = 256 << 10
"""A smaller page takes a parser seconds at most, however its elements lie."""
DEPTH_MAX = 5000
"""Browsers keep 512 elements in each other."""
STEPS_MAX = 1_000_000_000
"""Of a parser that looks at what came before: at a tag, at all open elements; at an attribute, at those of its tag; at
an option, at those of its `<select>`. It takes seconds for so many."""
CLONES_MAX = 1_000_000
"""Formatting elements that a parser may open anew, some 400 bytes each: at a tag, all that are open."""
TAGS_MAX = 4_000_000
"""An element and its text take some 300 bytes."""
NAMES_MAX = 10_000
"""Distinct names of elements, and of attributes, in a page: a parser looks for a name among those that it met."""

_NO_END = frozenset((
    b"a", b"area", b"base", b"body", b"br", b"button", b"col", b"colgroup", b"dd", b"dt", b"embed", b"head", b"hr",
    b"html", b"img", b"input", b"li", b"link", b"meta", b"option", b"p", b"param", b"source", b"tbody", b"tfoot",
    b"thead", b"tr", b"track", b"wbr",
))  # fmt: skip
"""Elements that hold nothing, or that the next of them ends."""
_FORMATTING = frozenset((
    b"b", b"big", b"code", b"em", b"font", b"i", b"nobr", b"s", b"small", b"strike", b"strong", b"tt", b"u",
))  # fmt: skip
"""Elements that are opened anew; but for `a`, of which each ends the one before."""
SAME_MAX = 3
"""Formatting elements that are alike, and are opened anew."""
_DRAWN, _SELECT = (b"svg", b"math"), b"select"
_CELLS = (b"td", b"th", b"caption")
_MARKERS = frozenset((*_CELLS, b"applet", b"marquee", b"object", b"template"))
"""Elements with whose end that of all formatting in them comes."""
_SCOPES = _MARKERS.union(_DRAWN, (
    _SELECT, b"table", b"foreignobject", b"desc", b"annotation-xml", b"mi", b"mn", b"mo", b"ms", b"mtext",
))  # fmt: skip
"""Elements in which an end tag ends none that was opened before them."""
_BREAK_OUT = frozenset((
    b"b", b"big", b"blockquote", b"body", b"br", b"center", b"code", b"dd", b"div", b"dl", b"dt", b"em", b"embed",
    b"h1", b"h2", b"h3", b"h4", b"h5", b"h6", b"head", b"hr", b"i", b"img", b"li", b"listing", b"menu", b"meta",
    b"nobr", b"ol", b"p", b"pre", b"ruby", b"s", b"small", b"span", b"strong", b"strike", b"sub", b"sup", b"table",
    b"tt", b"u", b"ul", b"var",
))  # fmt: skip
"""HTML that no drawing holds (WHATWG HTML 13.2.6.5): it ends the drawing."""
_MAY_BREAK_OUT = (b"font", b"p", b"br")
"""A `<font>` does by its attributes, an end tag in newer parsers: then a slash may close nothing."""
_TEXT = frozenset((
    b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes", b"plaintext",
))  # fmt: skip
"""Elements whose content is text; in a drawing or a `<select>` it may be markup."""

_ATTRIBUTE = rb"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+)?+)?+"""
_TOKEN = re.compile(
    rb"<(?:!--(?:-?>|(?:[^-]++|-(?!-!?>))*+)|(!\[CDATA\[)|[!?][^>]*+|/(?![a-z])[^>]*+"
    rb"|(/?)([a-z][^\s/>]*+)((?:\s++|/(?!>)|" + _ATTRIBUTE + rb")*+)(/?)(?:(>)|\Z))",
    re.IGNORECASE,
)
"""A comment, CDATA (1), or a tag: slash of an end tag (2), its name (3), attributes (4), last slash (6), end (7)."""
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_SCRIPT = re.compile(rb"<script", re.IGNORECASE)
_CDATA_END, _COMMENT_END = re.compile(rb"\]\]>"), re.compile(rb"-->")
_INLINE = r"""(?:\s++[\w:-]++(?:=(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=`/]++))?+)*+\s*+>"""
_FORMATS = "|".join(name.decode() for name in sorted(_FORMATTING))
_LEFT_OPEN = rf"""(?i)<(?=[bcefinstu])(?:({_FORMATS}){_INLINE}(?:[^<]++|<(a|span|{_FORMATS}){_INLINE}[^<]*+</\2>)*+</\1>
(*SKIP)(*FAIL)|(?:{_FORMATS})[\s/>])""".replace("\n", "").encode()
"""The tag of a formatting element that does not end after words and elements of words."""
_LONG_TAG_BYTES, _TAGS_AT_ONCE = 1000, 4096
"""Shorter tags have few attributes; of so many tags those are looked at together."""


def shallow(markup: bytes) -> bytes:
    """The markup, up to the first tag from which on a parser would take more than the bounds above. Most pages cost no
    more than a look at their length."""
    tags = markup.count(b"<")
    if len(markup) <= SHALLOW_BYTES and (tags * tags <= CLONES_MAX or tags * _left_open(markup) <= CLONES_MAX):
        return markup
    return markup[: _Page(markup).end()]


def _left_open(markup: bytes) -> int:
    """At least as many as the formatting elements that are ever open at once."""
    try:
        _, found = compiled(_LEFT_OPEN).subn(b"", markup)
    except needed("pcre2", "reading HTML").LibraryError:  # without machine code it bounds its steps
        return len(markup)
    return int(found) + 2


class _Scope:
    """What is open in one of _SCOPES, or in none."""

    __slots__ = ("depth", "doubtful", "formatting", "name", "opened")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.depth = 0
        self.doubtful = False  # of a drawing: it may have ended
        self.opened: Counter[bytes] = Counter()
        self.formatting: list[tuple[bytes, bytes]] = []  # (name, attributes) of what may be opened anew, in order


class _Page:
    def __init__(self, markup: bytes) -> None:
        self._markup = markup
        self._found: dict[re.Pattern[bytes], tuple[int, int]] = {}  # what -> (from where, where next)
        self._scopes = [_Scope(b"")]
        self._odd = 0  # scopes in which text may be markup
        self._text_until = 0  # end tags before this place may be text
        self._depth = self._formatting = 0
        self._tags = self._steps = self._clones = self._options = self._bodies = 0
        self._names: set[bytes] = set()
        self._attributes: set[bytes] = set()
        self._recent: list[bytes] = []  # attributes of tags, not yet looked at

    def end(self) -> int:
        """How much of it a parser may be given."""
        at: int | None = 0
        while at is not None:
            begin, at = at, None
            for tag in _TOKEN.finditer(self._markup, begin):
                if tag[3] is None:
                    if tag[1] and self._odd:
                        self._text_until = max(self._text_until, self._next(_CDATA_END, tag.end()))
                    continue
                name = tag[3].lower()
                if not tag[7]:  # nor is there a tag behind it
                    break
                if self._beyond(tag, name):
                    return tag.start()
                if tag[2]:
                    if tag.start() >= self._text_until:
                        self._ended(name)
                elif name in _TEXT and not self._odd:
                    at = self._behind_text(name, tag.end())
                    break
                else:
                    self._began(name, tag)
                    if self._depth > DEPTH_MAX:
                        return tag.start()
        return len(self._markup)

    def _beyond(self, tag: re.Match[bytes], name: bytes) -> bool:
        """Whether a tag is too much."""
        self._tags += 1
        self._steps += self._depth
        self._names.add(name)
        if not tag[2]:
            self._clones += self._formatting
            if name in (b"option", b"optgroup"):
                self._options += 1
                self._steps += self._options
            elif name in (b"body", b"html"):
                self._bodies += 1
                self._steps += self._bodies
        if attributes := tag[4]:
            if len(attributes) > _LONG_TAG_BYTES:
                names = _ATTRIBUTES.findall(attributes)
                self._steps += len(names) * len(set(names)) // 2
            self._recent.append(attributes)
            if len(self._recent) >= _TAGS_AT_ONCE:
                self._attributes.update(_ATTRIBUTES.findall(b" ".join(self._recent)))
                self._recent.clear()
        return (
            self._steps > STEPS_MAX or self._clones > CLONES_MAX or self._tags > TAGS_MAX
            or len(self._names) > NAMES_MAX or len(self._attributes) > NAMES_MAX
        )  # fmt: skip

    def _began(self, name: bytes, tag: re.Match[bytes]) -> None:
        scope = self._scopes[-1]
        while scope.name in _DRAWN and name in _BREAK_OUT:
            scope = self._leave()
        if name in _NO_END:
            return
        if name in _CELLS and scope.name in _CELLS:
            scope = self._leave()
        scope.doubtful |= name in _MAY_BREAK_OUT
        if tag[6] and (name in _DRAWN or (scope.name in _DRAWN and not scope.doubtful)):
            return
        self._depth += 1
        if name in _SCOPES or name in _TEXT:  # text that is read as markup here
            self._options *= name != _SELECT
            self._scopes.append(scope := _Scope(name))
            self._odd += name in _DRAWN or name == _SELECT
            if name in _TEXT:
                self._text_until = max(self._text_until, self._next(_end_of(name), tag.end()))
        elif name in _FORMATTING:
            alike = name, tag[4]
            if scope.formatting.count(alike) >= SAME_MAX:
                scope.formatting.remove(alike)
                self._formatting -= 1
            scope.formatting.append(alike)
            self._formatting += 1
        scope.depth += 1
        scope.opened[name] += 1

    def _ended(self, name: bytes) -> None:
        scope = self._scopes[-1]
        scope.doubtful |= name in _MAY_BREAK_OUT
        if name == b"table" and scope.name in _CELLS and self._scopes[-2].name == name:
            scope = self._leave()
        if name in _SCOPES or name in _TEXT:
            if name == scope.name:
                self._leave()
            return
        if name in _FORMATTING:
            last = next((one for one in reversed(scope.formatting) if one[0] == name), None)
            if last is not None:
                scope.formatting.remove(last)
                self._formatting -= 1
        if scope.opened[name]:
            scope.opened[name] -= 1
            scope.depth -= 1
            self._depth -= 1

    def _leave(self) -> _Scope:
        """The scope around the innermost one, which ends."""
        left, scope = self._scopes.pop(), self._scopes[-1]
        self._depth -= left.depth
        self._odd -= left.name in _DRAWN or left.name == _SELECT
        if left.name in _MARKERS:
            self._formatting -= len(left.formatting)
        else:
            scope.formatting += left.formatting
        return scope

    def _behind_text(self, name: bytes, at: int) -> int:
        """Where the text of an element ends that begins here."""
        if name == b"plaintext":
            return len(self._markup)
        end = self._next(_end_of(name), at)
        comment = self._markup.find(b"<!--", at, end) if name == b"script" else -1
        if comment >= 0 and _SCRIPT.search(self._markup, comment, end):  # `<!--<script></script>` does not end it
            behind = self._next(_end_of(name), self._next(_COMMENT_END, end))
            self._text_until = max(self._text_until, behind)
        return end

    def _next(self, expression: re.Pattern[bytes], at: int) -> int:
        """Where it is found next; the end of the page, if nowhere."""
        since, found = self._found.get(expression, (0, -1))
        if not since <= at <= found:
            match = expression.search(self._markup, at)
            found = match.start() if match else len(self._markup)
            self._found[expression] = at, found
        return found


@lru_cache(maxsize=16)
def _end_of(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</" + name + rb"(?=[\s/>])", re.IGNORECASE)
