"""Which `<meta>` elements of a page are found by their name."""

from __future__ import annotations

import pytest

from irlcrawl.base.steps import at_once
from irlcrawl.worker.page.metas import BEHIND_BYTES, HEAD_BYTES_MAX, named

NAMES = ("robots", "testbot", "tdm-reservation")


@pytest.mark.parametrize(
    ("page", "want"),
    [
        (b'<html><head><meta name="robots" content="noai"></head>', [("robots", "noai")]),
        (b"<META CONTENT='noai, noindex' NAME=Robots><title>x</title>", [("robots", "noai, noindex")]),
        (b'<head><meta name=" TestBot " content=a><meta name=tdm-reservation content=1></head>',
         [("testbot", "a"), ("tdm-reservation", "1")]),
        (b'<head><meta name="otherbot" content="robots"></head>', []),
        (b'<head><meta name="robots"></head>', [("robots", "")]),
        (b'<head><!-- <meta name="robots" content="noai"> --></head>', []),
        (b'<head><script>s = \'<meta name="robots" content="noai">\'</script></head>', []),
        (b'<head><title>x</title></head><meta name="robots" content="noai">', [("robots", "noai")]),
        (b'<head></head>' + b"x" * BEHIND_BYTES + b'<meta name="robots" content="noai">', []),
        (b'<meta property="robots" content="noai">', []),
        (b'<head><script>s = "</head>"</script><meta name="robots" content="noai"></head>', [("robots", "noai")]),
        (b'<head><!-- </head> --><meta name="robots" content="noai"></head>', [("robots", "noai")]),
        (b'<meta name="description" content="before the </head> tag"><meta name="robots" content="noai"></head>',
         [("robots", "noai")]),
        (b'<head><title>Where does </head> go?</title>' + b" " * BEHIND_BYTES + b'<meta name="robots" content="noai">',
         [("robots", "noai")]),
        (b'<head><SCRIPT>"</head>"</SCRIPT><meta name="robots" content="noai">', [("robots", "noai")]),
        (b"", []),
    ],
)  # fmt: skip
def test_elements_of_the_head(page: bytes, want: list[tuple[str, str]]) -> None:
    assert at_once(named(page, NAMES)) == want


def test_of_a_page_without_an_end_of_its_head_the_beginning_is_read() -> None:
    meta = b"<meta name=robots content=noai>"
    assert at_once(named(b" " * (HEAD_BYTES_MAX - len(meta)) + meta, NAMES)) == [("robots", "noai")]
    assert at_once(named(b" " * HEAD_BYTES_MAX + meta + b"</head>", NAMES)) == []
