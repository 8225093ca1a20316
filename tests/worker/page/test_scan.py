"""The scanner: it finds in markup, ordinary or not, what Lexbor finds in the tree it builds of it."""

from __future__ import annotations

import html
from html.entities import html5
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from irlcrawl.worker.page import scan

VALUES = st.text("ab &\"'<>=/#é;x1", max_size=8) | st.sampled_from(["nofollow", "NoFollow x"])
ASKED = ("href", "rel", "class", "data-x", "title")
NAMES = st.sampled_from(["href", "rel", "class", "data-x", "HREF", "title"])
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=3)


def tag(name: str, attributes: dict[str, str], quote: str) -> str:
    shown = [f"{key}={quote}{html.escape(value)}{quote}" for key, value in attributes.items()]
    return f"<{' '.join([name, *shown])}>"


STARTS = st.sampled_from(["a", "a", "A", "link", "LINK", "area", "p", "br", "meta", "abbr", "x-a", "unknown"])
ELEMENTS = st.one_of(
    st.builds(tag, STARTS, ATTRIBUTES, st.sampled_from("'\"")),
    st.sampled_from([
        "</a>", "</p>", "text", " ", "é", "a < b", "<", "<<", ">", "\0", "<!>", "</>", "</ >", "<?x?>",
        "<!doctype html>", "<!-- <a href=x> -->",
        "<!-- - -- -->", "<!---->", "<!-->", "<!--->", "<!--x--!>", "<!-- > -->", "<![if x]>",
        "<p title='<a href=1>'>", "</p title='<a href=2>'>", '<p title=">', '<p title="a=\'>', "<p =x>", "<p a = '>'>",
        "<p a=b\"c>", "<p a='b'c=\"d\">", "<p/a/b=c/>", "<a title='href=\"y\"' href=z>", '<a title=\'"\' href="q">',
        '<a href="x y#z">', '<a href="a&amp;b#c">', '<a href="a&#35;b#c">', '<a href="a&#x20;#b">', '<a href="a&#">',
        '<a  id="1"\nhref="n"\n>', '<a href="1" href="2">', '<a href="1"rel="nofollow">', "<a\0 href=x>",
        "<template><a href=t></template>", "<template><template></template><a href=t></template>", "</template>",
    ]),
    st.builds("<script>{}</script>".format, st.sampled_from(["", "<a href=1>", "'<'", "<!-- x", "a<b", "</a>"])),
    st.builds("<style x='y'>{}</style >".format, st.sampled_from(["", "<a href=1>", "p > a"])),
    st.builds("<title>{}</title>".format, st.sampled_from(["", "<a href=1>"])),
)  # fmt: skip


@given(st.lists(ELEMENTS, max_size=12).map("".join))
def test_the_scanner_agrees_with_the_tree(markup: str) -> None:
    tree = LexborHTMLParser(markup.encode())
    theirs = {(node.tag, *(shown(node.attributes, name) for name in ASKED)) for node in tree.css("a,link,area,meta")}
    ours = list(scan.elements(markup.encode()))
    others = {(e.tag, *(shown(e.attrs, name) for name in ASKED)) for e in ours if isinstance(e, scan.Element)}
    assert {e for e in others if e[0] != "a"} == {e for e in theirs if e[0] != "a"}  # sets: a tree may reopen a link
    assert others <= theirs
    plain = [scan.unescaped(reference) for reference in ours if isinstance(reference, bytes)]
    hrefs = {cut(href) for href in plain} | {cut(e[1]) for e in others if e[0] == "a" and e[1] is not None}
    assert hrefs == {cut(e[1]) for e in theirs if e[0] == "a" and e[1] is not None}


NAMED = st.sampled_from(sorted(html5)).flatmap(lambda name: st.sampled_from([name, name.rstrip(";"), name[:-2]]))
REFERENCES = st.builds("x&{}{}".format, NAMED, st.sampled_from(["", "=", ";", "a", "1", "_", "&", "/x"]))


@given(REFERENCES)
@example("?a&section/x")
@example("?a&notit;")
@example("?a&copy2")
def test_a_name_that_only_begins_like_a_characters_was_taken_for_it(value: str) -> None:
    assert scan.unescaped(value.encode()) == LexborHTMLParser(f'<a href="{value}">').css("a")[0].attributes["href"]


@given(st.lists(ELEMENTS, max_size=12).map("".join))
def test_a_rel_that_is_looked_for_is_found(markup: str) -> None:
    tree = LexborHTMLParser(markup.encode())
    links = [node.attributes for node in tree.css("a")]
    wanted = {shown(link, "href") for link in links if "nofollow" in (link.get("rel") or "").lower()}
    ours = scan.elements(markup.encode(), "nofollow")
    found = [e.attrs for e in ours if isinstance(e, scan.Element) and e.tag == "a"]
    assert {link.get("href") for link in found if "nofollow" in (link.get("rel") or "").lower()} == wanted


def cut(href: str) -> str:
    """Without its fragment."""
    return href.partition("#")[0]


def elements(markup: str) -> list[scan.Element]:
    """The elements of markup without a plain link."""
    found = list(scan.elements(markup.encode()))
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
    assert list(scan.elements(markup.encode())) == []
