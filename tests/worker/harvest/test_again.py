"""What a visit found beside the visit before: the change, what the next one is compared with, and what is new."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import VISIT, Change, PageFlag, Source
from irlcrawl.base.steps import at_once
from irlcrawl.worker.archive import crawl_log
from irlcrawl.worker.archive.known import Known
from irlcrawl.worker.archive.record import digest
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.harvest.again import HUB_LINKS, _hashes, _kept, _new
from irlcrawl.worker.harvest.builder import UnitRows
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.process import discovering, finished, process
from irlcrawl.worker.page.wording import wording
from tests.worker.harvest.test_process import context, exchange, unit

URL = "http://a.test/page"
TEXT = b"<p>The mayor opened the bridge, and cut a red ribbon, which was long, in front of many people of the town.</p>"
LINKS = b"".join(b"<a href=/%d>x</a>" % number for number in range(9))
PAGE = TEXT + LINKS
AT, BEFORE = 2e9, 1e9
TAG, DATE = b'ETag: "1"', b"Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT"


def sharing(enabled: bool = True) -> Context:
    shared = context()
    shared.config.revisit.enabled = enabled
    return shared


def visited(body: bytes = PAGE, validators: bytes = b"", **columns: Any) -> Known:
    sha1 = hashlib.sha1(body).digest()
    known = Known(3, BEFORE, int.from_bytes(sha1[:8], "big"), wording(body), validators=validators)
    return known._replace(**columns)


def visit(
    page: Known | None, body: bytes = PAGE, *lines: bytes, status: bytes = b"200 OK", url: str = URL,
    shared: Context | None = None, truncated: str | None = None, header_only: bool = False, **fields: Any,
) -> tuple[UnitRows, dict[str, Any]]:  # fmt: skip
    came = exchange(b"" if header_only else body, *lines, status=status, url=url)
    came.truncated = truncated
    one = unit(url, page=page, start=AT, status=came.status, **fields)
    place = Location("x.warc.gz", 1, 0, 0, 100, 50, digest(body))
    found = process(one, came, place, shared or sharing())
    assert found.visit is not None
    return found, dict(zip(VISIT, found.visit, strict=True))


def same(page: Known | None, body: bytes = PAGE, *lines: bytes) -> tuple[UnitRows, dict[str, Any]]:
    """A visit of which the archive has no body, as replay sees it."""
    return visit(page, body, *lines, header_only=True, size=len(body))


def test_off_a_first_visit_leaves_no_row() -> None:
    found = process(unit(), exchange(PAGE), Location("x", 1, 0, 0, 9, 5, digest(PAGE)), sharing(enabled=False))
    assert found.visit is None and found.wording == 0 and b"visit=" not in found.outcome[-1]


def test_a_first_visit_says_what_the_next_is_compared_with() -> None:
    found, row = visit(None, PAGE, TAG, DATE)
    sha1 = hashlib.sha1(PAGE).digest()
    assert row == {
        "segment": 3, "row": 4, "at": AT, "change": Change.FIRST, "new_links": 0, "stored": AT,
        "digest": int.from_bytes(sha1[:8], "big"), "content": wording(PAGE), "modified": 1_000_000_000,
        "flags": PageFlag.VALIDATOR, "validators": sha1[8:] + b'"1"', "hub": b"",
    }  # fmt: skip
    assert found.site and len(found.links) == 9 and b"visit=" not in found.outcome[-1]


@pytest.mark.parametrize("lines", [(), (b"ETag: " + b"x" * 65,), (b"ETag: \xe9",), (b"Last-Modified: never",)])
def test_what_no_server_would_take_back_is_no_validator(lines: tuple[bytes, ...]) -> None:
    row = visit(None, PAGE, *lines)[1]
    assert (row["validators"], row["modified"], row["flags"]) == (b"", 0, 0)


@pytest.mark.parametrize("status", [b"403 No", b"500 Oh", b"304 What"])
def test_a_first_visit_that_failed_leaves_nothing_to_compare_with(status: bytes) -> None:
    row = visit(None, b"no", TAG, status=status)[1]
    assert row["change"] == Change.FIRST and not any(list(row.values())[5:])


def test_a_304_is_no_change_and_nothing_is_read() -> None:
    page = visited(validators=bytes(12) + b'"1"', flags=PageFlag.VALIDATOR | PageFlag.ALWAYS, hub=b"\1\2", modified=7)
    found, row = visit(
        page, PAGE, TAG, header_only=True, status=b"304 As It Was", reason=Reason.NOT_MODIFIED, size=0, header="x"
    )
    assert (row["change"], row["new_links"]) == (Change.NOT_MODIFIED, 0)
    assert tuple(row.values())[5:] == page._replace(flags=PageFlag.VALIDATOR)[1:]
    assert found.links == [] and found.site == 0 and found.content == 0
    assert b",warcRevisit:notModified,visit=4,change=none," in found.outcome[-1]


def test_the_same_bytes_are_no_change_and_nothing_is_read() -> None:
    page = visited(validators=hashlib.sha1(PAGE).digest()[8:] + b'"1"', flags=PageFlag.VALIDATOR, hub=b"\1\2")
    found, row = same(page, PAGE, TAG)
    assert (row["change"], row["stored"], row["hub"]) == (Change.SAME, BEFORE, b"\1\2")
    assert (row["digest"], row["content"], row["flags"]) == (page.digest, page.content, PageFlag.VALIDATOR)
    assert found.links == [] and found.site == 0
    assert found.outcome[7] == len(exchange(b"", TAG).header) + len(PAGE), "bytes received, not stored"
    assert b",warcRevisit:digest,visit=4,change=same," in found.outcome[-1]
    assert crawl_log.parse(found.outcome[-1]).size == len(PAGE)


def test_half_a_digest_is_enough_only_where_the_other_half_is_not_kept() -> None:
    other = visited(validators=bytes(12))
    assert visit(other)[1]["change"] == Change.NEAR
    assert visit(visited())[1]["change"] == Change.SAME


def test_the_same_text_in_other_bytes_is_near_and_its_links_are_read() -> None:
    body = PAGE.replace(b"</p>", b"</p><nav>today's weather: rain</nav><a href=/new>x</a>")
    found, row = visit(visited(), body)
    assert (row["change"], row["stored"], row["flags"]) == (Change.NEAR, AT, PageFlag.ALWAYS)
    assert row["digest"] == int.from_bytes(hashlib.sha1(body).digest()[:8], "big")
    assert len(found.links) == 10 and found.site == 0 and b",visit=4,change=near," in found.outcome[-1]
    assert same(visited(flags=PageFlag.ALWAYS))[1]["flags"] == 0


def test_another_text_is_a_change_and_a_yield() -> None:
    found, row = visit(visited(), PAGE.replace(b"red", b"blue"), DATE)
    assert (row["change"], row["stored"], row["modified"]) == (Change.YES, AT, 1_000_000_000)
    assert row["flags"] == PageFlag.VALIDATOR and found.site and len(found.links) == 9
    assert b",visit=4,change=yes," in found.outcome[-1]


def test_a_visit_to_a_page_of_which_nothing_is_known_teaches_nothing_but_what_it_is() -> None:
    """It was fetched before pages were visited again: no change, and no yield, for its content was counted then."""
    found, row = visit(Known(visits=1), PAGE, TAG)
    assert (row["change"], row["stored"], row["content"]) == (Change.FIRST, AT, wording(PAGE))
    assert found.site == 0 and len(found.links) == 9 and b",visit=2,change=unknown," in found.outcome[-1]
    assert visit(Known(visits=2), PAGE, TAG)[1]["change"] == Change.YES, (
        "a signal called it: it is compared by its text"
    )


@pytest.mark.parametrize(
    ("status", "truncated", "change", "word"),
    [
        (b"404 Gone", None, Change.GONE, b"gone"), (b"410 Gone", None, Change.GONE, b"gone"),
        (b"403 No", None, Change.ERROR, b"error"), (b"503 No", None, Change.ERROR, b"error"),
        (b"304 What", None, Change.ERROR, b"error"), (b"200 OK", "time", Change.ERROR, b"error"),
    ],
)  # fmt: skip
def test_an_error_keeps_what_was_known(status: bytes, truncated: str | None, change: Change, word: bytes) -> None:
    """A 304 to an unconditional request is one, too."""
    page = visited(validators=bytes(12) + b'"1"', flags=PageFlag.VALIDATOR | PageFlag.GONE_ONCE, hub=b"\1\2")
    found, row = visit(page, b"<p>error", b'ETag: "2"', status=status, truncated=truncated)
    assert (row["change"], row["new_links"], *tuple(row.values())[5:]) == (change, 0, *page[1:])
    assert found.site == 0 and crawl_log.parse(found.outcome[-1]).notes["change"] == word.decode()


@pytest.mark.parametrize("reason", [Reason.CHALLENGE, Reason.PARKED, Reason.UNWANTED_TYPE, Reason.UNWANTED_LENGTH])
def test_what_stands_in_the_place_of_a_page_says_nothing_of_it(reason: Reason) -> None:
    page = visited(hub=b"\1\2")
    found, row = visit(page, b"<p>Are you a person?", reason=reason)
    assert (row["change"], *tuple(row.values())[5:]) == (Change.ERROR, *page[1:])
    assert found.site == 0 and not any(list(visit(None, PAGE, reason=reason)[1].values())[5:])


def withheld(page: Known | None, truncated: str | None = None) -> UnitRows:
    came = exchange(PAGE, TAG)
    came.truncated = truncated
    one = unit(URL, page=page, start=AT, status=200, reason=Reason.WITHHELD)
    found = at_once(discovering(one, came, sharing(), hashlib.sha1(PAGE).digest()))  # as it comes: no replay has it
    return finished(found, one, came, Location("x.warc.gz", 1, 0, 0, 100, 50, ""))


def test_a_page_that_was_withheld_is_compared_with_and_referred_to_by_nobody() -> None:
    """It counted as an error, from which nothing is learnt, and was never visited again."""
    first = withheld(None)
    assert first.visit is not None and crawl_log.parse(first.outcome[-1]).notes["page"] == ""
    row = dict(zip(VISIT, first.visit, strict=True))
    sha1 = hashlib.sha1(PAGE).digest()
    assert (row["change"], row["stored"], row["content"]) == (Change.FIRST, 0.0, wording(PAGE))
    assert row["digest"] == int.from_bytes(sha1[:8], "big") and row["validators"] == sha1[8:] + b'"1"'
    page = Known(1, *list(row.values())[5:])
    again, later = withheld(page), visit(page, PAGE, TAG)[1]
    assert again.visit is not None and "page" not in crawl_log.parse(again.outcome[-1]).notes
    row = dict(zip(VISIT, again.visit, strict=True))
    assert (row["change"], row["stored"]) == (Change.SAME, 0.0) and again.links == []
    assert (later["change"], later["stored"]) == (Change.SAME, AT), "the wish is gone: the page is stored"


def test_the_beginning_of_a_page_that_was_withheld_makes_no_page() -> None:
    """As it does not where it is stored."""
    found = withheld(None, truncated="length")
    assert found.visit is None and "page" not in crawl_log.parse(found.outcome[-1]).notes


def test_a_redirect_is_what_it_leads_to() -> None:
    first = visit(None, b"", b"Location: /x", status=b"301 Moved")[1]
    page = visited(b"", content=first["content"])
    again, row = visit(page, b"", b"Location: /x", status=b"301 Moved")
    assert row["change"] == Change.SAME and again.links == []
    other, row = visit(page, b"", b"Location: /y", status=b"301 Moved")
    assert row["change"] == Change.YES and len(other.links) == 1


def test_a_visit_without_an_outcome_leaves_no_row() -> None:
    shared, page = sharing(), visited()
    retry = unit(URL, page=page, cls=Class.RETRY, reason=Reason.THROTTLED, status=503, retry_due=5.0)
    failed = unit(URL, page=page, cls=Class.FAILED, reason=Reason.CONNECT, status=-2)
    place = Location("x", 1, 0, 0, 9, 5, "")
    for one, came in ((retry, exchange(b"", status=b"503 Busy")), (failed, None)):
        found = process(one, came, place, shared)
        assert found.visit is None and found.site == 0 and b",visit=4," in found.outcome[-1]


def test_a_visit_that_was_leased_before_revisits_were_switched_off_is_told() -> None:
    assert visit(visited(), shared=sharing(enabled=False))[1]["change"] == Change.SAME


def test_a_payload_that_another_url_holds_is_not_referred_to() -> None:
    """`stored` is the date of a record of the page's own."""
    row = visit(None, PAGE, size=len(PAGE), original=99)[1]
    assert row["stored"] == 0.0 and row["digest"]


