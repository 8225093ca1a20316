"""What a page needs so that it looks as its readers see it: images, styles, scripts, fonts, posters, icons; and what a
style sheet needs: imports, fonts, images.

Tags are found by a search in linear time that knows comments and raw text, but looks into attributes of other tags: so
it may find a tag that stands in an attribute, which costs a request. The HTML in an iframe's `srcdoc` is a part of the
page. Scripts are not run: what they ask for is not known. References come as they are written, distinct, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import re2

from irlcrawl.base.steps import Steps, at_once
from irlcrawl.worker.page import charset
from irlcrawl.worker.page.scan import ATTRIBUTES, Attributes, behind_comment, behind_raw_text, unescaped

MARKUP_BYTES_MAX = 16 << 20
WINDOW_BYTES = 256 << 10
"""Of a page searched between two stops."""
STEP_MATCHES = 200
"""Tags read between two stops."""
TAGS_MAX = 100_000
"""Tags read of a page: each takes some 3 microseconds."""
REFERENCES_MAX = 10_000
"""Distinct references taken of a page or a style sheet."""
SRCDOCS_MAX = 100
"""Attributes `srcdoc` read of one page. One inside another is not read."""
SRCDOC_TAGS_MAX = 1000
"""Tags read of each."""
CANDIDATES_MAX = 1000
"""Of an image, looked at."""
CSS_CHARS_MAX = 2 << 20
"""Of a style sheet, looked at."""
CSS_BYTES_MAX = 4 * CSS_CHARS_MAX
"""Of a style sheet, decoded."""
CSS_REFERENCE_MAX = 64 << 10
"""Characters of a reference, as it is written; a longer one is no URL that may be asked for."""
CSS_STEP_CHARS, CSS_MATCH_COST = 32 << 10, 16
"""Of references taken between two stops; one counts as its length and CSS_MATCH_COST."""
CSS_MATCHES_MAX = 40_000
"""Comments and references looked at in one."""
CSS_TYPE = "text/css"

_SRC = {
    "img": ("src",), "script": ("src",), "source": ("src",), "video": ("src", "poster"), "audio": ("src",),
    "track": ("src",), "embed": ("src",), "input": ("src",), "object": ("data",), "body": ("background",),
    "table": ("background",), "tr": ("background",), "td": ("background",), "th": ("background",),
    "image": ("href", "xlink:href", "src"), "use": ("href", "xlink:href"),
}  # fmt: skip
"""Attributes that name one requisite, by element."""
_SRCSET = {"img": "srcset", "source": "srcset", "link": "imagesrcset"}
_LINK_RELS = frozenset(("stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon",
                        "preload", "modulepreload", "manifest"))  # fmt: skip

_RAW_TEXT = ("textarea", "title", "xmp", "noembed", "noframes", "iframe", "style", "script")
_NAMES = (*_RAW_TEXT, *(name for name in _SRC if name != "script"), "link", "base")
_options = re2.Options()
_options.encoding = re2.Options.Encoding.LATIN1
_TAG = re2.compile(rf"(?i)<(?:!--|(?:{'|'.join(_NAMES)})[ \t\n\r\f/>])".encode(), _options)
"""How a comment, raw text or an element begins that may name requisites."""
_TAG_BYTES_MAX = 12
"""More than it ever matches."""
_ATTRIBUTES = re.compile(ATTRIBUTES.encode())
_STYLED = re2.compile(rb"""(?i)[\s"']style\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>][^\s>]*))""", _options)

_URL = r"""url\(\s*+(?:"([^"\n]*+)"?|'([^'\n]*+)'?|((?:[^()"'\\\s]++|\\[0-9a-fA-F]{1,6}\s?|\\.|(?!))*+))"""
_UNSET = r"""[^()"']++|"[^"\n]*+"|'[^'\n]*+'"""
_CSS = re.compile(
    rf"""/\*[^*]*+(?:\*++(?!/)[^*]*+|(?!))*+|@namespace[^;]*+|{_URL}"""
    r"""|"(?:[^"\\\n]++|\\.|(?!))*+"?|'(?:[^'\\\n]++|\\.|(?!))*+'?"""
    r"""|@import\s*+(?:"([^"\n]*+)"?|'([^'\n]*+)'?)|image-set\(("""
    rf"""(?:{_UNSET}|\((?:{_UNSET}|(?!))*+\)|(?!))*+)""",
    re.IGNORECASE | re.DOTALL,
)
_IN_IMAGE_SET = re.compile(rf"""type\([^)]*+|{_URL}|"([^"\n]*+)"?|'([^'\n]*+)'?""", re.IGNORECASE)
"""A string in an image-set() is the URL of an image, but for that of a type (CSS Images 4, 2.4)."""
_NAMING = ("url(", "@import", "image-set(", "URL(", "@IMPORT", "IMAGE-SET(")
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_CANDIDATE = re.compile(r"[\s,]*+(\S++)([^,(]*+(?:\([^)]*+\)?[^,(]*+)*+)")


