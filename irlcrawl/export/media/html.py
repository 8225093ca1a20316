"""HTML. What a page says of itself stands in its head, so only that is parsed; for links and text, all of it is.

The parser is Lexbor (selectolax), a browser's in its rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from irlcrawl.export.media.content import Content, Link, collapsed
from irlcrawl.export.media.extras import needed
from irlcrawl.worker.page import charset
from irlcrawl.worker.page.links import followed_rels, refresh_target

HEAD_BYTES_MAX = 256 << 10
"""A head longer than this is read as far as this."""
HEAD_BYTES, HEAD_BEGINS = 64 << 10, 4 << 10
"""Read of a page that does not say where its head ends, nor within its beginning that it has one."""
JSONLD_DEPTH = 4
"""Types are looked for so deep in nested objects."""
TYPES_MAX = 100

_WITHOUT_WORDS = ("frame", "iframe", "link", "meta")
_BLOCKS = ", ".join(
    f"a[href] {name}" for name in ("div", "p", "li", "dt", "dd", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6")
)
"""In a link, each begins a line of its own."""
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
_JSONLD = re.compile(
    rb"""<script\b[^<>]*?\btype\s*=\s*["']?\s*application/ld\+json\b[^<>]*>(.*?)(?:</script|\Z)""",
    re.IGNORECASE | re.DOTALL,
)


def _any_case(word: str) -> str:
    """An expression for a word in any case: re finds `<` faster without IGNORECASE."""
    return "".join(f"[{letter}{letter.upper()}]" for letter in word)


_HIDING = {"s": ("cript", "tyle"), "t": ("extarea", "itle", "emplate"), "i": ("frame",), "n": ("oframes", "oembed"),
           "x": ("mp",)}  # fmt: skip
"""Elements by their first letters: re passes by an alternative whose first letter is another one."""
_FIRST, _SECOND = "aA!sStTiInNxX", r"\s/rR\-cCtTeEiIfFoOmM"
"""What the two characters behind the `<` are of links and of _HIDING: two sets pass by most other tags."""


def _element(first: str, rest: str, xhtml: bool) -> str:
    """What follows the first letter of an element, up to its end tag or the end of the page; of XHTML, none that closes
    itself."""
    itself = r"(?![^<>]*+(?<=/)>)" if xhtml else ""
    return rf"{_any_case(rest)}\b{itself}(?:[^<]++|<(?!/{_any_case(first + rest)}\b)|(?!))*+"


def _linking(xhtml: bool) -> re.Pattern[bytes]:
    href = _any_case("href") + r"\s*="
    usual = r"""\s(?=href=)|\s(?:class|id|title|rel)="[^"]*+"\s(?=href=)"""  # what is before it, mostly
    plain = rf"""(?:\s+(?!{_any_case("href")}=)[a-zA-Z-]++="[^"]*+"(?=\s)|(?!))*+\s+"""
    any_ = r"""(?=[\s/])(?:[^<>"']|"[^"]*+"|'[^']*+')*?(?<=[\s"'/])"""
    hiding = "|".join(
        f"{_any_case(first)}(?:{'|'.join(_element(first, rest, xhtml) for rest in names)})"
        for first, names in _HIDING.items()
    )
    expression = (
        rf"""<(?=[{_FIRST}][{_SECOND}])(?:[aA](?:{_any_case("rea")})?(?:{usual}|{plain}|{any_})({href})"""
        rf"""|!--(?:>|->|(?:[^-]++|-(?!-!?>)|(?!))*+)|{hiding})"""
    )
    return re.compile(expression.encode(), re.DOTALL)


_LINKING, _LINKING_XHTML = _linking(False), _linking(True)
"""What links (group 1), and what hides it: comments, and elements whose content is no markup, or no part of the page. A
possessive group ends with an alternative that fails at once, as in worker/page/scan.py."""