def test_a_server_that_changes_a_page_under_its_validators_is_asked_unconditionally() -> None:
    sha1 = hashlib.sha1(PAGE).digest()
    page = visited(validators=sha1[8:] + b'"1"', flags=PageFlag.VALIDATOR)
    changed = PAGE.replace(b"red", b"blue")
    row = visit(page, changed, TAG)[1]
    assert row["validators"] and not row["flags"] & PageFlag.VALIDATOR
    later = Known(4, AT, row["digest"], row["content"], 0, row["flags"], row["validators"])
    assert not visit(later, PAGE, b'ETag: "9"')[1]["flags"] & PageFlag.VALIDATOR, "nor later"
    assert visit(page, changed, b'ETag: "2"')[1]["flags"] & PageFlag.VALIDATOR, "an honest one is not"


def test_an_etag_of_each_of_several_servers_leaves_last_modified_alone() -> None:
    page = visited(validators=hashlib.sha1(PAGE).digest()[8:] + b'"1"', flags=PageFlag.VALIDATOR)
    row = same(page, PAGE, b'ETag: "2"', DATE)[1]
    assert row["validators"] == page.validators[:12] and row["modified"] and row["flags"] == PageFlag.VALIDATOR
    later = page._replace(validators=row["validators"], modified=row["modified"])
    assert same(later, PAGE, b'ETag: "3"', DATE)[1]["validators"] == page.validators[:12], "and it stays away"
    assert same(page, PAGE, b'ETag: "2"')[1]["validators"][12:] == b'"2"', "without a date there is nothing else"


