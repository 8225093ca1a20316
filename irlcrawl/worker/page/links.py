"""The links of a page: the URLs it names, in stored form, each with the way it names them.

Links are taken from `<a>` (in SVG by `xlink:href`, too) and `<area>`, `<link>` with rel canonical, alternate, next or
prev, frames, the HTML in an iframe's `srcdoc`, and `<meta http-equiv=refresh>`, as `page.scan` finds them; by option
also from link-like strings in scripts. They are resolved against the first `<base>`. References are cut at the fragment
and made distinct before they are resolved: resolving is dear, and that removes more than half of them.

A link for which nobody vouches is followed like others, but raises nobody's reputation: one whose `rel` says ugc,
sponsored or nofollow (where nofollow is not honoured), one that the page hides (page.scan), which goes for `<noscript>`
too, and a string in a script. A URL that the page also names by another link is vouched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from irlcrawl.base.rows import Source
from irlcrawl.base.steps import LARGE_BYTES, Steps, at_once
from irlcrawl.base.url import Base
from irlcrawl.config import keys as config
from irlcrawl.web import wishes
from irlcrawl.web.media_type import essence
from irlcrawl.worker.page import charset, scan, sitemaps

MARKUP_BYTES_MAX = 16 << 20
"""Bytes of markup read of one page; the rest is ignored."""
URL_BYTES_MAX = 16 << 20
"""Bytes of all URLs of one page together: a giant base makes each of them giant."""
RESOLVED_BYTES = 32 << 10
"""Of references resolved between two stops; a reference counts as its length and REFERENCE_BYTES."""
REFERENCE_BYTES = 64
SRCDOC_WORK = 10_000
"""Of scan.WORK_MAX: what may go into all `srcdoc` of a page."""
SRCDOCS_MAX = 100
"""Attributes `srcdoc` read of one page. One inside another is not read."""
CLOSED_BYTES_MAX = 16 << 10
"""Of the attributes of such a tag as `<script/>`."""
DIRECTIVES_CHARS_MAX = 64 << 10
"""Of what one `<meta name=robots>` says."""
CANDIDATES_FACTOR = 4
"""References looked at per link wanted: some references are no links, some name the same URL."""

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
SCRIPT_TYPES = frozenset({
    "text/javascript", "application/javascript", "application/x-javascript", "text/ecmascript",
    "application/ecmascript",
})  # fmt: skip

_LINK_RELS = {
    "canonical": Source.CANONICAL, "alternate": Source.LINK, "next": Source.LINK, "prev": Source.LINK,
    "previous": Source.LINK,
}  # fmt: skip

UNVOUCHED_RELS = ("nofollow", "ugc", "sponsored")
"""Values of `rel` by which a page says that it does not vouch for a link."""

Get = Callable[[str], str | None]
"""An element's attribute by name (lower case)."""


@dataclass
class Found:
    """The links and flags of a page."""

    links: list[tuple[bytes, Source]] = field(default_factory=list)
    """Distinct URLs in stored form, in order of first appearance, without the page itself. A URL named in several ways
    has the lowest source."""
    unvouched: set[bytes] = field(default_factory=set)
    """URLs of `links` that raise nobody's reputation (above)."""
    base: bytes = b""
    """The URL against which references were resolved."""
    charset: str = "utf-8"
    """Python codec of the page."""
    nofollow: bool = False
    """The page (or its header) asks that none of its links be followed. With page.nofollow they are left out."""
    noindex: bool = False
    beyond: int = 0
    """References that were not looked at, for there were enough links. Of a page with more than CANDIDATES_FACTOR times
    as many references as links are taken the rest is not even read, nor counted."""
    named: int = 0
    """Number of links on the page, each counted as often as it stands there."""
    partly: bool = False
    """The page was not read to its end: it is too long, or too much work (scan.WORK_MAX)."""
    canonical: bytes | None = None
    """The URL of which the page calls itself an alias (the first rel=canonical), if that is another one."""


def extract(
    body: bytes,
    content_type: str,
    base_url: bytes,
    params: config.Page,
    *,
    product_token: str = "",
    nofollow: bool = False,
) -> Found:
    """The links of `body` (content-decoded), a page at `base_url` (stored form) with that Content-Type value.

    `product_token` is the crawler's name in `<meta name=...>`; `nofollow` is what X-Robots-Tag said. A body that is
    not HTML (or, with params.scripts, a script) has no links. Never raises on bad input; linear in the body.
    """
    return at_once(extracting(body, content_type, base_url, params, product_token=product_token, nofollow=nofollow))


