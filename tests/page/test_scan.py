"""The scanner that reads what a tree builder should not: it agrees with Lexbor on ordinary markup, and what a tree is
built of is bounded."""

from __future__ import annotations

import html
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from irlcrawl.page import scan

VALUES = st.text("ab &\"'<>=/#é;x1", max_size=8) | st.sampled_from(["nofollow", "NoFollow x"])
ASKED = ("href", "rel", "class", "data-x", "title")
NAMES = st.sampled_from(["href", "rel", "class", "data-x", "HREF", "title"])
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=3)


def tag(name: str, attributes: dict[str, str], quote: str) -> str:
    shown = [f"{key}={quote}{html.escape(value)}{quote}" for key, value in attributes.items()]
    return f"<{' '.join([name, *shown])}>"


ELEMENTS = st.one_of(
    st.builds(tag, st.sampled_from(["a", "A", "link", "area", "p", "br", "meta"]), ATTRIBUTES, st.sampled_from("'\"")),
    st.sampled_from(
        ["</a>", "</p>", "text", " ", "<!-- <a href=x> -->", "<!>", "</>", "<?x?>", "<!doctype html>", "é", "a < b"]
    ),
    st.builds("<script>{}</script>".format, st.sampled_from(["", "<a href=1>", "'<'", "<!-- x"])),
    st.builds("<title>{}</title>".format, st.sampled_from(["", "<a href=1>"])),
)


@given(st.lists(ELEMENTS, max_size=12).map("".join))
def test_the_scanner_agrees_with_the_tree(markup: str) -> None:
    tree = LexborHTMLParser(markup.encode())
    theirs = {(node.tag, *(shown(node.attributes, name) for name in ASKED)) for node in tree.css("a,link,area,meta")}
    ours = list(scan.elements(markup, ""))
    others = {(e.tag, *(shown(e.attrs, name) for name in ASKED)) for e in ours if isinstance(e, scan.Element)}
    assert {e for e in others if e[0] != "a"} == {e for e in theirs if e[0] != "a"}  # sets: a tree may reopen a link
    assert others <= theirs
    hrefs = {scan.unescaped(href) for item in ours if isinstance(item, list) for href in item}
    assert hrefs | {e[1] for e in others if e[0] == "a"} - {None} == {e[1] for e in theirs if e[0] == "a"} - {None}


@given(st.lists(ELEMENTS, max_size=12).map("".join))
def test_a_rel_that_is_looked_for_is_found(markup: str) -> None:
    tree = LexborHTMLParser(markup.encode())
    links = [node.attributes for node in tree.css("a")]
    wanted = {shown(link, "href") for link in links if "nofollow" in (link.get("rel") or "").lower()}
    found = [e.attrs for e in scan.elements(markup, "nofollow") if isinstance(e, scan.Element) and e.tag == "a"]
    assert {link.get("href") for link in found if "nofollow" in (link.get("rel") or "").lower()} == wanted


def elements(markup: str) -> list[scan.Element]:
    """The elements of markup without a plain link."""
    found = list(scan.elements(markup, ""))
    assert all(isinstance(item, scan.Element) for item in found)
    return [item for item in found if isinstance(item, scan.Element)]


def shown(attributes: Any, name: str) -> str | None:
    """The value of an attribute, "" when it has none; None when there is no such attribute."""
    if isinstance(attributes, dict):
        return (attributes[name] or "") if name in attributes else None
    value: str | None = attributes.get(name)
    return value


@pytest.mark.parametrize(
    ("markup", "want"),
    [
        ("<a href=x>", {"href": "x"}),
        ("<a href = 'x y' >", {"href": "x y"}),
        ("<a/href=x/y>", {"href": "x/y"}),
        ("<a href=x href=y>", {"href": "x"}),
        ("<a href>", {"href": ""}),
        ("<a href=>", {"href": ""}),
        ("<a =x>", {"=x": ""}),
        ("<a don't href=x>", {"don't": "", "href": "x"}),
        ("<a\nHREF\n=\nx\n>", {"href": "x"}),
        ('<a href="x"rel=y>', {"href": "x", "rel": "y"}),
        ("<a href='&amp;&#65;&#x41;&lt&copy=1&copy;&bogus;&#99999999999;'>", {"href": "&AA<&copy=1©&bogus;\ufffd"}),
        ("<!-- <a> --!><a b>", {"b": ""}),
        ("<!--><a b>", {"b": ""}),
        ("<abbr href=\"y\"><a href='x'>", {"href": "x"}),
        ("<p title='<a href=\"y\">'><a href='x'>", {"href": "x"}),
        ("<p title=\"<a href='y'>\"><a href='x'>", {"href": "x"}),
        ("<svg><title/><style/><a href='x'></svg>", {"href": "x"}),
    ],
)
def test_attributes(markup: str, want: dict[str, str]) -> None:
    (element,) = elements(markup)
    names = {"href", "rel", "b", "don't", "=x", "hre", "x"}
    assert {name: value for name in names if (value := element.attrs.get(name)) is not None} == want


@pytest.mark.parametrize(
    "markup",
    [
        "<!-- <a>",
        "<script><a>",
        "<script></scripty><a>",
        "<plaintext></plaintext><a>",
        "<title><a>",
        "< a>",
        "<ab>",
        "<a href=x",
        "<a href='>",
    ],
)
def test_what_holds_no_element(markup: str) -> None:
    assert list(scan.elements(markup)) == []


@given(st.dictionaries(st.text("abcdefgh", min_size=1, max_size=5), VALUES, max_size=40), st.sampled_from("'\""))
def test_attribute_ends_are_no_fewer_than_attributes(attributes: dict[str, str], quote: str) -> None:
    """The bound that decides whether a tree is built is never too low."""
    parsed = LexborHTMLParser(tag("a", attributes, quote).encode()).css_first("a")
    assert parsed is not None
    markup = tag("a", attributes, quote).encode()
    assert scan._attribute_ends(scan.np.frombuffer(markup, "u1")) >= len(parsed.attributes)


@pytest.mark.parametrize(
    ("markup", "want"),
    [
        (b"", True),
        (b"<p>" * 3000, True),
        (b"<p>" * 3001, False),
        (b"<div>" * 9000 + b"</div>" * 9000, False),
        (b"<p>" + b"word " * 10_000, True),
        (b"<p " + b"a%d " * 20_000 + b">", False),
        (b"<p " + b"a=''" * 40_000 + b">", False),
        (b"<p " + b"a/" * 40_000 + b">", False),
    ],
)
def test_when_a_tree_is_built(markup: bytes, want: bool) -> None:
    assert scan.for_tree(markup) is want
