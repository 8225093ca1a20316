"""RFC 9309: groups, longest match, wildcards, percent-encoding, and the texts sites really send."""

from __future__ import annotations

import gc
import re
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.rows import Robots
from irlcrawl.config import keys as config
from irlcrawl.web.robots import _RECORD, Rules, RulesCache, _matches, outcome, product_token, verdict


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
        (["Disallow: /a$"], b"/a$", True),  # an end, not an octet
        (["Disallow: /a%24"], b"/a$", False),
        (["Disallow: /a$b"], b"/a$b", False),
        (["Disallow: /*a*$"], b"/ba$", False),
        (["Disallow: /a%2Ab"], b"/a*b", False),
        (["Disallow: /a%2Ab"], b"/axb", True),
        (["Disallow: /a%2Fb"], b"/a/b", True),
        (["Disallow: /*?"], b"/wiki/Who_Framed_Roger_Rabbit%3F", True),  # as all reserved octets
        (["Disallow: /*&"], b"/rock%26roll", True),
        (["Disallow: /*+"], b"/C%2b%2b", True),
        (["Disallow: /C%2B%2b"], b"/C%2b%2B", False),
        (["Disallow: /a%3Fb"], b"/a?b", True),
        (["Disallow: /?a='"], b"/?a=%27", False),  # which every URL has to escape there
        (["Disallow: /a b"], b"/a%20b", False),
        (["Disallow: /%E4"], b"/%F6", True),  # octets that are no UTF-8
        (["Disallow: /*?s=", "Allow: /*.js"], b"/a.js?s=1", True),  # a `?` is one octet: equally long
        (["Disallow: /*?s=1", "Allow: /*.js"], b"/a.js?s=1", False),
        (["Disallow: /", "Allow: /ü"], b"/%C3%BC", True),
        (["Disallow: /a", "Allow: /index.html"], b"/", True),
        (["Disallow: /", "Allow: /b/index.htm"], b"/b/", True),
        (["Disallow: /", "Allow: /b/index.htm"], b"/b/c", False),
        (["Disallow: x"], b"/x", True),
        (["Disallow: *x"], b"/ax", False),
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
        (b"User-agent: FooBot\nCrawl-delay: 1\nUser-agent: Bar\nDisallow: /x", False),  # nor do other records
        (b"User-agent: FooBot\nRequest-rate: 1/5\nVisit-time: 0400-0845\nUser-agent: Bar\nDisallow: /x", False),
        (b"User-agent: FooBot\nSitemap: http://h/s\nHost: h\n\nUser-agent: Bar\nDisallow: /x", False),
        (b"User-agent: FooBot\nDisallow:\nUser-agent: Bar\nDisallow: /x", True),  # a rule does, even an empty one
        (b"User-agent: FooBot\nAllow: y\nUser-agent: Bar\nDisallow: /x", True),  # even one that matches nothing
        (b"<html><body>Not found</body></html>", True),
        (b"", True),
        (b"\x00\x01\xff\xfe", True),
        (b"User-agent:FooBot\nDisallow:/x", False),
        (b"user agent FooBot\ndissallow /x", False),
        (b"User-agents: *\nDisallowed: /x", False),
        (b"User-agent: other\nDisallow foo bar\nUser-agent: FooBot\nDisallow: /x", False),
        (b"User-agent: FooBot\nUser-agent: other\nDisallow /x # all of it\nDisallow /x y z", False),
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
    [("7", 7.0), ("0.5", 0.5), ("1e308", 1e308), ("-1", None), ("nan", None), ("inf", None), ("", None)],
)
def test_crawl_delay(line: str, want: float | None) -> None:
    assert Rules(group("Disallow: /x", f"Crawl-delay: {line}"), "foobot").crawl_delay == want
    assert Rules(b"User-agent: other\nCrawl-delay: 5", "foobot").crawl_delay is None