def read(body: bytes, codec: str, xhtml: bool = False) -> Content:
    if codec.startswith("utf-16"):
        body, codec = charset.decode(body, codec).encode("utf-8", "replace"), "utf-8"
    head = _head(body)
    tree = _tree(closed(head) if xhtml else head, codec)
    linking = (_LINKING_XHTML if xhtml else _LINKING).findall(body)
    found = Content(links=len(linking) - linking.count(b""))
    if root := tree.root:
        found.lang = (root.attributes.get("lang") or root.attributes.get("xml:lang") or "").strip()
    titled = False
    for element in tree.css("title, meta, link[rel*=canonical i][href], base[href]"):
        tag = element.tag
        if tag == "meta":
            _meta(element.attributes, found)
        elif tag == "title":
            if not titled:
                found.title, titled = collapsed(element.text(deep=True)), True
        elif tag == "base":
            found.base = found.base or (element.attributes["href"] or "").strip()
        elif not found.canonical and "canonical" in (element.attributes["rel"] or "").lower().split():
            found.canonical = (element.attributes["href"] or "").strip()
    if not titled and len(head) < len(body) and _TITLE.search(body, len(head)):
        found.title = _title(_tree(body[:HEAD_BYTES_MAX], codec))
    if b"pplication/ld+json" in body:  # a longer word is found faster; nobody writes all of it in capitals
        for match in _JSONLD.finditer(body):
            _types(_loaded(match[1], codec), found.jsonld_types, JSONLD_DEPTH)
    return found


def closed(markup: bytes) -> bytes:
    """XHTML, with elements that close themselves (`<script src="x"/>`) as HTML has them, which takes those for open."""
    return _CLOSES_ITSELF.sub(rb"<\1\2></\1>", markup)


def links(body: bytes, codec: str) -> tuple[str, Iterator[Link]]:
    tree = _tree(body, codec)
    base = tree.css_first("base[href]")
    return (base.attributes["href"] or "").strip() if base else "", _links(tree)


def text(body: bytes, codec: str) -> str:
    extract = needed("resiliparse.extract.html2text", "--text").extract_plain_text
    found: str = extract(charset.decode(body, codec), main_content=True, alt_texts=False, links=False)
    return found.strip()


def _links(tree: Any) -> Iterator[Link]:
    """Those that a crawl follows, without scripts and the pages in `srcdoc`."""
    for unseen in tree.css("a[href] script, a[href] style"):
        unseen.decompose()
    for broken in tree.css("a[href] br"):
        broken.replace_with(" ")
    for block in tree.css(_BLOCKS):
        block.insert_before(" ")
        block.insert_after(" ")
    for element in tree.css(_FOLLOWED):
        attributes, tag = element.attributes, element.tag
        href = _refers_to(tag, attributes)
        if href is None:  # or of another namespace
            continue
        if tag in _WITHOUT_WORDS:
            words = ""
        elif tag == "area":
            words = collapsed(attributes.get("alt"))
        else:
            words = collapsed(element.text(deep=True))
            if not words:
                words = collapsed(" ".join(image.attributes.get("alt") or "" for image in element.css("img[alt]")))
        rel = " ".join((attributes.get("rel") or "").lower().split())
        yield Link(href.strip(), words, rel, tag)


def _refers_to(tag: str, attributes: dict[str, str | None]) -> str | None:
    """Where an element of _FOLLOWED leads, as written; None: nowhere."""
    if tag == "meta":
        return refresh_target(attributes.get("content") or "")
    if tag == "link" and not followed_rels(attributes.get("rel") or ""):
        return None
    return attributes.get("src" if tag in ("frame", "iframe") else "href")


def _tree(markup: bytes, codec: str) -> Any:
    parser = needed("selectolax.lexbor", "reading HTML").LexborHTMLParser
    return parser(markup if codec == "utf-8" else charset.decode(markup, codec).encode("utf-8", "replace"))


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
    """The first title that no drawing has."""
    for element in tree.css("title"):
        above = element.parent
        while above is not None and above.tag != "svg":
            above = above.parent
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
        return json.loads(charset.decode(script, codec))
    except (ValueError, RecursionError):
        return None


def _types(value: Any, found: list[str], depth: int) -> None:
    """Add the types of JSON-LD objects, outer ones first."""
    if len(found) >= TYPES_MAX or depth < 0:
        return
    if isinstance(value, dict):
        told = value.get("@type")
        for one in told if isinstance(told, list) else [told]:
            if isinstance(one, str) and (name := one.encode("utf-8", "replace").decode()) not in found:
                found.append(name)
        for inner in value.values():
            if isinstance(inner, (dict, list)):
                _types(inner, found, depth - 1)
    elif isinstance(value, list):
        for inner in value:
            _types(inner, found, depth)
