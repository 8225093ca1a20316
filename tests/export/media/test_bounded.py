"""Pages of HTML that would fill memory or take hours are read in a process that ends; all others are read whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from irlcrawl.export.media import html
from irlcrawl.export.media.content import Content, Link
from irlcrawl.export.media.tame import TAME_BYTES, tame

CLONES = b"<head><p>" + b"".join(b"<b id=%d>" % number for number in range(1600)) + b"<p>x" * 2000
BOLD = b"<p>" + b"".join(b"<b id=%d>" % number for number in range(1000))
ENDS = b"</b>" * 1000
LAST = b"<a href=/last>z</a>"


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bounds that a test has time for."""
    html.READER.end()
    monkeypatch.setattr(html.READER, "seconds_max", 0.2)
    monkeypatch.setattr(html.READER, "bytes_max", 512 << 20)
    yield
    html.READER.end()


@pytest.mark.parametrize(
    "page",
    [
        b"<a " + b" ".join(b"x%d" % number for number in range(100_000)) + b">x",
        b"<select>" + b"<option>" * 200_000,
        b"".join(b"<body a%d=1>" % number for number in range(100_000)),
        b"<div>" * 200_000,
        (b"<div>" * 4000 + b"<object>" + b"</div>" * 4000) * 100,
        CLONES + b"<p>x" * 60_000,
    ],
)
def test_a_page_that_took_a_parser_hours_or_gigabytes_ends_a_process_at_most(strict: None, page: bytes) -> None:
    assert not tame(page)
    html.read(page, "utf-8")
    html.links(page, "utf-8")
    assert html.links(b"<p>" * TAME_BYTES + LAST, "utf-8")[0] == "", "the process is there again"


def test_a_page_of_24_kb_took_a_parser_more_than_a_gigabyte(strict: None) -> None:
    """Each `<p>` opened all 1,600 `<b>` anew."""
    page = CLONES.removeprefix(b"<head>")
    assert not tame(page)
    assert html.read(page, "utf-8") == Content(links=0) and list(html.links(page, "utf-8")[1]) == []


@pytest.mark.parametrize(
    "behind",
    [
        b"", b"<table><td>" + ENDS + b"</table>", b"<object>" + ENDS + b"</object>", b"<select>" + ENDS + b"</select>",
        b"<select><xmp>" + ENDS + b"</xmp></select>", b"<svg><![CDATA[" + ENDS + b"]]></svg>",
        b"<!--" + ENDS + b"--><!-->", b"<iframe>" + ENDS + b"</iframe>", b"<a ''' >",
        b"<script><!--<script></script>" + ENDS + b"</script>--></script>",
    ],
)  # fmt: skip
def test_what_hides_end_tags_from_a_parser_makes_no_page_tame(behind: bytes) -> None:
    assert not tame(b"<head>" + BOLD + behind + b"<p>x" * 2000)


@pytest.mark.parametrize(
    "bit",
    [
        b'<code class="x">y</code><p>', b'<code class="x"><span class="p">y</span></code><p>',
        b"<font color=red><b>x</b></font><td>", b"<p><b>bold</b> and <i>more <em>yet</em></i>", b"1 < 2",
    ],
)  # fmt: skip
def test_formatting_that_ends_is_tame(bit: bytes) -> None:
    assert tame(bit * 3000) and not tame(bit * TAME_BYTES)


PAGES = {
    "formatting-never-ended": b"<ul><li><b>text<a href=/%d>x</a></ul>",
    "ended-by-what-is-around": b"<article><div><a href=/%d>x</a></article>",
    "ended-with-formatting": b"<div><b><a href=/%d>x</a></div>",
    "quotes-in-quotes": b'<p><a title="the "quoted%d" words" href=/%d>x</a>',
    "ordinary": b"<div><p>A word, <b>bold</b> <a href=/%d>x</a></p></div>",
}


@pytest.mark.parametrize("name", PAGES)
def test_large_pages_lost_half_of_their_links(name: str) -> None:
    """They were cut where more elements seemed to be open than were."""
    bit, count = PAGES[name], 12_000
    page = b"".join(bit % ((number,) * bit.count(b"%d")) for number in range(count)) + LAST
    assert not tame(page)
    links = list(html.links(page, "utf-8")[1])
    assert [link.href for link in links] == [*(f"/{number}" for number in range(count)), "/last"]
    assert links == list(html.links_of(page)[1]) and links[-1] == Link("/last", "z", "", "a")


def test_the_words_of_a_large_page_are_those_of_a_small_one() -> None:
    pytest.importorskip("resiliparse")
    page = b"<main>" + b"<p>Some words of a page.</p>" * 12_000
    assert html.text(page, "utf-8") == html.text_of(page) != ""


def test_sixty_fonts_that_none_ended_are_read_whole() -> None:
    page = b"<font>" * 60 + b"".join(b"<p><a href=/%d>x</a>" % number for number in range(15_000))
    assert sum(1 for _ in html.links(page, "utf-8")[1]) == 15_000


@pytest.mark.parametrize(
    "bit",
    [
        "<div><br>", "<div><a href=/y>y</a>", "<b>", "<object>", "<table><td>", "<a href=/z><object>", "<div></x>",
        "<div></br>", "<div></>", "<a><div></a>", "<div><table><td></div>", "<svg><div/>", "<x/>",
        "<svg><foreignObject><path/>",
    ],
)  # fmt: skip
def test_elements_in_each_other_took_an_export_of_links_minutes(strict: None, bit: str) -> None:
    """1 MB of `<div><br>` in a link was not done after 97 CPU-seconds, for the parser nor for the words of the link."""
    page = b"<a href=/x>first</a><p><a href=/y>" + bit.encode() * (1_000_000 // len(bit))
    _, links = html.links(page, "utf-8")
    found = list(links)
    assert found[:1] in ([Link("/x", "first", "", "a")], []) and all(link.href in ("/y", "/z") for link in found[1:])


def test_of_a_page_that_is_too_much_the_beginning_is_read(strict: None) -> None:
    page = LAST + b"<p>words</p>" * (TAME_BYTES // 10) + b"<div>" * 400_000
    assert list(html.links(page, "utf-8")[1]) == [Link("/last", "z", "", "a")]