def test_the_10_001st_rule_was_dropped() -> None:
    text = b"User-agent: *\n" + b"".join(b"Disallow: /%d/\nDisallow: /*/%d$\n" % (i, i) for i in range(12_000))
    rules = Rules(text, "FooBot")
    assert not rules.allowed(b"/11999/x") and not rules.allowed(b"/x/11999")
    assert rules.allowed(b"/12000/x") and rules.allowed(b"/x/12000")
    assert rules.nbytes < 8 << 20


def test_a_rule_said_often_is_one() -> None:
    rules = Rules(b"User-agent: *\n" + b"Disallow: /*a*a*a*a*b\n" * 50_000, "FooBot")
    assert rules.allowed(b"/" + b"a" * 2000) and not rules.allowed(b"/" + b"a" * 2000 + b"b")
    assert rules.nbytes < 4096


class Haystack(bytes):
    """A path that counts the octets that searches in it may look at."""

    looked_at = 0

    def find(self, part: bytes, start: int = 0) -> int:  # type: ignore[override]
        found = super().find(part, start)
        self.looked_at += (len(self) if found < 0 else found + len(part)) - start
        return found


@pytest.mark.parametrize("end", [b"b", b"b$", b"$", b""])
def test_no_pattern_makes_a_search_go_back(end: bytes) -> None:
    """Backtracking tries each place of each part with each place of the next: 1,000 to the power of 500."""
    for stars in (b"*a" * 500, b"*" * 1000, b"*aa*" * 250, b"/*" + b"a" * 100):
        ((_, parts, whole),) = Rules(group("Disallow: /*" + (stars + end + b"*x").decode()), "foobot")._wildcards
        assert len(parts) <= 502  # stars in a row are one
        path = Haystack(b"/" + b"a" * 1000)
        assert not _matches(path, parts, whole)
        assert path.looked_at <= len(path)


def test_a_check_that_would_compare_too_much_forbids() -> None:
    """It held a worker for 0.2 seconds: 512 KiB of rules, each almost in a URL of 2,000 octets."""
    text = b"User-agent: *\nAllow: /\n" + b"".join(b"Allow: *%s%d\n" % (b"a" * 90, i) for i in range(5_000))
    rules = Rules(text, "FooBot")
    assert rules.allowed(b"/" + b"a" * 400)
    assert not rules.allowed(b"/" + b"a" * 2000)
    assert rules.allowed(b"/robots.txt")


def test_reading_looks_at_a_line_once() -> None:
    """Per line that means something one record, per other line none, however long its runs of what may be skipped."""
    for text in (b" " * 9999, b" \n" * 9999, b"\r\n" * 9999, b"user-agent " * 9999, b"allow" * 9999, b"#" * 9999):
        assert len(list(_RECORD.finditer(text))) <= 1
        assert Rules(text, "FooBot").allowed(b"/x")


@given(st.binary(max_size=300), st.binary(max_size=60))
def test_no_text_breaks_it(text: bytes, path: bytes) -> None:
    rules = Rules(b"User-agent: *\n" + text, "FooBot")
    rules.allowed(b"/" + re.sub(rb"[^!-~]", b"x", path))


_SEGMENT = st.sampled_from([
    "/", "/a", "/ab", "/a/b", "/*b", "/a*$", "/*/", "/b$", "/a/*/c", "/*a*b$", "*", "*$", "/*", "/a**b", "/%61", "/a$b",
    "/ü", "/%c3%bc", "/%2a", "/?a", "/*?", "a", "", "$", "/a%2Fb",
])  # fmt: skip
_AGENTS = st.sampled_from(["FooBot", "foobot/2", "bar", "*", "foo", ""])
_LINES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["Allow", "disallow"]), _SEGMENT),
        st.tuples(st.sampled_from(["User-agent", "user-Agent"]), _AGENTS),
        st.tuples(st.sampled_from(["Crawl-delay", "Sitemap", "Visit-time", "Noindex"]), st.just("7")),
    ),
    max_size=12,
)
_PATHS = st.lists(st.sampled_from(["a", "b", "/", "c", "?", "$", "*", "%C3%BC", "%61", "%2F", "%3F"]), max_size=6)


