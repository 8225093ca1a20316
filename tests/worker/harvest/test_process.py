"""process(): what a unit means, and that replay from the archive gives the very rows that were lost."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import itertools
import string
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drum import Batch, Files, Segment

import brotlicffi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.clock import SystemClock, VirtualClock
from irlcrawl.base.keys import PRIORITY_LAST, is_home, level_of, name_key, pair_key, priority_of
from irlcrawl.base.names import Names
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import CARRIED, LINK, NO_SEGMENT, Carried, Robots, Source
from irlcrawl.config.keys import Config, Page, Priority
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import crawl_log, redo
from irlcrawl.worker.archive.known import Known
from irlcrawl.worker.archive.unit import TRUNCATED, Exchange, Location, Unit
from irlcrawl.worker.archive.warc import WarcWriter, warcinfo_values
from irlcrawl.worker.harvest import process as process_module
from irlcrawl.worker.harvest.builder import HarvestBuilder, UnitRows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.process import discovering, process, rules_text
from irlcrawl.worker.page import sitemaps
from irlcrawl.worker.page.links import Found
from irlcrawl.worker.page.wording import wording
from tests.worker.fetch.driver import UNKNOWN, Driver, crawl_config
from tests.worker.fetch.loopback import Loopback, response

SEED = 99
KEYS = Names(SEED)
LOCATION = Location("x.warc.gz", 1, 0, 0, 100, 50, "sha1:AAAA")


def context(entries: tuple[bytes, ...] = (b"any",), **scope: Any) -> Context:
    config = Config()
    config.crawl.user_agent = "Testbot/1.0 (+https://example.org/; bot@example.org)"
    config.scope.kind = "site"
    for name, value in scope.items():
        setattr(config.scope, name, value)
    return Context(config, SEED, Scope(config.scope, {}, entries))


def unit(url: str = "http://a.test/", **values: Any) -> Unit:
    carried = Carried(**{name: values.pop(name) for name in CARRIED if name in values})
    base = Unit(
        url=url.encode(), segment=3, row=4, key=KEYS.url_key(url.encode()), host=KEYS.of(b"http://a.test/")[1],
        carried=carried, cls=Class.FETCHED, reason=Reason.OK, status=200, start=1e9,
    )  # fmt: skip
    return dataclasses.replace(base, **values)


def exchange(body: bytes = b"", *lines: bytes, status: bytes = b"200 OK", url: str = "http://a.test/") -> Exchange:
    head = b"\r\n".join([b"HTTP/1.1 " + status, b"Content-Type: text/html", *lines, b"", b""])
    return Exchange(url.encode(), "192.0.2.1", b"GET / HTTP/1.1\r\n\r\n", head, body)


def urls(found: UnitRows) -> list[bytes]:
    return [row[-1] for row in found.links]


def test_a_link_row_has_every_column_right() -> None:
    found = process(unit(depth=2), exchange(b'<a href="http://www.b.test/p?q#f">'), LOCATION, context())
    (row,) = found.links
    key, site, host, carried, address = row
    link = dict(zip(LINK, (key, site, host, *carried, address), strict=True))
    url = b"http://www.b.test/p?q"
    assert link == {
        "key": KEYS.url_key(url), "site": name_key(b"b.test"), "host": KEYS.of(url)[1], "depth": 3,
        "hop": 0, "source": Source.LINK, "priority": priority_of(3, Source.LINK), "attempt": 0,
        "via": unit().url, "url": url,
    }  # fmt: skip
    ours, theirs = name_key(b"a.test"), name_key(b"b.test")
    assert found.pairs == [(pair_key(ours, theirs), theirs, ours)]


@pytest.mark.parametrize(
    ("head", "lines", "said"),
    [
        (b"<link rel=canonical href='/c,1?a=b'>", [], "http://a.test/c,1?a=b"),
        (b"<base href=/b/><link rel='canonical' href=x><link rel=canonical href=y>", [], "http://a.test/b/x"),
        (b"<link rel=canonical href='/#top'>", [b"Link: </h>; rel=canonical"], "http://a.test/h"),
        (b"<link rel=canonical href=/c>", [b"Link: </h>; rel=canonical"], "http://a.test/c"),
        (b"<a rel=canonical href=/c>", [], None),
        (b"<link rel=canonical href=file:///x>", [], None),
        (b"<link rel=canonical href='/" + b"x" * 3000 + b"'>", [], None),
    ],
)
def test_a_page_is_marked_as_an_alias_of_the_url_that_it_calls_canonical(
    head: bytes, lines: list[bytes], said: str | None
) -> None:
    found = process(unit(), exchange(head, *lines), LOCATION, context())
    entry = crawl_log.parse(found.outcome[-1])
    assert entry.notes.get("canonical") == said
    if said is not None:
        assert (said.encode(), Source.CANONICAL) in [(row[-1], row[3].source) for row in found.links]


@pytest.mark.parametrize(("url", "canonical", "said"), [
    ("http://a.test/p", "/p?utm_source=x", None), ("http://a.test/~user", "/%7Euser", None),
    ("http://a.test/p", "/c?utm_source=x", "http://a.test/c"),
    ("http://a.test/p?utm_source=seed", "/p", "http://a.test/p"),
])  # fmt: skip
def test_a_page_whose_canonical_is_its_own_url_in_another_spelling_was_listed_as_an_alias(
    url: str, canonical: str, said: str | None
) -> None:
    page = exchange(f"<link rel=canonical href='{canonical}'>".encode())
    found = process(unit(url), page, LOCATION, context())
    assert crawl_log.parse(found.outcome[-1]).notes.get("canonical") == said


def test_rules_of_order_move_the_links_they_match() -> None:
    config = context().config
    config.priority = [Priority("/news/", 3), Priority("^http://late", -2), Priority("/none", 0), Priority("/no", 5)]
    weights = {"/news/1": 3, "http://late.test/": -2, "http://late.test/x": -2, "/none": 0, "/nope": 5, "/other": 0}
    page = "".join(f'<a href="{link}">x</a>' for link in weights).encode()
    found = process(unit(depth=2), exchange(page), LOCATION, Context(config, SEED, Scope(config.scope, {}, (b"any",))))
    got = [carried.priority for _, _, _, carried, _ in found.links]
    assert got == [
        priority_of(3, Source.LINK, is_home(url), weight, navigation=url.startswith(b"http://a.test/"))
        for url, weight in zip(urls(found), weights.values(), strict=True)
    ]
    assert len(set(got)) == 5


def test_what_a_home_page_links_to_on_its_site_was_trusted_like_any_link() -> None:
    """Menus and links in texts were one: of URLs equally far from a seed, those of home pages go first."""
    page = b'<a href="/menu"><a href="http://www.a.test/too"><a href="http://b.test/x"><a href="http://b.test/">'
    found = {name: process(unit(name, depth=2), exchange(page), LOCATION, context()).links for name in (
        "http://a.test/", "http://a.test/text")}  # fmt: skip
    home, text = ([carried.priority for _, _, _, carried, _ in links] for links in found.values())
    assert home[2:] == text[2:], "it speaks for its own site alone"
    assert all(priority_of(3, Source.SITEMAP) < one < other for one, other in zip(home[:2], text[:2], strict=True))
    assert {level_of(one) for one in home[:3]} == {level_of(text[0])}
    assert home[3] == priority_of(3, Source.LINK, home=True)


def test_pairs_are_distinct_other_sites_of_links_in_scope() -> None:
    body = b'<a href="http://b.test/1"><a href="http://x.b.test/2"><a href="/own"><a href="http://c.test/">'
    found = process(unit(), exchange(body), LOCATION, context(entries=(b"site a.test", b"site b.test")))
    assert [site for _, site, _ in found.pairs] == [name_key(b"b.test")]
    assert found.counts["out_of_scope"] == 1 and len(found.links) == 3


def test_a_list_of_links_to_other_sites_supports_none_of_them_unless_a_person_chose_it() -> None:
    others = b"".join(b'<a href="http://s%d.test/">' % n for n in range(6))
    for depth, own, support, bare in ((1, 11, 0, True), (1, 12, 0, False), (1, 30, 6, False), (0, 0, 6, False)):
        body = others + b"".join(b'<a href="/%d">' % n for n in range(own))
        found = process(unit(depth=depth), exchange(body), LOCATION, context())
        assert (len(found.pairs), found.bare) == (support, bare)
        assert len(found.links) == 6 + own, "they are followed"
    few = b"".join(b'<a href="http://s%d.test/">' % n for n in range(5))
    assert len(process(unit(depth=1), exchange(few), LOCATION, context()).pairs) == 5


OTHER_SITES = {
    b"ugc": b'<a href="http://ugc.test/" rel="nofollower ugc">', b"paid": b"<a href=http://paid.test/ rel=sponsored>",
    b"unseen": b'<p style="display:none"><a href="http://unseen.test/"></p>',
    b"noscript": b"<noscript><a href=http://noscript.test/></noscript>", b"plain": b'<a href="http://plain.test/">',
    b"both": b'<a href="http://both.test/1" rel="ugc"><div hidden><a href="http://both.test/2"></div>'
    b'<a href="http://both.test/3">',
}  # fmt: skip


def test_links_for_which_nobody_vouches_are_followed_and_support_nobody() -> None:
    body = b"".join(OTHER_SITES.values()) + b"".join(b"<a href=/%d>" % n for n in range(40))
    found = process(unit(depth=1), exchange(body), LOCATION, context())
    assert len(found.links) == 8 + 40
    assert {site for _, site, _ in found.pairs} == {name_key(b"plain.test"), name_key(b"both.test")}
    assert found.pairs == sorted(found.pairs, key=lambda pair: pair[1])


def test_a_list_is_one_whoever_vouches_for_its_links() -> None:
    others = b"".join(b'<a rel=ugc href="http://s%d.test/">' % n for n in range(6)) + b"<a href=http://plain.test/>"
    for own, support, bare in ((11, 0, True), (30, 0, False), (60, 1, False)):
        body = others + b"".join(b'<a href="/%d">' % n for n in range(own))
        found = process(unit(depth=1), exchange(body), LOCATION, context())
        assert (len(found.pairs), found.bare) == (support, bare)


def test_nofollow_that_is_not_honoured_supports_nobody() -> None:
    follows = context()
    follows.config.page.nofollow = False
    link = b"<a href=http://b.test/>"
    for came in (
        exchange(b"<a rel=nofollow href=http://b.test/>"), exchange(link, b"X-Robots-Tag: nofollow"),
        exchange(b"<meta name=robots content=nofollow>" + link), exchange(b"", b"Refresh: 0;http://b.test/",
            b"X-Robots-Tag: nofollow"), exchange(b"", b'Link: <http://b.test/>; rel="next nofollow"'),
    ):  # fmt: skip
        found = process(unit(depth=1), came, LOCATION, follows)
        assert (urls(found), found.pairs) == ([b"http://b.test/"], [])
    both = exchange(b"<a rel=nofollow href=http://b.test/>", b"Link: <http://b.test/>; rel=next")
    assert len(process(unit(depth=1), both, LOCATION, follows).pairs) == 1


def test_near_duplicates_support_nobody_and_their_links_within_their_site_go_last(tmp_path: Path) -> None:
    """Pages that say the same between other links were new, for their markup differed."""
    text = b"<title>Events</title><p>3 May 2031<p>What is on in the old town this month, and what is on by the river: "
    text += b"nothing at all, in either of these places."
    months = [text + b'<a href="/calendar/%d">7</a><a href="http://s%d.test/">more</a>' % (n + 1, n) for n in range(3)]
    builder = HarvestBuilder(Files(), str(tmp_path), 0, VirtualClock(), duplicates_last=True)
    for number, month in enumerate(months):
        page = month.replace(b"May", [b"May", b"June", b"July"][number])
        builder.add(process(unit(f"http://a.test/calendar/{number}", depth=1), exchange(page), LOCATION, context()))
    name = builder.write((1, 0))
    assert name is not None
    segment = Segment.open(Files(), tmp_path / name)
    assert [row[1] for row in _rows(segment, "pairs")] == [name_key(b"s0.test")]
    last = [row[-1] for row in _rows(segment, "links") if PRIORITY_LAST in row]
    assert last == [b"http://a.test/calendar/2", b"http://a.test/calendar/3"]
    assert [row[1] for row in _rows(segment, "yields")] == [1, 0, 0]


@pytest.mark.parametrize(
    ("given_unit", "links"),
    [
        (unit(), 1), (unit(status=300), 1), (unit(status=404, reason=Reason.HTTP_ERROR), 0),
        (unit(cls=Class.RETRY, reason=Reason.THROTTLED, status=503, retry_due=5.0), 0),
        (unit(segment=NO_SEGMENT, cls=Class.NONE), 0),
    ],
)  # fmt: skip
def test_only_pages_that_were_fetched_have_links(given_unit: Unit, links: int) -> None:
    assert len(process(given_unit, exchange(b'<a href="/x">'), LOCATION, context()).links) == links


def test_a_redirect_is_a_discovery_one_hop_on_at_the_same_depth() -> None:
    moved = exchange(b"", b"Location: ../n w?x", status=b"302 Found")
    found = process(unit("http://a.test/b/c", status=302, depth=5, hop=2), moved, LOCATION, context())
    (row,) = found.links
    assert (row[3][:3], row[-1]) == ((5, 3, Source.REDIRECT), b"http://a.test/n%20w?x")


@pytest.mark.parametrize("line", [(), (b"Location:",)])
def test_links_of_a_redirect_that_names_no_target_were_lost(line: tuple[bytes, ...]) -> None:
    """Browsers show it as a page."""
    given = unit(status=302, reason=Reason.REDIRECT)
    found = process(given, exchange(b"<a href=/x>", *line, status=b"302 Found"), LOCATION, context())
    assert urls(found) == [b"http://a.test/x"]


def test_links_and_redirects_have_one_spelling() -> None:
    page = exchange(b'<a href="/x?utm_source=a"><a href="/%78"><a href="/y?"><link rel=canonical href="/y">')
    found = process(unit(), page, LOCATION, context())
    assert urls(found) == [b"http://a.test/x", b"http://a.test/y"] and found.counts["respelled"] == 3
    for target, expected in ((b"/y?PHPSESSID=1", b"http://a.test/y"), (b"/r?", b"http://a.test/r?")):
        moved = exchange(b"", b"Location: " + target, status=b"302 Found")
        assert urls(process(unit("http://a.test/r", status=302), moved, LOCATION, context())) == [expected]


def _redirected(given: Unit, target: str, known: Context) -> list[bytes]:
    moved = exchange(b"", b"Location: " + target.encode(), status=b"301 Moved")
    return urls(process(dataclasses.replace(given, status=301, reason=Reason.REDIRECT), moved, LOCATION, known))


def test_two_redirects_in_a_row_between_spellings_of_a_page_lost_it() -> None:
    known = context()
    for of, target, to in (
        ("", ";jsessionid=1", ";jsessionid=1"), ("?utm_source=x", "?utm_source=x&utm_medium=y", None),
        (";jsessionid=1", ";jsessionid=2", ""),  # no end of it: the page was asked for already
    ):  # fmt: skip
        led = _redirected(unit(f"http://a.test/r{of}"), f"/r{target}", known)
        assert led == [f"http://a.test/r{target if to is None else to}".encode()]


def test_a_requisite_that_redirects_to_another_spelling_of_itself_was_lost() -> None:
    given = unit("http://a.test/s.css", source=Source.REQUISITE, depth=1)
    assert _redirected(given, "/s.css;jsessionid=1", context()) == [b"http://a.test/s.css;jsessionid=1"]
    assert _redirected(given, "/t.css;jsessionid=1", context()) == [b"http://a.test/t.css"]


def test_a_sitemap_that_was_moved_out_of_scope_was_not_read() -> None:
    here = context((b"prefix a.test/docs/",))
    named = {"source": Source.SITEMAP, "depth": 1, "via": b"http://a.test/robots.txt"}
    assert _redirected(unit("http://a.test/map", **named), "http://cdn.test/map?id=1", here) == [
        b"http://cdn.test/map?id=1"
    ]
    child = named | {"via": b"http://a.test/index.xml"}
    assert not _redirected(unit("http://a.test/1.xml", **child), "http://other.test/1.xml", here), "of another site"
    assert _redirected(unit("http://a.test/1.xml.gz", **child), "/all/1.XML.gz?v=2", here)
    assert not _redirected(unit("http://a.test/docs/page", **child), "http://other.test/page", here)
    assert not _redirected(unit("http://a.test/1.xml", depth=1), "/all/1.xml", here)


def test_a_site_in_scope_made_the_crawl_ask_any_other_for_what_it_chose() -> None:
    """A robots.txt names an index of its own, which lists thousands of searches at another site."""
    parts = [b"http://a.test/1.xml", b"http://b.a.test/2.xml", b"http://c.test/3.xml"]
    parts += [b"http://victim.test/search?q=%d" % number for number in range(20)]
    body = b"<sitemapindex>" + b"".join(b"<sitemap><loc>%s</loc></sitemap>" % part for part in parts)
    index = unit("http://a.test/index.xml", source=Source.SITEMAP, via=b"http://a.test/robots.txt")
    known = context((b"host a.test", b"host c.test"))
    found = process(index, exchange(body + b"</sitemapindex>"), LOCATION, known)
    assert urls(found) == parts[:3] and found.counts["out_of_scope"] == 20


def test_a_robots_text_names_sitemaps_of_other_sites_up_to_a_bound() -> None:
    count, beyond = process_module.OTHERS_SITEMAPS_MAX, 7
    lines = [b"Sitemap: http://victim.test/search?q=%d\n" % number for number in range(count + beyond)]
    lines += [b"Sitemap: http://www.a.test/%d.xml\n" % number for number in range(300)]
    robots = {"robots": int(Robots.RULES), "robots_until": 2e9, "depth": 0}
    asked = unit("http://a.test/robots.txt", segment=NO_SEGMENT, cls=Class.NONE, robots=robots)
    found = process(asked, exchange(b"".join(lines)), LOCATION, context((b"host a.test",)))
    assert sum(url.startswith(b"http://victim.test/") for url in urls(found)) == count
    assert len(found.links) == count + 300 and found.counts["beyond_max"] == beyond
    assert crawl_log.parse(found.outcome[-1]).notes["beyond_max"] == str(beyond)


@pytest.mark.parametrize(
    "body", [b"http://a.test/1\n", gzip.compress(b"http://a.test/1\n"), b"<urlset><url><loc>/1</loc></url></urlset>"]
)
def test_a_list_that_is_a_seed_was_not_read_where_it_had_moved(body: bytes) -> None:
    moved = exchange(b"", b"Location: /new/list", status=b"301 Moved")
    ((*_, carried, target),) = process(unit(status=301, source=Source.SEED), moved, LOCATION, context()).links
    one = unit(target.decode(), **carried._asdict())
    assert urls(process(one, exchange(body), LOCATION, context())) == [b"http://a.test/1"]
    deeper = unit(target.decode(), **carried._replace(depth=1)._asdict())
    assert urls(process(deeper, exchange(body), LOCATION, context())) == []


def test_links_of_a_seed_that_rules_spell_otherwise_were_out_of_scope() -> None:
    """With `www` merged, links of http://www.a.test/ lead to http://a.test/."""
    config = Config()
    config.crawl.user_agent = "Testbot/1.0"
    config.scope.kind, config.urls.merge = "host", ["www"]
    known = Context(config, SEED, Scope(config.scope, {}, ()))
    moved = exchange(b"", b"Location: http://www.a.test/home", status=b"301 Moved")
    found = process(unit("http://old.test/", status=301), moved, LOCATION, known)
    assert found.scope == [b"host a.test"] and urls(found) == [b"http://a.test/home"]
    again = process(unit("http://a.test/home", status=301), moved, LOCATION, known)
    assert again.scope == [b"host www.a.test", b"host a.test"] and urls(again) == [b"http://www.a.test/home"]