def extracting(
    body: bytes,
    content_type: str,
    base_url: bytes,
    params: config.Page,
    *,
    product_token: str = "",
    nofollow: bool = False,
) -> Steps[Found]:
    """extract(), in steps."""
    found = Found(base=base_url, nofollow=nofollow)
    kind = _kind(body, content_type)
    if kind is None or (nofollow and params.nofollow) or (kind == "script" and not params.scripts):
        return found
    found.charset = yield from charset.sniffing(body, content_type)
    if len(body) > LARGE_BYTES:
        yield
    page = yield from reading(body, found.charset, content_type, params, product_token)
    found.partly = page.partly
    found.nofollow |= page.nofollow
    found.noindex = page.noindex
    if not (found.nofollow and params.nofollow):
        yield from _resolve(page, base_url, params.links_max, found)
    return found


def read(body: bytes, codec: str, content_type: str, params: config.Page, product_token: str = "") -> References:
    """The references of `body`, not resolved yet."""
    return at_once(reading(body, codec, content_type, params, product_token))


def reading(body: bytes, codec: str, content_type: str, params: config.Page, product_token: str) -> Steps[References]:
    """read(), in steps."""
    kind = _kind(body, content_type)
    markup = body[:MARKUP_BYTES_MAX].removeprefix(b"\xef\xbb\xbf")
    if codec != "utf-8":
        markup = yield from charset.recoding(markup, codec)
    page = References(params, product_token.lower())
    page.partly = len(body) > MARKUP_BYTES_MAX
    if kind == "html":
        xhtml = "xhtml" in content_type.lower()
        yield from page.read((yield from closed(markup)) if xhtml else markup)
    if params.scripts:
        yield from page.read_scripts(_script_texts(markup) if kind == "html" else [markup])
    return page


def is_html(body: bytes, content_type: str) -> bool:
    """Whether a body with that Content-Type value is read as HTML."""
    return _kind(body, content_type) == "html"


def _kind(body: bytes, content_type: str) -> str | None:
    mime = essence(content_type)
    if mime in HTML_TYPES or (not mime and _LOOKS_LIKE_HTML.match(body)):
        return "html"
    return "script" if mime in SCRIPT_TYPES else None


_LOOKS_LIKE_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<!--.{0,4096}?-->\s*+)?"
    rb"<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
"""The start of HTML that came without a Content-Type (WHATWG MIME sniffing 7.1)."""


_RAW_TEXT_SELF_CLOSED = re.compile(
    rb"<(script|style|title|textarea|iframe|noframes|noscript|xmp)((?:\s[^<>]{0,%d})?)/>" % CLOSED_BYTES_MAX,
    re.IGNORECASE,
)


def closed(markup: bytes) -> Steps[bytes]:
    """XHTML may write `<script src="x"/>`, which an HTML parser takes for a script without end."""
    parts: list[bytes] = []
    start = 0
    while start < len(markup):
        end = markup.find(b"<", start + scan.WINDOW_BYTES)  # no such tag has another `<` in it
        end = len(markup) if end < 0 else end
        parts.append(_RAW_TEXT_SELF_CLOSED.sub(rb"<\1\2></\1>", markup[start:end]))
        start = end
        yield
    return b"".join(parts)