# Hubs


def test_a_page_that_changes_is_a_hub_until_a_change_brings_nothing_new() -> None:
    changed = PAGE.replace(b"red", b"blue")
    row = visit(visited(), changed)[1]
    assert len(row["hub"]) == 18 and row["new_links"] == 0, "what it had before is not known"
    hub = visited(changed, hub=row["hub"])
    more = b"<p>news: " + changed + b"<a href=/new></a><a href=/newer></a>"
    row = visit(hub, more)[1]
    assert (row["new_links"], len(row["hub"])) == (2, 22)
    row = visit(hub, PAGE)[1]
    assert (row["new_links"], row["hub"]) == (0, b"")


def test_a_home_page_a_feed_and_a_sitemap_are_hubs_from_the_first_visit() -> None:
    assert len(visit(None, PAGE, url="http://a.test/")[1]["hub"]) == 18
    kind = b"Content-Type: application/xml"
    for markup, flag in (
        (b"<rss><channel><item><link>http://a.test/1</link></item></channel></rss>", PageFlag.FEED),
        (b"<urlset><url><loc>http://a.test/1</loc></url></urlset>", PageFlag.SITEMAP),
    ):
        came = Exchange(URL.encode(), "192.0.2.1", b"", b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n\r\n", markup)
        one = unit(URL, start=AT, source=Source.SITEMAP)
        found = process(one, came, Location("x", 1, 0, 0, 9, 5, digest(markup)), sharing())
        assert found.visit is not None
        row = dict(zip(VISIT, found.visit, strict=True))
        assert row["flags"] == flag and len(row["hub"]) == 2
    assert visit(None, TEXT)[1]["hub"] == b""


def test_a_sitemap_that_is_read_again_tells_which_pages_changed_since() -> None:
    when = b"<url><loc>/%d</loc><lastmod>2001-09-0%d</lastmod></url>"  # the visit before was on 2001-09-09
    later = b"<url><loc>http://a.test/9</loc><lastmod>2020-01-01T00:00:00Z</lastmod></url>"
    body = b"<urlset>" + b"".join(when % (n, n) for n in range(1, 6)) + later

    def told(page: Known | None, enabled: bool = True) -> UnitRows:
        came = Exchange(URL.encode(), "", b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n", body)
        one = unit(URL, start=AT, source=Source.SITEMAP, page=page)
        return process(one, came, Location("x", 1, 0, 0, 9, 5, digest(body)), sharing(enabled))

    found = told(visited(b"before"))
    named = {link[4]: link for link in found.links}
    assert [(signal[4], *signal[5:]) for signal in found.signals] == [(b"http://a.test/9", 1577836800.0, 0)]
    assert len(named) == 6 and found.signals[0][:5] == named[b"http://a.test/9"]
    assert told(None).signals == [], "nothing that it lists was known before"
    assert told(visited(b"before"), enabled=False).signals == []


@pytest.mark.parametrize("codec", ["utf-16", "iso-8859-1"])
def test_a_sitemap_in_another_charset_ranked_nothing_and_told_of_no_changes(codec: str) -> None:
    """UTF-16 brought nothing, and other charsets no URL that is not ASCII."""
    text = f"""<?xml version="1.0" encoding="{codec}"?><urlset><url><loc>/café</loc><priority>0.2</priority>
        <lastmod>2020-01-01T00:00:00Z</lastmod></url><url><loc>/b</loc><priority>1.0</priority></url></urlset>"""
    body = text.encode(codec)
    came = Exchange(URL.encode(), "", b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n", body)
    one = unit(URL, start=AT, source=Source.SITEMAP, page=visited(b"before"))
    found = process(one, came, Location("x", 1, 0, 0, 9, 5, digest(body)), sharing(True))
    priorities = {row[-1]: row[3].priority for row in found.links}
    assert priorities[b"http://a.test/caf%C3%A9"] > priorities[b"http://a.test/b"]
    assert [signal[4] for signal in found.signals] == [b"http://a.test/caf%C3%A9"]


def _hub(keys: set[int]) -> bytes:
    return _kept(_hashes(list(keys)))


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 255), max_size=200), st.sets(st.integers(0, 255), max_size=200))
def test_new_links_of_a_page_with_few_are_counted_exactly(before: set[int], now: set[int]) -> None:
    spread = [{5 << 52 | n * 257 for n in keys} for keys in (before, now)]
    assert _new(_hashes(list(spread[1])), np.frombuffer(_hub(spread[0]), "<u2")) == len(now - before)


