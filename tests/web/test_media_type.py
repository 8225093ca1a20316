"""The media type of a Content-Type, and that a value without one loses nothing of a page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Page
from irlcrawl.web.media_type import essence, extracted
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch.wants import Wants
from irlcrawl.worker.page.links import extract, is_html

NAMED = {
    "text/html": "text/html",
    " Text/HTML ; charset=utf-8": "text/html",
    "text/html,text/html": "text/html",
    "text/html charset=utf-8": "text/html",
    "text/html\tcharset=utf-8": "text/html",
    "text/html (as ever)": "text/html",
    "application/xhtml+xml;q=1": "application/xhtml+xml",
    "text/x-\u00fc": "",
    "text/": "",
    "/html": "",
    "text": "",
    "html": "",
    "UTF-8": "",
    "charset=utf-8": "",
    "text/ html": "",
    "text /html": "",
    "*/*": "",
    "unknown/unknown": "",
    "application/unknown; charset=utf-8": "",
    "; charset=utf-8": "",
    "": "",
    "x/" + "y" * 1000: "x/" + "y" * 254,
}


@pytest.mark.parametrize(("value", "named"), NAMED.items())
def test_the_type_that_a_value_names(value: str, named: str) -> None:
    assert essence(value) == named


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        (["text/html; charset=x"], "text/html; charset=x"), ([], ""), (["charset=utf-8"], "charset=utf-8"),
        (["text/plain", "text/html; charset=utf-8"], "text/html; charset=utf-8"),
        (["text/plain;charset=gbk, text/html"], "text/html"),
        (["text/html;charset=gbk", "x/x, text/html"], "text/html"),
        (["text/html;charset=gbk;a=b, text/html;x=y"], "text/html;charset=gbk;a=b"),
        (["text/html", "*/*"], "text/html"), (["text/html", "cannot-parse"], "text/html"), (["*/*"], "*/*"),
        (["text/html;a=\", text/plain\""], "text/html;a=\", text/plain\""),
    ],
)  # fmt: skip
def test_of_several_values_the_first_counted(values: list[str], counts: str) -> None:
    """The examples of the Fetch standard's "extract a MIME type", and others."""
    assert extracted(values) == counts


@given(st.text("aZ09/+;, ()*=\u00fc-", max_size=12))
def test_it_is_two_tokens_or_nothing(value: str) -> None:
    found = essence(value)
    kind, slash, subtype = found.partition("/")
    assert found == "" or (kind and slash and subtype and value.lower().lstrip().startswith(found))
    assert not set(found) & set(" ;,()=\u00fc")


@pytest.mark.parametrize("value", [value for value, named in NAMED.items() if not named])
def test_a_page_whose_type_is_none_lost_its_links(value: str) -> None:
    body = b"<!doctype html><a href=/x>x</a>"
    found = extract(body, value, b"http://a.test/", Page())
    assert [url for url, _ in found.links] == [b"http://a.test/x"] and is_html(body, value)
    header = f"HTTP/1.1 200 OK\r\nContent-Type: {value}\r\n\r\n".encode("latin-1")
    assert Exchange(b"http://a.test/", "", b"", header, body).mime == ""
    assert Wants(["text/html"], 0).refuses(header) is Reason.OK, "its header does not say"