class References:
    """References and flags of one page, before anything is resolved."""

    def __init__(self, params: config.Page, product_token: str, srcdocs: int = SRCDOCS_MAX) -> None:
        self._params = params
        self._token = product_token
        self._srcdocs = srcdocs  # that may still be read
        self._srcdoc_work = scan.Work(SRCDOC_WORK)
        self._names = {"robots", product_token or "robots"}
        self._room = params.links_max * CANDIDATES_FACTOR
        self.references: dict[str, Source] = {}
        self.unvouched: set[str] = set()  # of these
        self.named = 0
        self.base: str | None = None
        self.canonical: str | None = None
        self.nofollow = False
        self.noindex = False
        self.partly = False  # it was not read to its end

    def read(self, markup: bytes, work: scan.Work | None = None) -> Steps[None]:
        """One pass over the elements."""
        work = work or scan.Work()
        stop = work.left - scan.STOP_WORK
        for element in scan.elements(markup, *UNVOUCHED_RELS, work=work):
            if isinstance(element, bytes):
                self._link(scan.unescaped(element))
            elif element is None:
                yield
            else:
                self._element(element)
                if element.tag == "iframe" and self._srcdocs:
                    yield from self._read_srcdoc(element.attrs.get("srcdoc"), element.hidden)
                work.take(1)
                if work.left < stop or element.tag == "iframe":
                    stop = work.left - scan.STOP_WORK
                    yield
            if len(self.references) > self._room:
                break
        self.partly |= work.over

    def _element(self, element: scan.Element) -> None:
        if element.tag == "a" or element.tag == "area":
            href = element.attrs.get("href")
            if href is None and element.tag == "a":
                href = element.attrs.get("xlink:href")
            rels = _rels(element.attrs.get("rel") or "")
            if href is not None and not (self._params.nofollow and "nofollow" in rels):
                self._link(href, not element.hidden and _vouches(rels))
        else:
            self._other(element.tag, element.attrs.get, element.hidden)

    def _link(self, href: str, vouched: bool = True) -> None:
        at = href.find("#")
        if at >= 0:
            # a space before the fragment belongs to the URL; without the `#` it would be trimmed
            href = href[: at + 1] if at and href[at - 1] <= " " else href[:at]
        if not vouched or self.unvouched:
            self._vouch(href, vouched)
        self.references[href] = Source.LINK
        self.named += 1

    def _vouch(self, href: str, vouched: bool) -> None:
        """Before `href` is added to the references: one link that vouches for it is enough."""
        if vouched:
            self.unvouched.discard(href)
        elif href not in self.references:
            self.unvouched.add(href)

    def _other(self, tag: str, get: Get, hidden: bool) -> None:
        if tag == "link":
            rel = get("rel") or ""
            if sources := _sources(rel, self._params.nofollow):
                href, vouched = get("href"), _vouches(_rels(rel))
                for source in sources:
                    self._add(href, source, vouched)
                if Source.CANONICAL in sources and self.canonical is None:
                    self.canonical = href
        elif tag == "meta":
            self._meta(get)
        elif tag == "base":
            if self.base is None:
                self.base = get("href")
        else:
            self._add(get("src"), Source.FRAME, not hidden)

    def _read_srcdoc(self, text: str | None, hidden: bool) -> Steps[None]:
        """A page in a page: its references are resolved like this one's, so one with a base of its own is left out."""
        if text is None:
            return
        self._srcdocs -= 1
        page = References(self._params, self._token, srcdocs=0)
        yield from page.read(text.encode(), self._srcdoc_work)
        self.partly |= page.partly
        if page.base is not None or (page.nofollow and self._params.nofollow):
            return
        self.named += page.named
        for href, source in page.references.items():
            self._vouch(href, not hidden and not page.nofollow and href not in page.unvouched)
            self.references[href] = min(source, self.references.get(href, source))

    def _meta(self, get: Get) -> None:
        if (get("http-equiv") or "").lower() == "refresh":
            self._add(refresh_target(get("content") or ""), Source.LINK)
        elif (get("name") or "").strip().lower() in self._names:
            nofollow, noindex = _directives([(get("content") or "")[:DIRECTIVES_CHARS_MAX]], self._names)
            self.nofollow |= nofollow
            self.noindex |= noindex

    def _add(self, href: str | None, source: Source, vouched: bool = True) -> None:
        self.named += href is not None
        if href is not None:
            self._vouch(href, vouched)
            if href not in self.references or source < self.references[href]:
                self.references[href] = source

    def read_scripts(self, texts: Iterable[bytes]) -> Steps[None]:
        for text in texts:
            yield
            for string in sitemaps.elements(_LINK_LIKE, text.replace(b"\\/", b"/")):
                if string is None:
                    yield
                    continue
                if len(self.references) > self._room:
                    return
                self.named += 1
                href = string[2].decode("utf-8", "replace").partition("#")[0]
                self._vouch(href, False)
                self.references.setdefault(href, Source.SCRIPT)


def followed_rels(rel: str) -> bool:
    """Whether a `<link>` with that rel is followed."""
    return bool(_sources(rel, nofollow=False))


def _sources(rel: str, nofollow: bool) -> list[Source]:
    """Which links a `<link>` with that rel is, each once; with `nofollow` none if it says nofollow."""
    rel = rel.lower()
    rels = rel.split()
    if "stylesheet" in rels or (nofollow and "nofollow" in rel and "nofollow" in _rels(rel)):
        return []
    if len(rels) < 2:  # as most are
        return [_LINK_RELS[rel]] if rels and (rel := rels[0]) in _LINK_RELS else []
    return list(dict.fromkeys(_LINK_RELS[rel] for rel in rels if rel in _LINK_RELS))


def _rels(rel: str) -> list[str]:
    """What a `rel` says of vouching: its values may be apart by commas, too, as search engines take them."""
    return rel.lower().replace(",", " ").split()


def _vouches(rels: list[str]) -> bool:
    return not any(rel in UNVOUCHED_RELS for rel in rels)