def model(lines: list[tuple[str, str]], path: str) -> bool:
    """RFC 9309 in its own words, slowly, as regular expressions."""
    groups: list[tuple[set[str], list[tuple[str, str]]]] = []
    begun = False  # a user-agent line was last, other records apart (2.2.1, 2.2.4)
    for name, value in lines:
        if name.lower() == "user-agent":
            if not begun:
                groups.append((set(), []))
            groups[-1][0].add(value.lower().partition("/")[0])
            begun = True
        elif name.lower() in ("allow", "disallow"):
            begun = False
            if groups:
                groups[-1][1].append((name.lower(), value))
    agent = "foobot" if any("foobot" in agents for agents, _ in groups) else "*"

    def plain(text: str) -> str:  # 2.2.2: octets in one spelling, reserved ones apart
        return re.sub("%(?!2F|25|3F)..", lambda escape: chr(int(escape[0][1:], 16)), text)

    best, allows = 0, True
    for verb, pattern in (rule for agents, rules in groups if agent in agents for rule in rules):
        written = "".join(char if char.isascii() else "".join(f"%{octet:02X}" for octet in char.encode())
                          for char in pattern)  # fmt: skip
        end = written.endswith("$")
        parts = (re.escape(plain(part)) for part in written.removesuffix("$").split("*"))
        matches = written[:1] in ("/", "*") and re.match(".*".join(parts) + ("$" if end else ""), plain(path))
        if matches and (len(written) > best or (len(written) == best and verb == "allow")):
            best, allows = len(written), verb == "allow"
    return allows


@given(_LINES, _PATHS)
def test_a_whole_file_by_a_plain_model(lines: list[tuple[str, str]], path: list[str]) -> None:
    text = "\n".join(f"{name}: {value}" for name, value in lines)
    asked = "/" + "".join(path)
    assert allowed(text.encode(), asked.encode()) is model(lines, asked)


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
    got, seconds = outcome(status, config.Robots(fresh_seconds=1000.0), rest_seconds=60.0)
    assert got is state
    assert seconds == (60.0 if state is Robots.DENY else 1000.0)


def test_a_crawl_delay_is_for_the_agents_named_so_far() -> None:
    text = b"User-agent: FooBot\nCrawl-delay: 3\nUser-agent: Bar\nDisallow: /x\n"
    assert [Rules(text, token).crawl_delay for token in ("foobot", "bar")] == [3.0, None]


def test_the_last_of_several_crawl_delays_was_kept() -> None:
    """www.archives.gov wants 10 s of everybody; the 2 s of the agent behind it became everybody's."""
    text = b"User-agent: *\nCrawl-delay: 10\n\nUser-agent: usasearch\nCrawl-delay: 2\n\nSitemap: http://h/s\n"
    assert [Rules(text, token).crawl_delay for token in ("foobot", "usasearch")] == [10.0, 2.0]
    assert Rules(group("Crawl-delay: 5", "Crawl-delay: 1", "Crawl-delay: x"), "foobot").crawl_delay == 5.0
    assert Rules(group("Crawl-delay: 0"), "foobot").crawl_delay == 0.0


def test_the_line_that_decides_is_named() -> None:
    text = b"User-agent: *\nDisallow: /a\nAllow: /a/*b\nallow: /a/index.html\nDisallow: /\xc3\xbc\n"
    asked = [b"/a/c", b"/a/b", b"/a/", b"/%C3%BC", b"/z", b"/robots.txt"]
    assert [verdict(text, "FooBot", b"http://h" + path) for path in asked] == [
        (False, "Disallow: /a"), (True, "Allow: /a/*b"), (True, "Allow: /a/index.html"), (False, "Disallow: /%C3%BC"),
        (True, None), (True, None),
    ]  # fmt: skip


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
        kept = weakref.ref(first)
        cache.put(1, first)
        del first
        cache.put(2, Rules(group("Disallow: /"), "FooBot"))
        assert len(cache) == 1 and kept() is None
    finally:
        gc.enable()
