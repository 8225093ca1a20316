"""What a page needs so that it looks as its readers see it: images, styles, scripts, fonts, posters, icons; and what a
style sheet needs: imports, fonts, images.

Tags are found by a search in linear time that knows comments and raw text, but looks into attributes of other tags: so
it may find a tag that stands in an attribute, which costs a request. Scripts are not run: what they ask for is not
known. References come as they are written, distinct, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import re2

from irlcrawl.base.steps import Steps
from irlcrawl.worker.page.scan import ATTRIBUTES, Attributes, unescaped

MARKUP_BYTES_MAX = 16 << 20
STEP_MATCHES = 200
"""Tags read between two stops."""
TAGS_MAX = 100_000
"""Tags read of a page: each takes some 3 microseconds."""
REFERENCES_MAX = 10_000
"""Distinct references taken of a page or a style sheet."""
CSS_TYPE = "text/css"

_SRC = {
    "img": ("src",), "script": ("src",), "source": ("src",), "video": ("src", "poster"), "audio": ("src",),
    "track": ("src",), "embed": ("src",), "input": ("src",), "object": ("data",), "body": ("background",),
    "table": ("background",), "td": ("background",), "image": ("href", "xlink:href"), "use": ("href", "xlink:href"),
}  # fmt: skip
"""Attributes that name one requisite, by element."""
_SRCSET = {"img": "srcset", "source": "srcset", "link": "imagesrcset"}
_LINK_RELS = frozenset(("stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon",
                        "preload", "modulepreload", "manifest"))  # fmt: skip

_TAG = re.compile(
    rb"<(?:!--(?:-?>|.*?--!?>|.*+)"
    rb"|(textarea|title|xmp|noembed|noframes|iframe)(?=[\s/>])(?:[^<]++|<(?!/\1)|(?!))*+"
    rb"|(style)(?=[\s/>])" + ATTRIBUTES.encode() + rb"[\s/]*+>?+((?:[^<]++|<(?!/style)|(?!))*+)"
    rb"|(script)(?=[\s/>])(" + ATTRIBUTES.encode() + rb")[\s/]*+>?+(?:[^<]++|<(?!/script)|(?!))*+"
    rb"|(" + "|".join([*(set(_SRC) - {"script"}), "link", "base"]).encode() + rb")(?=[\s/>])"
    rb"(" + ATTRIBUTES.encode() + rb"))",
    re.IGNORECASE | re.DOTALL,
)
"""A comment or raw text; a style and what it says; a script; another element that may name requisites."""
_options = re2.Options()
_options.encoding = re2.Options.Encoding.LATIN1
_STYLED = re2.compile(rb"""(?i)[\s"']style\s*=\s*(?:"([^"]*)"|'([^']*)')""", _options)

_CSS = re.compile(
    r"""/\*(?:[^*]++|\*(?!/)|(?!))*+|@namespace[^;]*+"""
    r"""|url\(\s*+(?:"([^"\n]*+)|'([^'\n]*+)|((?:[^()"'\\\s]++|\\[0-9a-fA-F]{1,6}\s?|\\.|(?!))*+))"""
    r"""|@import\s++(?:"([^"\n]*+)|'([^'\n]*+))""",
    re.IGNORECASE,
)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_CANDIDATE = re.compile(r"[\s,]*+(\S++)([^,(]*+(?:\([^)]*+\)?[^,(]*+)*+)")


def of_page(markup: bytes) -> Steps[tuple[str | None, list[str], bool]]:
    """(the base, the requisites) that a page in UTF-8 names; and whether it was not read to its end."""
    partly = len(markup) > MARKUP_BYTES_MAX
    markup = markup[:MARKUP_BYTES_MAX]
    base: str | None = None
    found: dict[str, None] = {}
    for at, match in enumerate(_TAG.finditer(markup)):
        if at % STEP_MATCHES == STEP_MATCHES - 1:
            yield
        if at == TAGS_MAX or len(found) > REFERENCES_MAX:
            partly = True
            break
        _, style, css, script, of_script, name, of_tag = match.groups()
        if style:
            found |= dict.fromkeys(of_css(css.decode("utf-8", "replace")))
        elif script:
            _take(found, Attributes(of_script).get("src"))
        elif name:
            tag, attributes = name.decode().lower(), Attributes(of_tag)
            if tag == "base":
                base = attributes.get("href") if base is None else base
            else:
                _of_element(tag, attributes, found)
    if b"url(" in markup:
        for at, (double, single) in enumerate(_STYLED.findall(markup)):
            if at % STEP_MATCHES == STEP_MATCHES - 1:
                yield
            if at == TAGS_MAX or len(found) > REFERENCES_MAX:
                partly = True
                break
            found |= dict.fromkeys(of_css(unescaped(double or single)))
    return base, list(found)[:REFERENCES_MAX], partly


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
        for url in of_srcset(text):
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
    """What a style sheet, or an attribute `style`, names."""
    found: dict[str, None] = {}
    if "url(" in text or "@import" in text or "URL(" in text or "@IMPORT" in text:
        for match in _CSS.finditer(text):
            reference = next(filter(None, match.groups()), "")
            _take(found, _CSS_ESCAPE.sub(_css_character, reference) if "\\" in reference else reference)
            if len(found) == REFERENCES_MAX:
                break
    return list(found)


def _css_character(escape: re.Match[str]) -> str:
    number = int(escape[1], 16) if escape[1] else 0
    return escape[2] or (chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd")
