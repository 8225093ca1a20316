"""The scanner that reads what a tree builder should not: it agrees with Lexbor on ordinary markup, and its bounds on
what a tree would cost are never too low."""

from __future__ import annotations

import html
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from irlcrawl.page import scan

WANTED = frozenset({"a", "link", "iframe", "meta", "base", "area"})

VALUES = st.text("ab &\"'<>=/#é;x1", max_size=8)
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
    theirs = Counter(
        (node.tag, tuple(sorted((k, v or "") for k, v in node.attributes.items())))
        for node in tree.css("a,link,area,meta")
    )
    ours = Counter((e.tag, tuple(sorted(e.attrs.items()))) for e in scan.elements(markup, WANTED))
    assert set(ours) == set(theirs)  # a tree may reopen a link, so not how often


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
    ],
)
def test_attributes(markup: str, want: dict[str, str]) -> None:
    assert [element.attrs for element in scan.elements(markup, frozenset({"a"}))] == [want]


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
    assert list(scan.elements(markup, frozenset({"a"}))) == []


TAGS = st.lists(
    st.sampled_from(
        [
            "<div>",
            "</div>",
            "<DIV>",
            "<b>",
            "</b>",
            "<b/>",
            "<font>",
            "</font>",
            "<blockquote>",
            "</blockquote>",
            "<x1>",
        ]
    ),
    max_size=40,
)


@given(TAGS)
def test_most_elements_open_at_once_by_brute_force(tags: list[str]) -> None:
    open_now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for shown in tags:
        name = shown.strip("</>").lower()[:8]
        open_now[name] = max(open_now[name] - 1, 0) if shown.startswith("</") else open_now[name] + 1
        most[name] = max(most[name], open_now[name])
    got = scan._unclosed(*scan._tag_words(" text ".join(tags).encode()))
    named = {word.to_bytes(8, "little").rstrip(b"\0").decode(): count for word, count in got}
    assert len(named) == len(got)
    assert named == {name: most[name] for name in most}


@given(st.dictionaries(st.text("abcdefgh", min_size=1, max_size=5), VALUES, max_size=40), st.sampled_from("'\""))
def test_attribute_ends_are_no_fewer_than_attributes(attributes: dict[str, str], quote: str) -> None:
    markup = tag("a", attributes, quote).encode()
    assert scan._attribute_ends(scan.np.frombuffer(markup, "u1")) >= len(attributes)


def test_ordinary_pages_are_not_costly() -> None:
    item = "<li><a href='x' class='y'>a</a> <b>b</b> <code class=z>c</code><br><p>unclosed<td>"
    for count in (10, 1000, 20_000):
        assert not scan.costly(f"<html><body><ul>{item * count}</ul>".encode())
    assert not scan.costly(b"")
    assert not scan.costly(b"<" * 100)
    assert not scan.costly(b"<div>" * 2000 + b"</div>" * 2000)


@pytest.mark.parametrize(
    "markup",
    [
        b"<div>" * 9000,
        b"<span></p>" * 9000,
        b"</div>" * 9000 + b"<div>" * 9000,
        b"<i><p>x</p>" * 9000,
        b"<b>" * 9000,
        b"<p><font a></b></p>" * 9000,
        b"<FONT a>" * 9000,
        b"<a " + b"b%d " * 40_000 + b">",
        b"<selectedcontent>",
    ],
)
def test_costly(markup: bytes) -> None:
    assert scan.costly(markup)
