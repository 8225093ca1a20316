"""The scanner: it finds in markup, ordinary or not, what Lexbor finds in the tree it builds of it."""

from __future__ import annotations

import html
from html.entities import html5
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from irlcrawl.config.keys import Page
from irlcrawl.worker.page import links, scan

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
    ours = [found for found in scan.elements(markup.encode()) if found is not None]
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


HIDING = [
    "", "", "", " hidden", ' hidden=""', " HIDDEN=x", " hidden='Until-Found'", ' style="display:none"',
    " style='visibility:hidden'", ' style="color:red; Display : None !important"', " style=display:none",
    ' class="hidden md"', " title=' hidden '", ' title="style=display:none"', ' aria-hidden="true"',
    ' style="display:block"', ' style="overflow:hidden"', ' class="a hidden b" style="visibility: collapse"',
    ' style="content-visibility:hidden"', " data-hidden=1",
]  # fmt: skip
CONTENT = st.sampled_from([
    "<a href='@'></a>", '<a href="@"></a>', '<a rel="x" href="@">text</a>', '<A HREF="@"></A>', '<area href="@">',
    "<iframe src=@></iframe>", "<svg><a xlink:href='@'></a></svg>", "text", "a hidden text", "<br>", "<hr hidden>",
    '<svg style="display:none"><g/><a href="@"></a></svg>', "<!-- <div hidden> -->", "<script>'<div hidden>'</script>",
    "<!-- </div> <p style='display:none'> -->", "<style>b { display:none }</style>", "<title></div></title>",
    '<img style="display:none">',
])  # fmt: skip


def element(name: str, attributes: str, content: list[str]) -> str:
    return f"<{name}{attributes}>{''.join(content)}</{name}>"


