"""Wishes in the head of a page, however that is written."""

from __future__ import annotations

import pytest

from irlcrawl.config.keys import Config
from irlcrawl.worker.archive.unit import Exchange
from irlcrawl.worker.fetch.wishes import Wishes

META = '<meta name="robots" content="noai">'
PAGE = f"<!doctype html><html><head><title>x</title>{META}</head><body></body></html>"


def wishes_of(body: bytes, content_type: str) -> set[str]:
    header = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode()
    config = Config()
    config.crawl.user_agent = "testbot/1.0 (+http://bot.test/)"
    return set(Wishes(config).of(Exchange(b"http://a.test/", "", b"", header, body), None))


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
