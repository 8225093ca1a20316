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


DRAWINGS = st.sampled_from([
    "<svg><a xlink:href='1'></a></svg>", '<svg><a id="x" xlink:href="2">text</a></svg>',
    "<svg><A XLINK:HREF = 3></a></svg>",
    '<svg><use xlink:href="#4"></use><a href="5">5</a></svg>', '<a xlink:href="6" href="7">', "<svg><g><svg></svg>"
    '<a href="8" xlink:href="9"></a><a xlink:href="10" rel="nofollow"></a></g></svg>', "<p xlink:href=11>",
])  # fmt: skip


@given(st.lists(ELEMENTS | DRAWINGS, max_size=12).map("".join), st.sampled_from(["", "nofollow"]))
def test_every_xlink_in_a_drawing_is_found(markup: str, rels: str) -> None:
    tree = LexborHTMLParser(markup.encode())
    wanted = {(shown(node.attributes, "xlink:href"), shown(node.attributes, "rel")) for node in tree.css("svg a")}
    found = [e.attrs for e in scan.elements(markup.encode(), rels) if isinstance(e, scan.Element) and e.tag == "a"]
    assert {link for link in wanted if link[0]} <= {(link.get("xlink:href"), link.get("rel")) for link in found}


Shadow = tuple[str, list[Any]]
SHADOWS = st.recursive(
    st.sampled_from(["<a href=x>", '<a href="y">', "text", "<br>"]),
    lambda inner: st.tuples(
        st.sampled_from(["", " shadowrootmode=open", " id=x ShadowRootMode='OPEN'", ' shadowrootmode="closed"']),
        st.lists(inner, max_size=4),
    ),
)


def written(part: str | Shadow) -> str:
    return part if isinstance(part, str) else f"<template{part[0]}>{''.join(map(written, part[1]))}</template>"


def seen(part: str | Shadow) -> str:
    """What a reader sees of it, as markup without templates."""
    if isinstance(part, str):
        return part
    return f"<div>{''.join(map(seen, part[1]))}</div>" if "open" in part[0].lower() else "<br>"


@given(st.lists(SHADOWS, max_size=6))
def test_open_shadow_roots_are_read_and_other_templates_are_not(parts: list[str | Shadow]) -> None:
    def hrefs(markup: str) -> set[str | None]:
        elements = scan.elements(markup.encode())
        return {scan.unescaped(e) if isinstance(e, bytes) else e.attrs.get("href") for e in elements}

    assert hrefs("".join(map(written, parts))) == hrefs("".join(map(seen, parts)))


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