NESTED = st.recursive(
    CONTENT,
    lambda inner: st.builds(
        element,
        st.sampled_from(["div", "div", "span", "section", "DIV", "x-box", "noscript", "b", "ul"]),
        st.sampled_from(HIDING),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


def hides(node: Any) -> bool:
    """A browser's reasons, but for style sheets."""
    style = (node.attributes.get("style") or "").lower().replace("!important", "")
    said = [tuple(part.strip() for part in one.split(":", 1)) for one in style.split(";")]
    hidden = "hidden" in node.attributes and (node.attributes["hidden"] or "").lower() != "until-found"
    unseen = {("display", "none"), ("visibility", "hidden"), ("visibility", "collapse")}
    return hidden or not unseen.isdisjoint(said) or node.tag == "noscript"


def hidden_in_the_tree(node: Any) -> bool:
    while node is not None and node.tag not in ("body", "html"):
        if hides(node):
            return True
        node = node.parent
    return False


@given(st.lists(NESTED, max_size=8).map("".join), st.sampled_from([(), ("nofollow",)]))
def test_a_link_is_hidden_that_is_in_what_the_page_hides(markup: str, rels: tuple[str, ...]) -> None:
    parts = markup.split("@")
    page = "<body>" + "".join(part + (str(at) if at < len(parts) - 1 else "") for at, part in enumerate(parts))
    tree = LexborHTMLParser(page.encode())
    names = ("href", "xlink:href", "src")
    theirs = {
        next(node.attributes[name] for name in names if node.attributes.get(name)): hidden_in_the_tree(node)
        for node in tree.css("a,area,iframe")
        if any(node.attributes.get(name) for name in names)
    }
    ours: dict[str, bool] = {}
    for found in scan.elements(page.encode(), *rels):
        if isinstance(found, bytes):
            ours[found.decode()] = False
        elif href := next((value for name in names if (value := found.attrs.get(name))), None):
            ours[href] = found.hidden
    assert ours == theirs


@pytest.mark.parametrize(
    ("markup", "seen"),
    [
        ("<ul><li hidden><a href=1><li><a href=2></ul><a href=3>", "23"),
        ("<ul><li hidden><a href=1></ul><a href=3>", "3"),
        ("<p hidden><a href=1><p><a href=2><div><a href=3></div>", "23"),
        ("<table><tr><td hidden><a href=1><td><a href=2><tr hidden><td><a href=3></table><a href=4>", "24"),
        ("<div hidden><a href=1>", ""),
        ("<div hidden/><a href=1>", "1"),
        ("<input hidden><a href=1>", "1"),
        ("<body style='display:none'><a href=1>", "1"),
        ("<html hidden><a href=1>", "1"),
        ("<a hidden href=1>x</a><a href=2 style='display: none'>x</a><a href=3>", "3"),
        ("<div title='>' hidden><a href=1></div><a href=2>", "2"),
        ("<!-- <div> --><div hidden><!-- </div> --><a href=1></div><a href=2>", "2"),
        ("<!-- <div hidden> --><a href=1>", "1"),
        ("<script>x = '<div hidden>'</script><a href=1>", "1"),
        ("<template shadowrootmode=open><div hidden><a href=1></div><a href=2></template>", "2"),
    ],
)
def test_what_a_page_hides_ends_where_its_element_does(markup: str, seen: str) -> None:
    found = [e for e in scan.elements(markup.encode(), "x") if isinstance(e, bytes) or e.tag == "a"]
    shown = [e.decode() if isinstance(e, bytes) else e.attrs.get("href") or "" for e in found
             if isinstance(e, bytes) or not e.hidden]  # fmt: skip
    assert "".join(shown) == seen


BEFORE = st.sampled_from([
    "<!-- - -- -->", '<p high=1 style="font-family: x">', '<b rel="nofollow" start=2>', "<svg></svg>",
    "<noscript></noscript>", '<a name="0" rel="next">', "<a REV=x>",
])  # fmt: skip


@given(st.lists(BEFORE, max_size=20).map("".join))
def test_words_are_found_whatever_stands_before_them(before: str) -> None:
    markup = before + '<div hidden><a href="1"></div><a href="2" rel="nofollow"><a href="3">'
    found = [e for e in scan.elements(markup.encode(), "nofollow") if isinstance(e, bytes) or e.attrs.get("href")]
    assert [e if isinstance(e, bytes) else (e.attrs.get("href"), e.hidden) for e in found] == [
        ("1", True), ("2", False), b"3",
    ]  # fmt: skip


Shadow = tuple[str, list[Any]]
SHADOWS = st.recursive(
    st.sampled_from(["<a href=x>", '<a href="y">', "text", "<br>"]),
    lambda inner: st.tuples(
        st.sampled_from(["", " shadowrootmode=open", " id=x ShadowRootMode='OPEN'", ' shadowrootmode="other"']),
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


@given(st.lists(ELEMENTS | DRAWINGS | NESTED, max_size=30).map("".join), st.integers(2, 40))
def test_a_page_read_in_windows_has_the_same_links(markup: str, window: int) -> None:
    whole = links.read(markup.encode(), "utf-8", "text/html", Page())
    with mock.patch.object(scan, "WINDOW_BYTES", window):
        parts = links.read(markup.encode(), "utf-8", "text/html", Page())
    assert list(parts.references.items()) == list(whole.references.items())
    assert (parts.unvouched, parts.base, parts.nofollow) == (whole.unvouched, whole.base, whole.nofollow)


SLOW = [
    b"<", b"<svg></svg>", b"<noscript>", b"<p hidden>", b"<frame src=/x>", b"<template></template>", b"<td hidden>",
    b"<a href='x'>", b"<math><svg></math>", b"<textarea></textarea>", b"<div hidden></div>", b"<meta name='<'>",
]  # fmt: skip


@pytest.mark.parametrize("piece", SLOW)
def test_four_hosts_that_served_megabytes_of_such_held_the_worker_for_seconds(piece: bytes) -> None:
    """9.9 MB of `<` took 1.6 CPU-seconds in one go: now there is a stop every few milliseconds of work, and an end."""
    work = scan.Work()
    stops = most = 0
    before = work.left
    for found in scan.elements(piece * (4_000_000 // len(piece)), work=work):
        if found is None:
            stops += 1
            most = max(most, before - work.left)
            before = work.left
    assert stops > 20 and most < 6 * scan.STOP_WORK
    assert work.left > -6 * scan.STOP_WORK


def test_what_is_too_much_work_is_left_out_and_says_so() -> None:
    work = scan.Work(1000)
    found = list(scan.elements(b"<frame src=/x>" * 10_000, work=work))
    assert work.over and 100 < len(found) < 2000


LONG = b"x" * scan.COMMENT_BYTES + b"<a href=/no>"


@pytest.mark.parametrize("hidden", [b"", b"<p hidden></p>"])
@pytest.mark.parametrize(
    ("markup", "said"),
    [
        (b"<!--" + LONG + b"--><a href=/yes>", [b"/yes"]),
        (b"text <!-- - -- " + LONG + b"--!><a href=/yes><!-- --><a href=/too>", [b"/yes", b"/too"]),
        (b"<a href=/yes><!--" + LONG + b"-- >", [b"/yes"]),
        (b"<!--><a href=/yes>" + LONG.replace(b"/no", b"/too") + b"-->", [b"/yes", b"/too"]),
        (b"<div><!---><a href=/yes><!--" + LONG, [b"/yes"]),
    ],
)
def test_a_comment_ends_where_it_does_however_long_it_is(markup: bytes, said: list[bytes], hidden: bytes) -> None:
    found = links.extract(hidden + markup, "text/html", b"http://a.test/", Page())
    assert [url.removeprefix(b"http://a.test") for url, _ in found.links] == said


@pytest.mark.parametrize(
    "inside",
    [b"<!--" + LONG + b"</p> -->", b"<script>" + LONG + b"</p></script>", b"<title></p></title>", b"<!--></b>"],
)
def test_what_hides_ends_behind_a_long_comment_or_script_in_it(inside: bytes) -> None:
    page = b"<p hidden>" + inside + b"<a href=http://b.test/></p><a href=http://c.test/>"
    found = links.extract(page, "text/html", b"http://a.test/", Page())
    assert found.unvouched - {b"http://a.test/no"} == {b"http://b.test/"}


@pytest.mark.parametrize("part", [b"<template>", b"</template><template>"])
def test_a_page_of_templates_held_the_loop_until_its_work_was_over(part: bytes) -> None:
    steps = links.extracting(b"<template>" + part * 100_000, "text/html", b"http://a.test/", Page())
    assert sum(1 for _ in steps) >= 25


def test_a_value_of_megabytes_is_read_as_far_as_its_bound() -> None:
    """Without a reference in it all was read, in one piece."""
    value = b"a" * scan.VALUE_BYTES_MAX
    assert scan.unescaped(value + b"b" * 1_000_000) == value.decode()
    assert scan.Attributes(b" title='" + value * 8 + b"' href=/x").get("title") == value.decode()
    steps = links.extracting(
        b"<link rel='" + b"ab " * 4_000_000 + b"' href=/x>", "text/html", b"http://a.test/", Page()
    )
    assert sum(1 for _ in steps) >= 4