def test_a_page_with_two_lines_of_codings_lost_its_links() -> None:
    body = brotlicffi.compress(gzip.compress(b'<a href="/x">'))
    answer = exchange(body, b"Content-Encoding: gzip", b"Content-Encoding: br")
    assert urls(process(unit(), answer, LOCATION, context())) == [b"http://a.test/x"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_half_a_line_at_the_bound_of_a_robots_text_was_a_rule(end: bytes) -> None:
    config = Config()
    lines = [b"User-agent: *", b"Disallow: /a", b"Disallow: /private/papers"]
    text = end.join([*lines, b""])
    at = text.index(b"private")
    config.robots.bytes_max = at
    whole = end.join([*lines[:2], b""])
    assert rules_text(exchange(text), config).rstrip() == whole.rstrip(), "and not `Disallow: /`"
    cut = exchange(text[:at])
    config.robots.bytes_max = 1 << 20
    assert rules_text(cut, config) == text[:at], "a last line without an end is a line"
    cut.truncated = "length"
    assert rules_text(cut, config).rstrip() == whole.rstrip()
    packed = gzip.compress(text)
    assert rules_text(exchange(packed, b"Content-Encoding: gzip"), config) == text
    half = rules_text(exchange(packed[: len(packed) // 2], b"Content-Encoding: gzip"), config)
    assert text.startswith(half) and half.rstrip().split(end) in ([b""], lines[:1], lines[:2])


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be"])
def test_a_robots_text_in_utf16_had_no_rules(codec: str) -> None:
    text = "User-agent: *\r\nDisallow: /privé\r\n"
    body = (b"\xfe\xff" if codec == "utf-16-be" else b"") + text.encode(codec)
    assert rules_text(exchange(body), Config()) == text.encode()


def test_redirects_end_at_their_limit() -> None:
    moved = exchange(b"", b"Location: /on", status=b"302 Found")
    at_limit = process(unit(status=302, hop=5), moved, LOCATION, context(hops_max=5))
    assert at_limit.links == [] and at_limit.scope == [] and at_limit.counts["out_of_scope"] == 1


def test_a_seeds_redirect_extends_the_scope_once_and_a_links_does_not() -> None:
    moved = exchange(b"", b"Location: https://www.other.test/home", status=b"301 Moved")
    entries = (b"site a.test",)
    seed = process(unit(status=301), moved, LOCATION, context(entries))
    assert seed.scope == [b"site other.test"] and urls(seed) == [b"https://www.other.test/home"]
    link = process(unit(status=301, depth=1), moved, LOCATION, context(entries))
    assert link.scope == [] and link.links == [] and link.counts["out_of_scope"] == 1
    known = process(unit(status=301), moved, LOCATION, context((*entries, b"site other.test")))
    assert known.scope == [] and len(known.links) == 1


def test_an_excluded_redirect_of_a_seed_brings_nothing() -> None:
    moved = exchange(b"", b"Location: https://other.test/private", status=b"301 Moved")
    found = process(unit(status=301), moved, LOCATION, context((b"site a.test",), exclude=["private"]))
    assert (found.scope, found.links, found.counts["out_of_scope"]) == ([], [], 1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"X-Robots-Tag: nofollow", []), (b"X-Robots-Tag: otherbot: nofollow", [b"http://a.test/x"]),
        (b"X-Robots-Tag: testbot: none", []), (b"Refresh: 3; url=/r", [b"http://a.test/x", b"http://a.test/r"]),
        (b"Refresh: 3; url=/x", [b"http://a.test/x"]), (b"Refresh: 3", [b"http://a.test/x"]),
        (b"Link: <n?p=2>; rel=next, </s.css>; rel=preload", [b"http://a.test/x", b"http://a.test/n?p=2"]),
        (b"Link: </x>; rel=next, <>; rel=prev", [b"http://a.test/x"]),
        (b"Link: </n>; rel=next\r\nX-Robots-Tag: nofollow", []),
        (b"Link: </n>; rel=next\r\nRefresh: 3; url=/r\r\nLink: </p>; rel=prev",
         [b"http://a.test/x", b"http://a.test/n", b"http://a.test/p", b"http://a.test/r"]),
    ],
)  # fmt: skip
def test_headers_that_speak_about_links(line: bytes, expected: list[bytes]) -> None:
    assert urls(process(unit(), exchange(b'<a href="/x">', line), LOCATION, context())) == expected


def test_links_of_a_header_are_what_they_would_be_in_the_page() -> None:
    given = exchange(
        b"<iframe src=/f></iframe><a href=/x>",
        b"Link: </c>; rel=canonical, </f>; rel=alternate, </x>; rel=canonical, <javascript:1>; rel=next",
    )
    found = process(unit(), given, LOCATION, context())
    assert {(row[-1], row[3].source) for row in found.links} == {
        (b"http://a.test/c", Source.CANONICAL), (b"http://a.test/f", Source.LINK), (b"http://a.test/x", Source.LINK),
    }  # fmt: skip


def test_what_is_no_page_has_the_links_of_its_header() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nLink: </page>; rel=canonical\r\n\r\n"
    paper = Exchange(b"http://a.test/", "192.0.2.1", b"GET / HTTP/1.1\r\n\r\n", head, b"%PDF")
    assert urls(process(unit(), paper, LOCATION, context())) == [b"http://a.test/page"]


def test_links_of_a_header_keep_the_bound_of_a_page() -> None:
    given_context = context()
    given_context.config.page.links_max = 3
    header = b"Link: " + b", ".join(b"</%d>; rel=next" % number for number in range(10))
    found = process(unit(), exchange(b'<a href="/x">', header), LOCATION, given_context)
    assert urls(found) == [b"http://a.test/x", b"http://a.test/0", b"http://a.test/1"]
    assert found.counts["beyond_max"] == 8
    assert crawl_log.parse(found.outcome[-1]).notes["beyond_max"] == "8"


@pytest.mark.parametrize(
    "body", [b"<urlset><url><loc>/1</loc></url></urlset>", b"<rss><item><link>http://a.test/1</link></item></rss>"]
)
def test_an_x_robots_tag_of_a_list_was_not_heard(body: bytes) -> None:
    given_context = context()
    for header, followed in ((b"nofollow", False), (b"Testbot: none", False), (b"noindex, follow", True)):
        answer = exchange(body, b"X-Robots-Tag: " + header)
        one = unit("http://a.test/list", source=Source.SITEMAP)
        found = process(one, answer, LOCATION, given_context)
        assert urls(found) == ([b"http://a.test/1"] if followed else []) and found.lists
    given_context.config.page.nofollow = False
    assert urls(process(one, exchange(body, b"X-Robots-Tag: none"), LOCATION, given_context))


def test_links_of_a_sitemap_beyond_its_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "LINKS_MAX", 3)
    listed = b"".join(b"<url><loc>http://a.test/%d</loc></url>" % number for number in range(5))
    body = b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">' + listed + b"</urlset>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n"
    answer = Exchange(b"http://a.test/sitemap.xml", "192.0.2.1", b"GET / HTTP/1.1\r\n\r\n", head, body)
    found = process(unit("http://a.test/sitemap.xml", source=Source.SITEMAP), answer, LOCATION, context())
    assert urls(found) == [b"http://a.test/0", b"http://a.test/1", b"http://a.test/2"]
    assert found.counts["beyond_max"] == 2


def test_what_was_left_out_of_a_page_is_counted_and_in_its_line() -> None:
    """A page read in part, or damaged, was like any other."""
    page, small = b'<a href="/x">' + b" " * 100_000, context()
    small.config.fetch.decoded_bytes_max = 1024
    packed = gzip.compress(page)
    for body, given_context, name in ((packed, small, "partly_read"), (packed[:-12], context(), "damaged")):
        found = process(unit(), exchange(body, b"Content-Encoding: gzip"), LOCATION, given_context)
        assert urls(found) == [b"http://a.test/x"] and found.counts.keys() == {name, "read"}
        assert crawl_log.parse(found.outcome[-1]).notes[name] == "1"
    whole = process(unit(), exchange(packed, b"Content-Encoding: gzip"), LOCATION, context())
    assert whole.counts == {"read": len(page)}, "without its content coding"


def test_a_retry_is_the_same_row_one_request_older() -> None:
    again = unit("http://a.test/r", cls=Class.RETRY, reason=Reason.LOST, status=-3, attempt=1, depth=2, retry_due=77.5)
    found = process(again, None, LOCATION, context())
    assert found.retry is not None
    key, site, host, carried, url, due = found.retry
    assert (url, due, carried) == (b"http://a.test/r", 77.5, again.carried._replace(attempt=2))
    assert (key, site, host) == (again.key, *KEYS.of(b"http://a.test/"))


def test_a_page_that_breaks_a_parser_costs_its_links_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("irlcrawl.worker.harvest.process.extracting", broken)
    found = process(unit("http://a.test/poison"), exchange(b"<a href=/x>"), LOCATION, context())
    assert found.counts == {"unparsed": 1} and found.links == [] and found.outcome[4] == Class.FETCHED
    assert "http://a.test/poison" in caplog.text and "too deep" in caplog.text


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (Reason.UNWANTED_TYPE, "unwanted"), (Reason.UNWANTED_LENGTH, "unwanted"), (Reason.CHALLENGE, "challenge"),
        (Reason.PARKED, "parked"),
    ],
)  # fmt: skip
def test_of_what_is_no_page_nothing_is_taken_but_its_count(reason: Reason, name: str) -> None:
    found = process(unit(reason=reason, detail="maker"), exchange(b"<a href=/x>text"), LOCATION, context())
    assert (found.counts, found.links, found.pairs, found.content) == ({name: 1}, [], [], 0)
    notes = crawl_log.parse(found.outcome[-1]).notes
    assert (notes["reason"], notes[name], notes["detail"]) == (reason.name.lower(), "1", "maker")