def _resolve(page: References, base_url: bytes, links_max: int, found: Found) -> Steps[None]:
    resolver = Base(base_url, found.charset, stored=True)
    if page.base is not None:
        base = resolver.join(page.base)
        if base is not None:
            found.base = base
            resolver = Base(base, found.charset, stored=True)
    join = resolver.join
    links: dict[bytes, Source] = {}
    unvouched, doubtful, vouched = page.unvouched, set[bytes](), set[bytes]()
    room = URL_BYTES_MAX
    found.named = page.named
    references = iter(page.references.items())
    worked = 0
    for href, source in references:  # per reference: each is a parse, and most pages have under a hundred
        worked += len(href) + REFERENCE_BYTES
        if worked > RESOLVED_BYTES:
            worked = 0
            yield
        url = join(href)
        if url is None or url == base_url:
            continue
        old = links.get(url)
        if old is None:
            room -= len(url)
            if len(links) >= links_max or room < 0:
                found.beyond = 1 + sum(1 for _ in references)
                break
            links[url] = source
        elif source < old:
            links[url] = source
        if unvouched:
            (doubtful if href in unvouched else vouched).add(url)
    if page.canonical is not None and (canonical := join(page.canonical)) != base_url:
        found.canonical = canonical
    found.links = list(links.items())
    found.unvouched = set(links) if found.nofollow else doubtful - vouched


_SCRIPT = re.compile(rb"<script\b[^>]*+(?:>|\Z)", re.IGNORECASE)
_LINK_LIKE = re.compile(
    rb"""(["'`])((?:https?:)?//[^\s"'`<>\\{}]{4,2000}+|/[\w~%-][^\s"'`<>\\{}]{0,2000}+"""
    rb"""|[\w.~/%-]{1,500}\.(?:x?html?|php|aspx?|jsp)(?:\?[^\s"'`<>\\{}]{0,1500}+)?)\1"""
)
"""A quoted string that is an absolute URL, an absolute path, or a relative one that ends like a page."""


def _script_texts(markup: bytes) -> Iterator[bytes]:
    at = 0
    while (tag := _SCRIPT.search(markup, at)) is not None:
        at = scan.behind_raw_text(markup, "script", tag.end())
        yield markup[tag.end() : at]


_REFRESH = re.compile(r"\s*+(?:\d|\.)[\d.]*+(?:\s*+[;,]\s*|\s++(?![;,]))(.+)", re.DOTALL)
_REFRESH_URL = re.compile(r"url\s*=\s*", re.IGNORECASE)


def refresh_target(value: str) -> str | None:
    """The reference in a Refresh header or `<meta http-equiv=refresh content=...>` (WHATWG HTML 4.2.5.3); None if it
    only reloads the page, or if a browser would not understand it."""
    found = _REFRESH.match(value)
    if found is None:
        return None
    target = found[1]
    prefix = _REFRESH_URL.match(target)
    if prefix is not None:
        target = target[prefix.end() :]
    if target[:1] in ("'", '"'):
        target = target[1:].partition(target[0])[0]
    return target.strip() or None


_QUOTED = r"""(?:[^"\\]++|\\.|(?!))*+"""
_LINK_VALUE = re.compile(rf"""[ \t,]*+<([^>]*+)>((?:[^",]++|"{_QUOTED}(?:"|\Z)|(?!))*+)""", re.DOTALL)
_LINK_PARAMETER = re.compile(rf""";[ \t]*+([^ \t=;"]*+)[ \t]*+(?:=[ \t]*+(?:"({_QUOTED})|([^ \t;]*+)))?""", re.DOTALL)


def link_header(values: Iterable[str], nofollow: bool) -> Iterator[tuple[str, Source]]:
    """The references of Link header values, each with what it is as a `<link>`; with `nofollow` without those that say
    rel=nofollow."""
    for reference, rel in link_values(values):
        for source in _sources(rel, nofollow):
            yield reference, source


def link_values(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(reference, rel) of each link in Link header values (RFC 8288). A link with an anchor is one of another page, or
    of a part of this one: it is left out. Of a value that is malformed the links before the fault are taken."""
    for value in values:
        at = 0
        while (link := _LINK_VALUE.match(value, at)) is not None:
            at = link.end()
            parameters: dict[str, str] = {}
            for name, quoted, plain in _LINK_PARAMETER.findall(link[2]):
                parameters.setdefault(name.lower(), quoted or plain)
            if "anchor" not in parameters:
                yield link[1], parameters.get("rel", "")


def robots_header(values: Iterable[str], product_token: str) -> tuple[bool, bool]:
    """(nofollow, noindex) of X-Robots-Tag header values, for everyone or for our product token.

    `otherbot: noindex, nofollow` speaks to otherbot up to the next name; a value without a name speaks to all.
    """
    return _directives(values, {"robots", product_token.lower()})


def _directives(values: Iterable[str], names: Collection[str]) -> tuple[bool, bool]:
    """(nofollow, noindex) of what is said to one of `names`, to `*`, or to nobody by name."""
    said = wishes.directives(values, names)
    return not said.isdisjoint({"nofollow", "none"}), not said.isdisjoint({"noindex", "none"})
