"""RFC 9309: groups, longest match, wildcards, percent-encoding, and the texts sites really send."""

from __future__ import annotations

import gc
import re
import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.rows import Robots
from irlcrawl.config import keys as config
from irlcrawl.web.robots import Rules, RulesCache, outcome, product_token


def allowed(text: bytes, path: bytes, token: str = "FooBot") -> bool:
    return Rules(text, token).allowed(path)


def group(*lines: str) -> bytes:
    return "\n".join(["User-agent: FooBot", *lines]).encode()


RFC_EXAMPLE = b"""
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("token", "path", "want"),
    [
        ("foobot", b"/", False), ("foobot", b"/example/page.html", True), ("FooBot", b"/example/allowed.gif", True),
        ("barbot", b"/example/page.html", False), ("bazbot", b"/example/page.html", False), ("barbot", b"/a.gif", True),
        ("quxbot", b"/example/page.html", True), ("otherbot", b"/example/x", False), ("otherbot", b"/x.gif", False),
        ("otherbot", b"/x.gif?y", True), ("otherbot", b"/publications/", True), ("foo", b"/example/x", False),
        ("foobot-news", b"/publications/", True),
    ],
)  # fmt: skip
def test_the_example_of_the_rfc(token: str, path: bytes, want: bool) -> None:
    assert allowed(RFC_EXAMPLE, path, token) is want


@pytest.mark.parametrize(
    ("lines", "path", "want"),
    [
        (["Disallow: /a", "Allow: /a/b"], b"/a/b/c", True),  # the longest match wins, wherever it stands
        (["Allow: /a/b", "Disallow: /a"], b"/a/c", False),
        (["Disallow: /page", "Allow: /page"], b"/page", True),  # equally long: allow
        (["Disallow:"], b"/", True),
        ([], b"/", True),
        (["Disallow: /"], b"/robots.txt", True),
        (["Disallow: /*.php"], b"/a/b.php?x", False),
        (["Disallow: /*.php$"], b"/a/b.php?x", True),
        (["Disallow: /a$"], b"/a", False),
        (["Disallow: /a?b"], b"/a?b=1", False),  # the query takes part
        (["Disallow: /A"], b"/a", True),  # paths have case
        (["Disallow: /a%3cb"], b"/a%3Cb", False),
        (["Disallow: /foo/bar?baz=http://foo.bar"], b"/foo/bar?baz=http%3A%2F%2Ffoo.bar", True),
        (["Disallow: /foo/bar/ツ"], b"/foo/bar/%E3%83%84", False),
        (["Disallow: /foo/bar/%E3%83%84"], b"/foo/bar/%E3%83%84", False),
        (["Disallow: /foo/bar/%62%61%7A"], b"/foo/bar/baz", False),
        (["dISALLOW : /x # why"], b"/x", False),
        (["Disallow: /x#y"], b"/x", False),
        (["Sitemap: http://h/s.xml", "Disallow: /x"], b"/x", False),
        (["Disallow: //x"], b"//x", False),
    ],
)
def test_matching(lines: list[str], path: bytes, want: bool) -> None:
    assert allowed(group(*lines), path) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (b"\xef\xbb\xbfUser-agent: FooBot\nDisallow: /x", False),  # a byte order mark
        (b"User-agent: FooBot/2.1\nDisallow: /x", False),  # a version
        (b"User-agent: FooBot (compatible)\rDisallow: /x", False),  # CR alone ends a line
        (b"User-agent: FooBot\r\n\r\nDisallow: /x", False),  # blank lines mean nothing
        (b"User-agent: foobot\nUser-agent: other\nDisallow: /x", False),
        (b"User-agent: other\nDisallow: /x", True),
        (b"User-agent: Foo\nDisallow: /x", True),  # part of our name is not our name
        (b"User-agent: FooBotanic\nDisallow: /x", True),
        (b"User-agent: *\nDisallow: /x\nUser-agent: FooBot\nAllow: /", True),  # our group, not that of all
        (b"User-agent: *\nDisallow: /x\nUser-agent: FooBot\n", True),  # even when it is empty
        (b"User-agent: FooBot\nDisallow: /y\n\nUser-agent: FooBot\nDisallow: /x", False),  # two groups are one
        (b"Disallow: /x\nUser-agent: FooBot\nAllow: /y", True),  # a rule before any group speaks to nobody
        (b"User-agent: FooBot\nNoindex: /y\nUser-agent: Bar\nDisallow: /x", False),  # unknown lines do not end a list
        (b"User-agent: FooBot\nCrawl-delay: 1\nUser-agent: Bar\nDisallow: /x", True),  # a rule does
        (b"<html><body>Not found</body></html>", True),
        (b"", True),
        (b"\x00\x01\xff\xfe", True),
        (b"User-agent:FooBot\nDisallow:/x", False),
        (b"user agent FooBot\ndissallow /x", False),
        (b"User-agent: *\xa0\nDisallow: /x", False),
    ],
)
def test_groups(text: bytes, want: bool) -> None:
    assert allowed(text, b"/x") is want


def test_stored_urls_and_their_targets_ask_alike() -> None:
    rules = Rules(group("Disallow: /x?"), "FooBot")
    assert not rules.allowed(b"https://example.com:8443/x?y=1")
    assert not rules.allowed(b"/x?y=1")
    assert rules.allowed(b"https://example.com/x")


@pytest.mark.parametrize(
    ("line", "want"),
    [("7", 7.0), ("0.5", 0.5), ("1e9", 1e9), ("-1", None), ("nan", None), ("soon", None), ("", None)],
)
def test_crawl_delay(line: str, want: float | None) -> None:
    assert Rules(group("Disallow: /x", f"Crawl-delay: {line}"), "foobot").crawl_delay == want
    assert Rules(b"User-agent: other\nCrawl-delay: 5", "foobot").crawl_delay is None


def test_a_hostile_file_is_cut_not_obeyed_forever() -> None:
    text = b"User-agent: *\n" + b"Disallow: /*a*a*a*a*b\n" * 50_000
    rules = Rules(text, "FooBot")
    assert rules.allowed(b"/" + b"a" * 2000)
    assert rules.nbytes < 20 << 20


@given(st.binary(max_size=300), st.binary(max_size=60))
def test_no_text_breaks_it(text: bytes, path: bytes) -> None:
    rules = Rules(b"User-agent: *\n" + text, "FooBot")
    rules.allowed(b"/" + re.sub(rb"[^!-~]", b"x", path))


_SEGMENT = st.sampled_from(["/", "/a", "/ab", "/a/b", "/*b", "/a*$", "/*/", "/b$", "/a/*/c"])
_RULES = st.lists(st.tuples(st.sampled_from(["Allow", "Disallow"]), _SEGMENT), max_size=6)


@given(_RULES, st.text("ab/c", max_size=6))
def test_longest_match_by_brute_force(rules: list[tuple[str, str]], path: str) -> None:
    """Octets matched, allow before disallow when equal, allowed when nothing matches (RFC 9309 2.2.2)."""
    path = "/" + path
    best, want = -1, True
    for verb, pattern in rules:
        expression = re.escape(pattern.removesuffix("$")).replace(r"\*", ".*") + ("$" if pattern.endswith("$") else "")
        if re.match(expression, path) and (len(pattern) > best or (len(pattern) == best and verb == "Allow")):
            best, want = len(pattern), verb == "Allow"
    assert allowed(group(*(f"{verb}: {pattern}" for verb, pattern in rules)), path.encode()) is want


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, Robots.RULES), (204, Robots.RULES), (206, Robots.RULES), (301, Robots.DENY), (304, Robots.DENY),
        (400, Robots.ALLOW), (401, Robots.ALLOW), (403, Robots.ALLOW), (404, Robots.ALLOW), (410, Robots.ALLOW),
        (451, Robots.ALLOW), (429, Robots.DENY), (500, Robots.DENY), (503, Robots.DENY), (599, Robots.DENY),
        (None, Robots.DENY), (999, Robots.DENY),
    ],
)  # fmt: skip
def test_what_an_answer_means(status: int | None, state: Robots) -> None:
    params = config.Robots(fresh_seconds=1000.0, deny_seconds=60.0)
    got, seconds = outcome(status, params)
    assert got is state
    assert seconds == (60.0 if state is Robots.DENY else 1000.0)


@pytest.mark.parametrize("line", ["1e308", "1e39", "99999999999"])
def test_a_crawl_delay_without_end_fits_where_times_are_kept(line: str) -> None:
    """It became infinite in the host's record, and `irlcrawl why` could give no date."""
    delay = Rules(group(f"Crawl-delay: {line}"), "foobot").crawl_delay
    assert delay == 1e9 and np.isfinite(np.float32(delay)) and time.localtime(time.time() + delay)