# Replay

_text = st.text(string.ascii_letters + "/.:?#&=%\"'<> \n\x00é中", max_size=30)
_href = st.one_of(
    _text, st.sampled_from(["/a", "b", "http://b.test/", "https://c.co.uk/x?y", "//d.test", "mailto:x", "#f", "/a#g"])
)
_html = st.lists(
    st.one_of(
        st.builds(lambda h: f'<a href="{h}">', _href), st.builds(lambda h: f'<base href="{h}">', _href),
        st.builds(lambda h: f"<link rel=canonical href='{h}'>", _href),
        st.builds(lambda h: f'<p hidden><a rel=ugc href="{h}"></p>', _href),
        st.just("<meta name=robots content=nofollow>"), _text,
    ),
    max_size=12,
).map(lambda parts: "".join(parts).encode())  # fmt: skip
_line = st.one_of(
    st.builds(lambda h: b"Location: " + h.encode("utf-8").translate(None, b"\r\n\x00"), _href),
    st.sampled_from([
        b"Content-Encoding: gzip", b"Transfer-Encoding: chunked", b"X-Robots-Tag: nofollow", b"Content-Length: 3",
        b"Set-Cookie: a=\xff\xfe", b"X-Crawler-Content-Length: 7", b"no colon at all", b"Refresh: 0; url=/z",
        b"Content-Type: text/html; charset=shift_jis", b"X-Folded: a\r\n  b",
    ]),
)  # fmt: skip
_robots = st.one_of(
    st.none(), st.just({"failed": 1}),
    st.builds(
        lambda state, until, delay: {"robots": int(state), "robots_until": until, "crawl_delay": delay, "failed": 0},
        st.sampled_from(list(Robots)), st.floats(0, 1e10), st.floats(0, 1e5),
    ),
)  # fmt: skip
_exchange = st.builds(
    lambda body, lines, status, cut: dataclasses.replace(
        exchange(body, *lines, status=b"%d X" % status), truncated=cut
    ),
    st.one_of(_html, st.binary(max_size=60)), st.lists(_line, max_size=4),
    st.sampled_from([200, 204, 301, 302, 404, 503]), st.sampled_from([None, *TRUNCATED]),
)  # fmt: skip


