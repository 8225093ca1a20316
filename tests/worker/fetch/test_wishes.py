"""Wishes in the head of a page, however that is written."""

from __future__ import annotations

import pytest

from irlcrawl.base.steps import at_once
from irlcrawl.config.keys import Config
from irlcrawl.web import wishes
from irlcrawl.web.robots import Rules
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch.wishes import Wishes

META = '<meta name="robots" content="noai">'
PAGE = f"<!doctype html><html><head><title>x</title>{META}</head><body></body></html>"


def reader(*obeyed: str) -> Wishes:
    config = Config()
    config.crawl.user_agent = "testbot/1.0 (+http://bot.test/)"
    config.page.wishes_obeyed = list(obeyed)
    return Wishes(config)


def answer(body: bytes, content_type: str = "text/html", *fields: str) -> Exchange:
    header = "\r\n".join(("HTTP/1.1 200 OK", f"Content-Type: {content_type}", *fields, "", ""))
    return Exchange(b"http://a.test/", "", b"", header.encode(), body)


def wishes_of(body: bytes, content_type: str, *fields: str, rules: Rules | None = None) -> set[str]:
    return set(at_once(reader().of(answer(body, content_type, *fields), rules)))


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (PAGE.encode(), "text/html"),
        (PAGE.encode(), "charset=utf-8"),
        (PAGE.encode("utf-16"), "text/html"),
        (PAGE.encode("utf-16-be"), "text/html; charset=utf-16be"),
        (PAGE.encode("utf-16-le"), "text/html; charset=utf-16"),
        (b"\n\n" + PAGE.encode(), "application/xhtml+xml"),
        (f'<html><head><script src="x"/>{META}</head></html>'.encode(), "application/xhtml+xml"),
        (f'<html><head><script>"</head>"</script>{META}</head></html>'.encode(), "text/html"),
    ],
)
def test_a_wish_in_a_page_was_not_seen(body: bytes, content_type: str) -> None:
    assert wishes_of(body, content_type) == {"noai"}


def test_what_is_in_a_script_is_no_wish() -> None:
    assert wishes_of(f'<html><head><script src="x"/>{META}</head></html>'.encode(), "text/html") == set()
    assert wishes_of(b"\0" * 1000, "text/html") == set()


def test_of_tdm_a_page_knows_more_than_its_header_and_that_more_than_the_file_of_the_host() -> None:
    """What the header reserved could not be given free by a page."""
    header = ("tdm-reservation: 1", "tdm-policy: https://a.test/site")
    rules = Rules(b"irlcrawl-tdm: 0 / https://a.test/host", "testbot")
    page = b'<head><meta name="tdm-reservation" content="0"><meta name="tdm-policy" content="https://a.test/page">'
    assert wishes_of(page, "text/html", *header, rules=rules) == {
        "tdm-reservation=0", "tdm-policy=https://a.test/page",
    }  # fmt: skip
    assert wishes_of(b"<head>", "text/html", *header, rules=rules) == {
        "tdm-reservation=1", "tdm-policy=https://a.test/site",
    }  # fmt: skip
    assert wishes_of(b"<head>", "text/html", rules=rules) == {"tdm-reservation=0", "tdm-policy=https://a.test/host"}


@pytest.mark.parametrize("part", [b"<a =>", b"<p hidden>", b"<noscript>"])
def test_a_head_of_many_tags_held_a_worker(part: bytes) -> None:
    """It was read in one piece."""
    page = META.encode() + part * (250_000 // len(part))
    steps = reader().of(answer(page), None)
    assert sum(1 for _ in steps) >= 20


def test_an_ordinary_head_is_read_at_once() -> None:
    page = PAGE.encode() + b"<p>text <a href=/x>x</a>" * 10_000
    assert list(reader().of(answer(page), None)) == []


def test_a_page_that_was_gone_since_the_year_1_ended_a_crawl() -> None:
    """Its date could not be read back, which was an error of the worker."""
    exchange = answer(b"x", "text/html", "X-Robots-Tag: unavailable_after: 0001-01-01")
    obeying = reader("unavailable_after")
    assert obeying.withhold(at_once(obeying.of(exchange, None)), exchange, 1e9)


def test_a_page_whose_wish_cannot_be_understood_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise ValueError

    monkeypatch.setattr(wishes, "withheld", broken)
    assert reader("noai").withhold(frozenset({"noai"}), answer(b"x"), 1e9)
    assert not reader().withhold(frozenset({"noai"}), answer(b"x"), 1e9)
