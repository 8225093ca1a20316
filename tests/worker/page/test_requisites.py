"""Requisites of pages and style sheets."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.steps import at_once
from irlcrawl.worker.page import requisites
from irlcrawl.worker.page.requisites import (
    CANDIDATES_MAX,
    CSS_CHARS_MAX,
    CSS_MATCHES_MAX,
    REFERENCES_MAX,
    SRCDOC_TAGS_MAX,
    SRCDOCS_MAX,
    WINDOW_BYTES,
    of_css,
    of_page,
    of_srcset,
)

PAGE = b"""<!DOCTYPE html><html><head><base href="/b/"><base href="/c/">
<link rel="stylesheet" href=style.css><LINK REL='shortcut Icon' HREF='icon.png'><link rel=canonical href=not-1>
<link rel=preload imagesrcset="big.png 2x">
<style>@import "more.css"; /* url(not-2) */ @font-face { src: url( 'font.woff2' ) } b { background: url(#x) }</style>
<script src="app.js?a=1&amp;b=2">document.write("<img src=not-3>")</script><script>"<img src=not-4>"</script>
<!-- <img src=not-5> --><title><img src=not-6></title></head><body background="wall.gif">
<img src="a.png" alt="x > y" srcset="a-2.png 2x, a,b.png 640w,c.png"><img src="data:image/png;base64,AAAA"><img src=" ">
<picture><source srcset=d.webp type="image/webp"></picture><video poster=poster.jpg src=film.mp4></video>
<input type=image src=button.png><input type=text src=not-7><p style='background: URL("inline.png")'>
<svg><image xlink:href="map.svg"/><use href="#part"/></svg><object data=plug.swf></object><a href=not-8>x</a>
<textarea><img src=not-9></textarea><img src='a.png'><img title="<b>" src=last.png"""


def test_of_page() -> None:
    base, found, partly = at_once(of_page(PAGE))
    assert base == "/b/" and not partly
    assert found == [
        "style.css", "icon.png", "big.png", "more.css", "font.woff2", "app.js?a=1&b=2", "wall.gif", "a.png", "a-2.png",
        "a,b.png", "c.png", "d.webp", "film.mp4", "poster.jpg", "button.png", "map.svg", "plug.swf", "last.png",
        "inline.png",
    ]  # fmt: skip


def test_what_the_html_in_a_srcdoc_needs_was_not_taken() -> None:
    inner = "<img src=b.png><iframe srcdoc='<img src=not-1>'></iframe><p style='background:url(c.png)'>"
    page = f"""<img src=a.png><iframe srcdoc="{inner}"><img src=not-2></iframe>"""
    page += "<iframe srcdoc='<base href=/x/><img src=not-3>'>"
    assert at_once(of_page(page.encode())) == (None, ["a.png", "b.png", "c.png"], False)
    many = "<iframe srcdoc='<img src=a>'>x</iframe>" * SRCDOCS_MAX + "<iframe srcdoc='<img src=no>'>"
    assert at_once(of_page(many.encode()))[1] == ["a"]
    images = "<img src=a>" * SRCDOC_TAGS_MAX + "<img src=no>"
    assert at_once(of_page(f"<iframe srcdoc='{images}'>".encode())) == (None, ["a"], True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@import url(a.css) print; @IMPORT 'b.css';", ["a.css", "b.css"]),
        ('@import"a.css";@import\'b.css\'print;@important "no"', ["a.css", "b.css"]),  # as minifiers write it
        ('x { src: url("c d.woff") format("woff"), url(e.woff) }', ["c d.woff", "e.woff"]),
        ("@namespace url(http://www.w3.org/1999/xhtml); a { b: url(x\\28 1\\).png) }", ["x(1).png"]),
        ("/* url(no) */ url(yes) /* url(no", ["yes"]),
        ("url(data:image/png;base64,AA==) url(#a) url() url('')", []),
        ("url(", []),
        ("url(\\d800)", ["\ufffd"]),
        ("a { content: 'url(no) \\' url(no)' } b { c: \"url(no)\" url(yes) }", ["yes"]),
        ("it's { b: url(no)\nurl(yes) }", ["yes"]),
        (
            "-webkit-image-set('a.png' 1x, \"b.avif\" type('image/avif'), url(c.png) 2x) image-set(\"d\\20 e\" 1x",
            ["a.png", "b.avif", "c.png", "d e"],
        ),
    ],
)
def test_of_css(text: str, found: list[str]) -> None:
    assert of_css(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a 1x,b 2x", ["a", "b"]), ("a,b", ["a,b"]), ("a, b", ["a", "b"]), (" ,a 1w (x, y) , b", ["a", "b"]), ("", []),
        ("data:image/png;base64,AA 1x, b", ["data:image/png;base64,AA", "b"]), (",,,", []), ("a(", ["a("]),
    ],
)  # fmt: skip
def test_of_srcset(text: str, found: list[str]) -> None:
    assert list(of_srcset(text)) == found


BITS = (
    "<img src=", "<!--", "-->", "<style>", "</style", "url(", "image-set(", "type(", ")", "'", '"', ">", " ", "\\",
)  # fmt: skip


@given(st.lists(st.sampled_from(BITS)))
def test_nothing_breaks_it(parts: list[str]) -> None:
    text = "".join(parts)
    at_once(of_page(text.encode()))
    of_css(text)
    list(of_srcset(text))


@pytest.mark.parametrize(
    "part",
    [
        "<img ", "<!--", "<style>", "url(", "url('", "image-set(", "image-set('", "@import ", "@import", "/*",
        "<a style='", "style=", "<link rel=icon ", "(", "<iframe srcdoc=", "<iframe srcdoc='<style>'>",
    ],
)  # fmt: skip
def test_the_work_is_linear(part: str) -> None:
    """A quadratic search would take minutes of half a MB."""
    text = part * ((1 << 19) // len(part))
    at_once(of_page(text.encode()))
    of_css(text)
    list(of_srcset(text))


@pytest.mark.parametrize("part", [b"<", b"x<", b"</p>", b"<p>", b"<!-- -->", b"<img src=a>"])
def test_a_page_of_tags_held_the_loop_for_two_seconds(part: bytes) -> None:
    stops = sum(1 for _ in of_page(b"<img src=a>" + part * ((1 << 21) // len(part))))
    assert stops >= (1 << 21) // WINDOW_BYTES


@given(
    st.lists(
        st.sampled_from(["<img src=1>", "<p>", "<!-- <img src=2>", "-->", "<title>", "</title>", "<iframe/>", " "])
    )
)
def test_a_page_searched_in_windows_names_the_same(parts: list[str]) -> None:
    page = "".join(parts).encode()
    whole = at_once(of_page(page))
    for window in (13, 20, 31):
        with mock.patch.object(requisites, "WINDOW_BYTES", window):
            assert at_once(of_page(page)) == whole


def test_what_is_looked_at_of_an_image_and_of_a_style_is_bounded() -> None:
    names = " 1x, ".join(f"{number}.png" for number in range(CANDIDATES_MAX + 9))
    assert len(at_once(of_page(f"<img srcset='{names}'>".encode()))[1]) == CANDIDATES_MAX
    assert of_css("/**/" * CSS_MATCHES_MAX + "url(late.png)") == []
    assert of_css("image-set(" + "''" * CSS_MATCHES_MAX + ") url(late.png)") == []
    assert of_css("url(early.png)" + " " * CSS_CHARS_MAX + "url(late.png)") == ["early.png"]


def test_of_a_page_of_nothing_else_so_many_are_taken() -> None:
    page = "".join(f"<img src={number}>" for number in range(REFERENCES_MAX + 9))
    _, found, partly = at_once(of_page(page.encode()))
    assert found == [str(number) for number in range(REFERENCES_MAX)] and partly
    assert len(of_css("".join(f"url({number})" for number in range(REFERENCES_MAX + 9)))) == REFERENCES_MAX


def test_a_style_sheet_held_the_loop_until_it_was_read() -> None:
    assert sum(1 for _ in requisites.reading_css("url(a)" * 20_000)) >= 10


def test_a_reference_of_a_million_escapes_is_none() -> None:
    """Each took a call, in one piece."""
    assert of_css("url(" + "\\a" * 1_000_000 + ") url(x)") == ["x"]
    page = b"<style>url(" + b"\\a" * 1_000_000 + b") url(x)</style>"
    assert at_once(of_page(page))[1] == ["x"]