def of_page(
    markup: bytes, tags_max: int = TAGS_MAX, srcdocs: int = SRCDOCS_MAX
) -> Steps[tuple[str | None, list[str], bool]]:
    """(the base, the requisites) that a page in UTF-8 names; and whether it was not read to its end."""
    partly = len(markup) > MARKUP_BYTES_MAX
    markup = markup[:MARKUP_BYTES_MAX]
    base: str | None = None
    found: dict[str, None] = {}
    count = 0
    for tag in _tags(markup):
        if tag is None:
            yield
            continue
        count += 1
        if count % STEP_MATCHES == 0:
            yield
        if count > tags_max or len(found) > REFERENCES_MAX:
            partly = True
            break
        name, attributes, css = tag
        if name == "style":
            text = (yield from charset.recoding(css[:CSS_BYTES_MAX], "utf-8")).decode()
            found |= dict.fromkeys((yield from reading_css(text)))
        elif name == "base":
            base = attributes.get("href") if base is None else base
        elif name == "iframe" and srcdocs and (inside := attributes.get("srcdoc")):
            srcdocs -= 1
            own_base, inner, cut = yield from of_page(inside.encode(), SRCDOC_TAGS_MAX, 0)
            partly |= cut
            found |= dict.fromkeys(inner if own_base is None else ())  # resolved like those of the page
        elif name == "script" or name not in _RAW_TEXT:
            _of_element(name, attributes, found)
    if b"url(" in markup or b"image-set(" in markup:
        for count, styled in enumerate(_STYLED.finditer(markup)):
            if count % STEP_MATCHES == STEP_MATCHES - 1:
                yield
            if count == tags_max or len(found) > REFERENCES_MAX:
                partly = True
                break
            text = unescaped(styled[1] or styled[2] or styled[3] or b"")
            found |= dict.fromkeys((yield from reading_css(text)))
    return base, list(found)[:REFERENCES_MAX], partly


def _tags(markup: bytes) -> Iterator[tuple[str, Attributes, bytes] | None]:
    """(name, attributes, what a style says) of each element of interest, and of each comment; None: a stop."""
    at = window = 0
    while at < len(markup):
        if at >= window:
            window = at + WINDOW_BYTES - _TAG_BYTES_MAX
            yield None
        tag = _TAG.search(markup, at, at + WINDOW_BYTES)
        if tag is None:
            at += max(WINDOW_BYTES - _TAG_BYTES_MAX, 1)
            continue
        name = tag[0][1:-1].decode("ascii").lower()
        if name == "!-":
            at = behind_comment(markup, tag.start())
            yield "", Attributes(b""), b""
            continue
        text = _ATTRIBUTES.match(markup, tag.end() - 1)
        assert text is not None, "it may be empty"
        at = text.end()
        css = b""
        if name in _RAW_TEXT:
            start = max(markup.find(b">", at), at)
            at = behind_raw_text(markup, name, start)
            css = markup[start + 1 : at] if name == "style" else b""
        yield name, Attributes(text[0]), css


def _of_element(tag: str, attributes: Attributes, found: dict[str, None]) -> None:
    if tag == "link":
        if _LINK_RELS.isdisjoint((attributes.get("rel") or "").lower().split()):
            return
        _take(found, attributes.get("href"))
    elif tag == "input" and (attributes.get("type") or "").lower() != "image":
        return
    for name in _SRC.get(tag, ()):
        _take(found, attributes.get(name))
    if (name_of_set := _SRCSET.get(tag)) and (text := attributes.get(name_of_set)):
        for url in islice(of_srcset(text), CANDIDATES_MAX):
            _take(found, url)


def _take(found: dict[str, None], reference: str | None) -> None:
    """A reference to a part of the page itself, or to what it holds itself, needs no request."""
    if reference and (reference := reference.strip()) and not reference[:5].lower().startswith(("#", "data:")):
        found[reference] = None


def of_srcset(text: str) -> Iterator[str]:
    """The URLs of image candidates (WHATWG HTML 4.8.4.3.1)."""
    at = 0
    while (candidate := _CANDIDATE.match(text, at)) is not None:
        url = candidate[1].rstrip(",")
        at = candidate.end(1) if url != candidate[1] else candidate.end()
        if url:
            yield url


def of_css(text: str) -> list[str]:
    """The URLs that a style sheet, or an attribute `style`, names."""
    return at_once(reading_css(text))


def reading_css(text: str) -> Steps[list[str]]:
    """of_css(), in steps."""
    found: dict[str, None] = {}
    worked = 0
    if any(word in text for word in _NAMING):
        for reference in islice(_of_css(text), CSS_MATCHES_MAX):
            worked += len(reference) + CSS_MATCH_COST
            if worked > CSS_STEP_CHARS:
                worked = 0
                yield
            if len(reference) > CSS_REFERENCE_MAX:
                continue
            _take(found, _CSS_ESCAPE.sub(_css_character, reference) if "\\" in reference else reference)
            if len(found) == REFERENCES_MAX:
                break
    return list(found)


def _of_css(text: str) -> Iterator[str]:
    """References as they are written; an empty one for all else that is looked at, so that it counts."""
    for match in _CSS.finditer(text, 0, CSS_CHARS_MAX):
        if match.lastindex == _CSS.groups:
            yield ""
            yield from (next(filter(None, one.groups()), "") for one in _IN_IMAGE_SET.finditer(match[_CSS.groups]))
        else:
            yield next(filter(None, match.groups()), "")


def _css_character(escape: re.Match[str]) -> str:
    number = int(escape[1], 16) if escape[1] else 0
    return escape[2] or (chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd")
