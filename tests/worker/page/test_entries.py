"""What sitemaps say of the pages that they list: ranks by priorities, and the bounds of reading them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.steps import at_once
from irlcrawl.worker.page import entries, lastmods, sitemaps
from irlcrawl.worker.page.entries import RANK_MAX

URL = b"http://a.test/sitemap.xml"


def ranks(body: bytes) -> dict[str, int]:
    found = at_once(entries.ranks(body, URL))
    return {url.decode().removeprefix("http://a.test/"): rank for url, rank in found.items()}


def sitemap(*said: str) -> bytes:
    pages = (f"<url><loc>/{n}</loc>{text and f'<priority>{text}</priority>'}</url>" for n, text in enumerate(said))
    return f"<urlset>{''.join(pages)}</urlset>".encode()


def test_a_rank_is_a_pages_distance_to_the_highest_priority_of_its_list() -> None:
    assert ranks(sitemap("1.0", "0.8", "0.64", "", "0.2", "0")) == {"1": 1, "2": 1, "3": 2, "4": 4, "5": RANK_MAX}
    assert ranks(sitemap("0.6", "", "0.4")) == {"2": 1}
    assert ranks(sitemap("1", "1.0", "1.00", "0.99")) == {}, "an owner who praises all says nothing"
    assert ranks(sitemap("", "", "")) == {}
    odd = ranks(sitemap(" .9 ", "0.7", "high", "-1", "7", "1e9", "0." + "9" * 5000))
    assert odd == {"1": 1, "2": 2, "3": 2, "4": 2, "5": 2}, "what is no priority is 0.5"


def test_a_comment_is_no_entry_and_a_page_that_is_listed_twice_has_its_better_rank() -> None:
    body = b"<!-- <url><loc>/x</loc><priority>1.0</priority></url> -->" + sitemap("0.5", "0.1")
    assert ranks(body + b"<url><loc>/1</loc><priority>0.3</priority></url>") == {"1": 1}
    body = b"<url><priority>1.0</priority><loc>/0</loc></url><url><priority>0.1</priority><loc><![CDATA[/1?a&b]]></loc>"
    assert ranks(body) == {"1?a&b": 4}


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_ranks_keep_the_order_of_priorities(said: list[int]) -> None:
    found = ranks(sitemap(*(f"{one / 100:.2f}" for one in said)))
    by_page = [found.get(str(page), 0) for page in range(len(said))]
    assert by_page[said.index(max(said))] == 0 and all(0 <= rank <= RANK_MAX for rank in by_page)
    for one, rank in zip(said, by_page, strict=True):
        assert rank == min((max(said) - one) // 20, RANK_MAX)


@pytest.mark.parametrize(
    ("feed", "pages"),
    [
        ("<rss><item><guid>http://a.test/1</guid></item><item><link>2</link><guid>http://a.test/no</guid></item>"
         "<item><guid isPermaLink='false'>http://a.test/no</guid></item>", ["1", "2"]),
        ("<feed xml:base='b/'><entry><link href='1'/></entry><entry xml:base='c/'><link href='2'/></entry>",
         ["b/1", "b/c/2"]),
        ("<rss xml:base='/b/'><channel><item><link>1</link></item>", ["b/1"]),
        ("<rdf:RDF><rss:item><rss:link>1</rss:link></rss:item>", ["1"]),
        ("<rss><item><atom:link rel='replies' href='/no'/><link>1</link></item>", ["1"]),
        ('<feed><entry><link href="1" title="A > B"/></entry><entry><link title="a > b" href="2"/></entry>'
         "<entry><link title='it\"s > ' href='3'/></entry>", ["1", "2", "3"]),
        ("<rss><item><description><![CDATA[<item><link>/no</link><pubDate>x</pubDate>]]></description><link>1</link></item>",
         ["1"]),
        ("<rss><item><title><![CDATA[a <!-- b]]></title><link><![CDATA[ 1 ]]></link></item><item><link>2</link></item>",
         ["1", "2"]),
        ("<rss><!-- <item><link>/no</link></item> --><item><link>1</link></item>", ["1"]),
        ('<feed><entry a=">" xml:base="b/"><link title="a > b" href="2"/></entry>', ["b/2"]),
        ("<rss><item><link title='a > b'>1</link></item><item><link >2</link></item>", ["1", "2"]),
    ],
)  # fmt: skip
def test_a_crawl_its_signals_and_its_tables_saw_other_pages_in_a_feed(feed: str, pages: list[str]) -> None:
    body = re.sub("(</[a-z:]*(?:item|entry)>)", r"<updated>2026-11-23</updated>\1", feed).encode()
    want = [f"http://a.test/{page}" for page in pages]
    assert [entry.url.decode() for entry in entries.of_list(body, "text/xml", URL, 1 << 20)] == want
    assert [url.decode() for url in at_once(lastmods.changed_since(body, URL, 0.0, 2e9))] == want
    lists = sitemaps.listed(body, "text/xml", URL, False)
    assert lists is not None and {*want} <= {url.decode() for url in lists[0]}


def test_a_list_without_end_is_read_in_steps_up_to_as_many_entries_as_a_crawl_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sitemaps, "LINKS_MAX", 100)
    said = list(entries.spans(entries.entry_of(b"<urlset>"), b"<url>" * 200))
    assert len([span for span in said if span]) == 100
    steps = sum(1 for _ in entries.ranks(b"<priority>" + b"<" * (2 << 20), URL))
    assert steps >= 8, "markup without an entry has its stops, too"