_BODIES = [b"", b'<p>twice in a file, and twice at a URL<a href="/twice">', b"<p>other<a href=/other>"]


@st.composite
def _known(draw: st.DrawFn, body: bytes) -> Known:
    """Of a visit before, at which the body may have been the same."""
    sha1 = hashlib.sha1(draw(st.sampled_from([body, b"another"]))).digest()
    etag = draw(st.sampled_from([b"", b'"e"', b"W/x"]))
    return Known(
        draw(st.integers(1, 70)), draw(st.sampled_from([0.0, 1e9 + 0.001])), int.from_bytes(sha1[:8], "big"),
        draw(st.sampled_from([7, wording(body)])), draw(st.sampled_from([0, 999_999_999])), draw(st.integers(0, 63)),
        draw(st.sampled_from([b"", sha1[8:] + etag])), draw(st.sampled_from([b"", b"\1\2\3\4", bytes(512)])),
    )  # fmt: skip


_REASONS = [reason for reason in Reason if reason is not Reason.NOT_MODIFIED]
"""Of any unit: a 304 has its own below."""


@st.composite
def _units(draw: st.DrawFn) -> tuple[Unit, Exchange | None]:
    came = draw(st.one_of(st.none(), _exchange))
    if came is not None and draw(st.booleans()):
        came = dataclasses.replace(came, body=draw(st.sampled_from(_BODIES)))
    cls = draw(st.sampled_from(list(Class)))
    made = unit(
        draw(st.sampled_from(["http://a.test/", "http://a.test/dir/page?q", "https://b.test/"])),
        segment=NO_SEGMENT if cls is Class.NONE else draw(st.integers(0, 9)), row=draw(st.integers(0, 2**32 - 1)),
        depth=draw(st.integers(0, 3)), hop=draw(st.integers(0, 5)), attempt=draw(st.integers(0, 3)), cls=cls,
        key=draw(st.integers(0, 2**64 - 1)), reason=draw(st.sampled_from(_REASONS)),
        status=-3 if came is None else came.status, start=draw(st.floats(0, 4e9)),
        duration_ms=draw(st.integers(0, 10**6)), retry_due=draw(st.floats(0, 4e9)) if cls is Class.RETRY else None,
        robots=draw(_robots), detail=draw(_text),
    )  # fmt: skip
    if made.segment != NO_SEGMENT and made.robots is None and came is not None and draw(st.booleans()):
        made.page = draw(_known(came.body))
        if draw(st.booleans()):
            head = exchange(b"", b'ETag: "f"', b"Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT", status=b"304 As It Was")
            made, came = dataclasses.replace(made, reason=Reason.NOT_MODIFIED, status=304, cls=Class.FETCHED), head
    return made, came


