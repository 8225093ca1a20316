"""HTML. What a page says of itself stands in its head, so only that is parsed; for links and text, all of it is.

The parser is Lexbor (selectolax), a browser's in its rules. Pages that it might take hours for are read in a process of
its own. Links are counted by an expression that PCRE2 makes machine
code of: by Python's own, counting took a third of the time of a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from irlcrawl.export.media.bounded import Bounded, serve
from irlcrawl.export.media.content import Content, Link, collapsed
from irlcrawl.export.media.extras import compiled, needed
from irlcrawl.export.media.tame import TAME_BYTES, tame
from irlcrawl.worker.page import charset
from irlcrawl.worker.page.links import followed_rels, refresh_target

ABOUT, LINKS, TEXT = b"a", b"l", b"t"
"""What is asked of a page in a process of its own, which is this module, too."""
SECONDS_MAX, MEMORY_MAX = 10.0, 2 << 30
"""CPU-seconds there, and bytes of address space. Of a page that takes more only the first TAME_BYTES are read."""
HEAD_BYTES_MAX = 256 << 10
"""A head longer than this is read as far as this."""
HEAD_BYTES, HEAD_BEGINS = 64 << 10, 4 << 10
"""Read of a page that does not say where its head ends, nor within its beginning that it has one."""
JSONLD_DEPTH = 4
"""Types are looked for so deep in nested objects."""
JSONLD_BYTES_MAX = 1 << 20
"""Of a script; what is longer is not read, for its objects take thirty times its bytes."""
TYPES_MAX = 100

_WITHOUT_WORDS = ("frame", "iframe", "link", "meta")
_UNSEEN = ("script", "style")
_BLOCKS = frozenset(("div", "p", "li", "dt", "dd", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6"))
"""In a link, each begins a line of its own."""
NODES_MAX = 1_000_000
"""Of the links of a page, looked at for their words: a link in a link in a link has the words of all. As many for its
title: a drawing may have thousands of them, ten thousand elements deep."""
TEXT_TAGS_MAX = 5000
"""A page with more is read for its text in a process of its own: 120 KB of `<div>` took the library seven seconds."""
_TOLD = "title, meta, link[rel*=canonical i][href], base[href]"
_FOLLOWED = "a[href], area[href], frame[src], iframe[src], link[href][rel], meta[http-equiv=refresh i][content]"

_HEAD_END = re.compile(rb"<body[\s>]|</head\s*>\s*(?=<body[\s>])", re.IGNORECASE)
_HEAD = re.compile(rb"<head[\s>]", re.IGNORECASE)
_HEAD_CLOSED = re.compile(rb"</head\s*>", re.IGNORECASE)
_TITLE = re.compile(rb"<title[\s>]", re.IGNORECASE)
_HIDING_A_BODY = ((b"<!--", b"-->"), (b"<script", b"</script"), (b"<style", b"</style"))
"""What a head may have that a `<body>` is no tag in. (Elements in lower case: they cost each page a search.)"""
_CLOSES_ITSELF = re.compile(
    rb"<(script|style|title|textarea|iframe|noframes|noscript|xmp|a|div|span|p)((?:\s[^<>]*)?)/>", re.IGNORECASE
)
_NO_PAGE = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_JSONLD = re.compile(rb"""(?:^|[\s"'/])type\s*+=\s*+["']?\s*+application/ld\+json\b""", re.IGNORECASE)
_COMMENT = "!--(?:>|->|(?:[^-]++|-(?!-!?>))*+)"
_SCRIPT = rf"""(?is)<(?:(?:{_COMMENT}|(textarea|title|style|xmp)\b(?:[^<]++|<(?!/\1\b))*+)(*SKIP)(*FAIL)
|script\b((?:[^<>"']++|"[^"]*+"|'[^']*+')*+)>((?:[^<]++|<(?!/script\b))*+))""".replace("\n", "").encode()
"""A script (its attributes, its text) that stands in no comment and no text."""
_OPENS = ("<!--", "//<![CDATA[", "// <![CDATA[", "/*<![CDATA[*/", "/* <![CDATA[ */", "<![CDATA[")
_ENDS = (";", "//-->", "-->", "//]]>", "// ]]>", "/*]]>*/", "/* ]]> */", "]]>")
"""What hides JSON from old browsers and XML parsers, and what ends a statement."""
_JSONLD_TYPE = rb"(?i)application/ld\+json"


_HIDING = ("script", "style", "textarea", "title", "template", "iframe", "noframes", "noembed", "xmp")
"""Elements whose content is no markup, or no part of the page."""


@lru_cache(maxsize=2)
def _linking(xhtml: bool) -> Any:
    """What links, in a page of HTML or XHTML. Comments and the elements of _HIDING are passed by as a whole: up to
    their end, or that of the page; of XHTML, not if they close themselves. No repetition gives back what it took, so a
    page is read in time that goes with its length."""
    itself = r"(?![^<>]*+(?<=/)>)" if xhtml else ""
    hiding = "|".join(rf"{name}\b{itself}(?:[^<]++|<(?!/{name}\b))*+" for name in _HIDING)
    attributes = r"""(?:[^<>"'h]++|"[^"]*+"|'[^']*+'|(?<![\s"'/])h|h(?!ref\s*=))*+"""
    link = rf"a(?:rea)?(?=[\s/]){attributes}href\s*="
    # The letters are those that may come next: most tags are passed by without trying each alternative.
    expression = rf"(?is)<(?=[as!tinx])(?:{link}|(?:{_COMMENT}|{hiding})(*SKIP)(*FAIL))"
    return compiled(expression.encode())


def _count_links(body: bytes, xhtml: bool) -> int | None:
    """None for a page of megabytes without markup on a system without machine code: PCRE2 bounds its steps there."""
    try:
        _, found = _linking(xhtml).subn(b"", body)  # it makes no object for a match
    except needed("pcre2", "reading HTML").LibraryError:
        return None
    return int(found)


def read(body: bytes, codec: str, xhtml: bool = False) -> Content:
    if codec.startswith("utf-16"):
        body, codec = charset.decode(body, codec).encode("utf-8", "replace"), "utf-8"
    head = _head(body)
    markup = _in_utf8(closed(head) if xhtml else head, codec)
    found = about(markup) if tame(markup) else Content(**_bounded(ABOUT, markup))
    found.links = _count_links(body, xhtml)
    if not found.title and len(head) < len(body) and (behind := _TITLE.search(body, len(head))):
        begin = behind.start() if behind.start() > HEAD_BYTES_MAX else 0
        markup = _in_utf8(body[begin : begin + HEAD_BYTES_MAX], codec)
        found.title = _title(_tree(markup)) if tame(markup) else ""
    if compiled(_JSONLD_TYPE).search(body):
        with suppress(needed("pcre2", "reading HTML").LibraryError):  # without machine code, as in _count_links
            for script in compiled(_SCRIPT).finditer(body):
                if len(script[3]) <= JSONLD_BYTES_MAX and _JSONLD.search(script[2]):
                    _types(_loaded(script[3], codec), found.jsonld_types, JSONLD_DEPTH)
    return found


def about(markup: bytes) -> Content:
    """What a head in UTF-8 says of its page."""
    found, titled = Content(), False
    root = _tree(markup).root
    if root:
        found.lang = (root.attributes.get("lang") or root.attributes.get("xml:lang") or "").strip()
    for element in _selector().find(_TOLD, root) if root else ():
        tag = element.tag
        if tag == "meta":
            _meta(element.attributes, found)
        elif tag == "title":
            if not titled:
                found.title, titled = collapsed(element.text(deep=True)), True
        elif tag == "base":
            found.base = found.base or (element.attributes["href"] or "").strip()
        elif not found.canonical and "canonical" in (element.attributes["rel"] or "").lower().split():
            href = (element.attributes["href"] or "").strip()
            found.canonical = "" if _NO_PAGE.match(href) else href
    return found


def closed(markup: bytes) -> bytes:
    """XHTML, with elements that close themselves (`<script src="x"/>`) as HTML has them, which takes those for open."""
    return _CLOSES_ITSELF.sub(rb"<\1\2></\1>", markup)


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    markup = _in_utf8(body, codec)
    if tame(markup):
        return links_of(markup)
    found = _bounded(LINKS, markup)
    return found.get("base", ""), (Link(*link) for link in found.get("links", ()))


def links_of(markup: bytes) -> tuple[str, Iterator[Link]]:
    """links() of a page in UTF-8."""
    tree = _tree(markup)
    base = tree.css_first("base[href]")
    return (base.attributes["href"] or "").strip() if base else "", _links(tree)


def text(body: bytes, codec: str) -> str:
    needed("resiliparse.extract.html2text", "--text")
    markup = charset.decode(body, codec).encode("utf-8", "replace")
    small = markup.count(b"<") <= TEXT_TAGS_MAX and tame(markup)
    return text_of(markup) if small else str(_bounded(TEXT, markup).get("text", ""))


def text_of(markup: bytes) -> str:
    """text() of a page in UTF-8."""
    extract = needed("resiliparse.extract.html2text", "--text").extract_plain_text
    found: str = extract(markup.decode("utf-8", "replace"), main_content=True, alt_texts=False, links=False)
    return found.strip()


READER = Bounded(__name__, SECONDS_MAX, MEMORY_MAX)


def _bounded(what: bytes, markup: bytes) -> dict[str, Any]:
    """What a process of its own says of a page in UTF-8; of its beginning, if the page ends that; else nothing."""
    answer = READER.asked(what, markup)
    if answer is None and len(markup) > TAME_BYTES:
        answer = READER.asked(what, markup[:TAME_BYTES])
    return answer or {}


def told(what: bytes, markup: bytes) -> dict[str, Any]:
    """The answer of that process, as JSON has it."""
    if what == ABOUT:
        return asdict(about(markup))
    if what == LINKS:
        base, found = links_of(markup)
        return {"base": base, "links": list(found)}
    return {"text": text_of(markup)}


def _in_utf8(body: bytes, codec: str) -> bytes:
    return body if codec == "utf-8" else charset.decode(body, codec).encode("utf-8", "replace")


def _links(tree: Any) -> Iterator[Link]:
    """Those that a crawl follows."""
    room = NODES_MAX
    for element in tree.css(_FOLLOWED):
        attributes, tag = element.attributes, element.tag
        href = _refers_to(tag, attributes)
        if href is None:  # or of another namespace
            continue
        words = ""
        if tag == "area":
            words = collapsed(attributes.get("alt"))
        elif tag not in _WITHOUT_WORDS:
            words, room = _words(element, room)
        rel = " ".join((attributes.get("rel") or "").lower().split())
        yield Link(href.strip(), words, rel, tag)


def _words(link: Any, room: int) -> tuple[str, int]:
    """The words in a link, or of its images if it has none, as far as so many nodes show them; and for how many more
    there is room. One walk over what is in it: a selector such as `a br` looks at all that a node lies in, and a page
    may nest a hundred thousand."""
    node = link.child
    if node is not None and node.tag == "-text" and node.next is None:  # most links
        return collapsed(node.text_content), room - 1
    words: list[str] = []
    images: list[str] = []
    above: list[Any] = []
    while node is not None and room > 0:
        room -= 1
        tag = node.tag
        if tag == "-text":
            words.append(node.text_content or "")
        elif tag == "br" or tag in _BLOCKS:
            words.append(" ")
        elif tag == "img":
            images.append(node.attributes.get("alt") or "")
        below = node.child if tag not in _UNSEEN else None
        if below is not None:
            above.append(node)
            node = below
            continue
        while (after := node.next) is None and above:
            node = above.pop()
            if node.tag in _BLOCKS:
                words.append(" ")
        node = after
    return collapsed("".join(words)) or collapsed(" ".join(images)), room


def _refers_to(tag: str, attributes: dict[str, str | None]) -> str | None:
    """Where an element of _FOLLOWED leads, as written; None: nowhere."""
    if tag == "meta":
        return refresh_target(attributes.get("content") or "")
    if tag == "link" and not followed_rels(attributes.get("rel") or ""):
        return None
    return attributes.get("src" if tag in ("frame", "iframe") else "href")


def _tree(markup: bytes) -> Any:
    """Empty where memory has no room for it."""
    lexbor = needed("selectolax.lexbor", "reading HTML")
    try:
        return lexbor.LexborHTMLParser(markup)
    except lexbor.SelectolaxError:
        return lexbor.LexborHTMLParser(b"")


@lru_cache(maxsize=1)
def _selector() -> Any:
    """One for all pages: a tree's own is made anew for each."""
    return needed("selectolax.lexbor", "reading HTML").LexborCSSSelector()


def _head(body: bytes) -> bytes:
    """The page up to its body."""
    for expression in (_HEAD_END, _HEAD_CLOSED):
        at = 0
        while end := expression.search(body, at, HEAD_BYTES_MAX):
            at = _hidden_until(body, end.start())
            if not at:
                return body[: end.start()]
    return body[: HEAD_BYTES_MAX if _HEAD.search(body, 0, HEAD_BEGINS) else HEAD_BYTES]


def _hidden_until(body: bytes, at: int) -> int:
    """Where the comment or element ends in which this place is; 0: it is in none."""
    for begins, ends in _HIDING_A_BODY:
        begin = body.rfind(begins, 0, at)
        if begin >= 0 and (end := body.find(ends, begin, HEAD_BYTES_MAX)) > at:
            return end
    return 0


def _title(tree: Any) -> str:
    """The first title that no drawing has, as far as so many nodes above show it."""
    room = NODES_MAX
    for element in tree.css("title"):
        above = element.parent
        while above is not None and above.tag != "svg" and room > 0:
            above = above.parent
            room -= 1
        if above is None:
            return collapsed(element.text(deep=True))
    return ""


def _meta(attributes: dict[str, str | None], found: Content) -> None:
    value = attributes.get("content")
    if not value:
        return
    name = (attributes.get("name") or attributes.get("property") or "").strip().lower()
    prop = (attributes.get("property") or attributes.get("name") or "").strip()
    if name == "description":
        found.description = found.description or collapsed(value)
    elif prop.lower().startswith("og:"):
        found.opengraph.setdefault(prop.lower(), value.strip())
    elif not found.lang and (attributes.get("http-equiv") or "").lower() == "content-language":
        found.lang = value.strip()


def _loaded(script: bytes, codec: str) -> Any:
    try:
        text = charset.decode(script, codec).strip()
        text = text[max((len(one) for one in _OPENS if text.startswith(one)), default=0) :].rstrip()
        text = text[: len(text) - max((len(one) for one in _ENDS if text.endswith(one)), default=0)]
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _types(value: Any, found: list[str], depth: int) -> None:
    """Add the types of JSON-LD objects, outer ones first."""
    if len(found) >= TYPES_MAX or depth < 0:
        return
    if isinstance(value, dict):
        told = value.get("@type")
        for one in told if isinstance(told, list) else [told]:
            if len(found) >= TYPES_MAX:
                return
            if isinstance(one, str) and (name := one.encode("utf-8", "replace").decode()) not in found:
                found.append(name)
        for inner in value.values():
            if isinstance(inner, (dict, list)):
                _types(inner, found, depth - 1)
    elif isinstance(value, list):
        for inner in value:
            _types(inner, found, depth)


if __name__ == "__main__":
    serve(told)