def test_product_token() -> None:
    assert product_token("Foo-Bot_x/1.0 (+https://x)") == "Foo-Bot_x"
    assert product_token("irlcrawl") == "irlcrawl"
    with pytest.raises(ValueError, match="product token"):
        product_token("(nobody)")


def test_the_cache_keeps_its_bound_and_what_was_used_last() -> None:
    rules = [Rules(group(*(f"Disallow: /{i}/{j}" for j in range(9))), "FooBot") for i in range(10)]
    cache = RulesCache(rules[0].nbytes * 3)
    for key, value in enumerate(rules):
        cache.put(key, value)
        assert cache.get(0) is rules[0]  # used each time, so never out
        assert cache.nbytes <= rules[0].nbytes * 3
    assert len(cache) == 3
    assert cache.get(9) is rules[9]
    assert cache.get(5) is None
    cache.put(9, rules[1])
    assert cache.get(9) is rules[1]
    assert len(cache) == 3
    for key in (0, 8, 9):
        cache.drop(key)
    assert (len(cache), cache.nbytes) == (0, 0)


def test_rules_that_a_cache_dropped_waited_for_the_collector() -> None:
    """Thousands an hour, of as many hosts: memory grew, in the frontier and in the workers, until it came by."""
    cache = RulesCache(1)
    gc.collect()
    gc.disable()
    try:
        first = Rules(group("Disallow: /a*b$", "Crawl-delay: 3"), "FooBot")
        assert not first.allowed(b"/ab") and first.crawl_delay == 3
        parser = weakref.ref(first._parser)
        parts = [weakref.ref(rules) for rules in first._parser._user_agents.values()]
        cache.put(1, first)
        del first
        cache.put(2, Rules(group("Disallow: /"), "FooBot"))
        assert len(cache) == 1 and parser() is None and [part() for part in parts] == [None]
    finally:
        gc.enable()