def written(directory: Path, units: list[tuple[Unit, Exchange | None]]) -> Iterator[Location]:
    info = warcinfo_values(software="test", user_agent="test", operator="", is_part_of="test")
    writer = WarcWriter(
        Files(), directory, "t", 1, info=info, roll_bytes=20_000, gzip_level=1, clock=VirtualClock(),
        dedupe_bytes_min=20,
    )  # fmt: skip
    for one, came in units:
        yield writer.append(one, came)
    writer.close()


@settings(max_examples=150, deadline=None)
@given(st.lists(_units(), min_size=1, max_size=6), st.booleans())
def test_a_unit_read_back_gives_the_same_rows(units: list[tuple[Unit, Exchange | None]], enabled: bool) -> None:
    shared = context(entries=(b"site a.test", b"site b.test"))
    shared.config.revisit.enabled = enabled
    with tempfile.TemporaryDirectory() as place:
        locations = written(Path(place), units)
        live = [process(one, came, where, shared) for (one, came), where in zip(units, locations, strict=True)]
        list(itertools.islice(locations, 1))
        replayed = [process(one, came, where, shared) for one, came, where in redo.units(Files(), place, 1)]
    assert replayed == live


def test_a_harvest_replayed_from_a_workers_archive_is_the_harvest_it_wrote(tmp_path: Path) -> None:
    """Every kind of outcome a real worker makes, through the real archive."""
    home = b'<title>x</title><a href="/b"><a href="/gone"><a href="http://out.test/"><a href="/b#again">'
    pages = {
        "/robots.txt": response(b"User-agent: *\nDisallow: /no\n", kind="text/plain"), "/": response(home),
        "/moved": response(b"", "Location: http://new.test/", status="301 Moved"),
        "/busy": response(b"later", "Retry-After: 9", status="503 Busy"),
        "/zip": response(b"junk", "Content-Encoding: gzip"),
        "/chunked": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"c\r\n<a href='/c'\r\n1\r\n>\r\n0\r\n\r\n",
    }  # fmt: skip
    config = crawl_config()
    config.scope.kind = "site"
    config.fetch.body_bytes_max = 1024
    pages["/long"] = response(home + bytes(5000))
    entries = ("site a.test",)
    targets = ["/", "/no/x", "/moved", "/zip", "/chunked", "/long", "/missing", "/busy"]
    with Loopback(pages) as server, Driver(tmp_path, config, stream=2, entries=entries) as worker:
        worker.visit(f"http://a.test:{server.port}", targets, robots=UNKNOWN)
        assert worker.end()["reached"] == len(targets)
        worker.visit("http://a.test:1", ["/dead"])
        assert worker.end()["outcome"] == "failed"
        live = worker.harvest()
        seed = 12345
        assert worker.stop() == 0
    scope = Scope(config.scope, {}, [entry.encode() for entry in entries])
    replay_dir = tmp_path / "replay"
    replay_dir.mkdir()
    builder = HarvestBuilder(Files(), str(replay_dir), 2, SystemClock(), duplicates_last=True)
    shared = Context(config, seed, scope)
    for one, came, where in redo.units(Files(), str(tmp_path / "warcs"), 2):
        builder.add(process(one, came, where, shared))
        position = where.position
    name = builder.write(position)
    assert name == live.message["file"]
    replayed = Segment.open(Files(), replay_dir / name)
    assert replayed.sections["outcomes"].meta == live.meta
    for section in ("links", "pairs", "outcomes", "retries", "yields", "facts", "scope"):
        assert _rows(replayed, section) == _rows(live.segment, section), section
    assert {row["cls"] for row in live.outcomes} == set(Class) - {Class.FAILED, Class.RETURNED}