def test_new_links_of_a_page_with_many_are_estimated() -> None:
    rng = np.random.default_rng(5)
    counted = []
    for _ in range(200):
        before = set(rng.integers(5 << 52, 6 << 52, 2000, np.uint64).tolist())  # of one site
        new = set(rng.integers(5 << 52, 6 << 52, 100, np.uint64).tolist())
        hub = np.frombuffer(_hub(before), "<u2")
        assert len(hub) == HUB_LINKS
        counted.append(_new(_hashes(list(before | new)), hub))
        assert _new(_hashes(list(before)), hub) == 0
    assert 90 < np.mean(counted) < 105, "one in some hundred has the hash of another"


def test_the_unit_is_all_a_row_needs() -> None:
    """The row of a unit read back is the row of the live one: tests/worker/harvest/test_process.py has it at large."""
    page = visited(validators=hashlib.sha1(PAGE).digest()[8:] + b'"1"', flags=PageFlag.VALIDATOR, hub=b"\1\2")
    one = unit(URL, page=page, start=AT)
    assert Unit.from_json(one.to_json(), one.url) == one


def test_a_payload_that_its_own_record_holds_can_be_asked_for_conditionally() -> None:
    """known: nothing, as of a page that was ordered."""
    for own, stored in ((BEFORE, BEFORE), (None, 0.0)):
        _, row = visit(Known(), PAGE, TAG, size=len(PAGE), original=7, own=own)
        assert row["stored"] == stored
