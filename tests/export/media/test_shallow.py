"""How much of a page a parser is given: little of one that would fill memory or take hours, all of any other."""

from __future__ import annotations

import pytest

from irlcrawl.export.media import html
from irlcrawl.export.media.shallow import shallow

CLONES = b"<head><p>" + b"".join(b"<b id=%d>" % number for number in range(1600)) + b"<p>x" * 2000
FLOODS = {
    "formatting-opened-anew": CLONES,
    "attributes": b"<a " + b" ".join(b"x%d" % number for number in range(50_000)) + b">x",
    "names-of-end-tags": b"".join(b"</x%d>" % number for number in range(100_000)),
    "options": b"<select>" + b"<option>" * 200_000,
    "bodies": b"".join(b"<body a%d=1>" % number for number in range(50_000)),
    "depth": b"<div>" * 100_000,
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_page_that_took_a_parser_hours_or_gigabytes_is_cut(name: str) -> None:
    page = FLOODS[name]
    assert len(shallow(page)) < len(page)


def test_a_page_of_24_kb_took_a_parser_more_than_a_gigabyte() -> None:
    """Each `<p>` opened all 1,600 `<b>` anew."""
    assert len(shallow(CLONES)) < len(CLONES) / 1.5
    assert html.read(CLONES, "utf-8").links == 0


@pytest.mark.parametrize(
    "bit",
    [
        b"<p><b>bold</b> and <i>more <em>yet</em></i>", b"<li><a href=/x><b>x</b></a>", b"<p>x<br><img src=/y>",
        b"<select><option>1</option></select>", b"<script>'<b><b>'</script>", b"<!-- <b> --><td>x</td>",
    ],
)  # fmt: skip
def test_an_ordinary_page_is_read_whole(bit: bytes) -> None:
    page = b"<html><body>" + bit * 20_000 + b"<a href=/last>z</a>"
    assert shallow(page) == page