def _rows(segment: Segment, name: str) -> list[tuple[Any, ...]]:
    section = segment.sections[name]
    batch = Batch.concat([Batch.empty(section.schema), *section.scan()])
    return list(zip(*(batch[column].tolist() for column in section.schema), strict=True))


def test_a_link_of_a_header_in_utf8_was_garbled() -> None:
    fields = [(b"refresh", "0; url=/ü".encode()), (b"link", '</ä>; rel="next"'.encode())]
    links = process_module._with_header_links(Found(), b"http://a.test/", fields, Page())
    assert {url for url, _ in links} == {b"http://a.test/%C3%BC", b"http://a.test/%C3%A4"}


def test_a_style_sheet_of_megabytes_held_the_loop_until_it_was_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n"
    came = Exchange(b"http://a.test/", "192.0.2.1", b"", head, b"url(/a)" * 400_000)
    steps = discovering(unit("http://a.test/", source=Source.REQUISITE), came, context(), b"")
    assert sum(1 for _ in steps) >= 10


def test_a_sitemap_of_queries_and_priorities_held_the_loop_for_seconds() -> None:
    """Its URLs were spelled once more for their ranks, all in one piece."""

    def stops(fields: bytes) -> int:
        urls = b"".join(b"<url><loc>/%d?%s</loc>%s</url>" % (at, b"&a" * 190, fields) for at in range(2000))
        came = exchange(b"<urlset><url><loc>/first</loc><priority>1.0</priority></url>" + urls)
        one = unit("http://a.test/s.xml", source=Source.SITEMAP)
        return sum(1 for _ in discovering(one, came, context(), b""))

    assert stops(b"<priority>0.1</priority>") >= stops(b"<priority>1.0</priority>") + 15
