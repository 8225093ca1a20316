"""The examples of RFC 9309, each with what the text around it says of it."""

from __future__ import annotations

from irlcrawl.web.robots import Rules
from tests.conformance.conftest import Told
from tests.web.test_robots import RFC_EXAMPLE

MERGED = b"user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: ExampleBot\ndisallow: /baz\n"
LONGEST = b"User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"
CASES: list[tuple[str, bytes, str, str, bool]] = [
    ("2.2.1, groups together", MERGED, "ExampleBot", "/foo", False),
    ("2.2.1, groups together", MERGED, "examplebot", "/bar", False),
    ("2.2.1, groups together", MERGED, "EXAMPLEBOT", "/baz", False),
    ("2.2.1, no group", MERGED, "otherbot", "/foo", True),
    ("2.2.2, robots.txt itself", b"User-agent: *\nDisallow: /", "foobot", "/robots.txt", True),
    *[("2.2.2, equivalent rules", b"User-agent: *\nDisallow: %s" % rule.encode() + b"\nAllow: %s" % rule.encode(), "x",
       rule, True) for rule in ("/a", "/a/b?c")],
    *[("2.2.2, octets", b"User-agent: *\nDisallow: " + rule.encode(), "x", path, False) for rule, path in (
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"), ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar/\u30c4", "/foo/bar/%E3%83%84"), ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
    )],
    ("2.2.3, end of the pattern", b"User-agent: *\nDisallow: /\nAllow: /this/path/exactly$", "x", "/this/path/exactly",
     True),
    ("2.2.3, end of the pattern", b"User-agent: *\nDisallow: /\nAllow: /this/path/exactly$", "x", "/this/path/exactly/",
     False),
    ("2.2.3, any characters", b"User-agent: *\nDisallow: /\nAllow: /this/*/exactly", "x", "/this/path/exactly", True),
    ("2.2.3, verbatim", b"User-agent: *\nDisallow: /path/file-with-a-%2A.html", "x", "/path/file-with-a-*.html", False),
    ("2.2.3, verbatim", b"User-agent: *\nDisallow: /path/file-with-a-%2A.html", "x", "/path/file-with-a-b.html", True),
    ("2.2.3, verbatim", b"User-agent: *\nDisallow: /path/foo-%24", "x", "/path/foo-$", False),
    ("2.2.4, other records", b"User-agent: x\nSitemap: https://a.test/s.xml\nUser-agent: y\nDisallow: /", "x", "/a",
     False),
    *[("5.1, all others", RFC_EXAMPLE, "otherbot", path, allowed) for path, allowed in (
        ("/example/page.html", False), ("/a.gif", False), ("/a.gif?b", True), ("/publications/", True), ("/", True))],
    *[("5.1, foobot", RFC_EXAMPLE, "foobot", path, allowed) for path, allowed in (
        ("/example/page.html", True), ("/example/allowed.gif", True), ("/example/disallowed.gif", False),
        ("/publications/", False))],
    *[("5.1, barbot and bazbot", RFC_EXAMPLE, token, path, allowed)
      for token in ("barbot", "bazbot") for path, allowed in (
        ("/example/page.html", False), ("/example/other.html", True), ("/a.gif", True))],
    ("5.1, quxbot", RFC_EXAMPLE, "quxbot", "/example/page.html", True),
    ("5.2, longest match", LONGEST, "foobot", "/example/page/disallowed.gif", False),
    ("5.2, longest match", LONGEST, "foobot", "/example/page/", True),
]  # fmt: skip


def test_the_examples_mean_what_the_text_says(told: Told) -> None:
    wrong = [case for case in CASES if Rules(case[1], case[2]).allowed(case[3].encode()) != case[4]]
    assert not wrong
    told("RFC 9309 (examples)", len(CASES))
