"""One spelling for a page that has several: what each rule merges, what none may, and that a spelling is its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.base.url import canonical
from irlcrawl.config.keys import URL_RULES, ConfigError, Site, UrlRule, Urls
from irlcrawl.web.spelling import PARAMETERS_MAX, Spelling

PAGE = "http://www.example.com/Docs/page"
GUIDES = [  # spellings of PAGE?id=7 that guides for crawlers name, and the rules that merge each
    ("http://www.example.com/Docs/page?id=7&utm_source=feed&utm_medium=rss", ["tracking"]),
    ("http://www.example.com/Docs/page?fbclid=IwAR0&id=7", ["tracking"]),
    ("http://www.example.com/Docs/page?id=7&GCLID=x", ["tracking"]),
    ("http://www.example.com/Docs/page;jsessionid=0A1B2C?id=7", ["sessions"]),
    ("http://www.example.com/Docs/page?id=7&PHPSESSID=9f", ["sessions"]),
    ("http://www.example.com/Docs/page?id=7&sid=0123456789abcdef0123456789ABCDEF", ["sessions"]),
    ("http://www.example.com/Docs/page?CFID=2218264&CFTOKEN=87004be8&id=7", ["sessions"]),
    ("http://www.example.com/(S(lit3py55t21z5v55vlm25s55))/Docs/page?id=7", ["sessions"]),
    ("http://www.example.com/%44ocs/p%61ge?i%64=7", ["unreserved"]),
    ("http://www.example.com//Docs///page?id=7", ["slashes"]),
    ("http://www.example.com/Docs/page/?id=7", ["trailing_slash"]),
    ("http://www.example.com/docs/PAGE?id=7", ["path_case"]),
    ("http://example.com/Docs/page?id=7", ["www"]),
    ("https://www.example.com/Docs/page?id=7", ["https"]),
    ("http://www.example.com/Docs/page/index.html?id=7", ["default_pages", "trailing_slash"]),
    ("HTTP://WWW.EXAMPLE.COM:80/Docs/./x/../page?id=7#part", []),
]


def spelling(*rules: str, **sites: Site) -> Spelling:
    return Spelling(Urls(merge=list(rules)), {name.replace("_", "."): site for name, site in sites.items()})


def stored(url: str) -> bytes:
    found = canonical(url)
    assert found is not None
    return found


@pytest.mark.parametrize(("url", "rules"), GUIDES)
def test_spellings_that_guides_name_are_merged_by_their_rules_and_by_no_others(url: str, rules: list[str]) -> None:
    page = stored(PAGE + "?id=7")
    merged = spelling(*rules)
    assert merged.of(stored(url)) == merged.of(page)
    if rules:
        others = spelling(*(rule for rule in URL_RULES if rule not in rules))
        assert others.of(stored(url)) != others.of(page)


@pytest.mark.parametrize(("url", "expected"), [
    ("http://a.test/?", "http://a.test/"), ("http://a.test/x?", "http://a.test/x"),
    ("http://a.test/x?utm_source=a", "http://a.test/x"), ("http://a.test/x?a=%C3%a4&b=%7e", "http://a.test/x?a=%C3%A4&b=~"),
    ("http://a.test/?b=2&a=1", "http://a.test/?b=2&a=1"), ("http://a.test/a%2fb", "http://a.test/a%2Fb"),
    ("http://a.test/?sid=7", "http://a.test/?sid=7"), ("http://a.test/?a&&b", "http://a.test/?a&&b"),
    ("http://a.test/?utm=1", "http://a.test/?utm=1"), ("http://a.test/?x=utm_source", "http://a.test/?x=utm_source"),
    ("http://a.test/f(x)/g;v=1", "http://a.test/f(x)/g;v=1"), ("http://a.test/%25%37e", "http://a.test/%257e"),
])  # fmt: skip
def test_what_the_defaults_do(url: str, expected: str) -> None:
    assert Spelling(Urls(), {}).of(stored(url)) == expected.encode()


@pytest.mark.parametrize("query", [
    "itm_id=7", "itm_no=7", "utm_x=500000&utm_y=4649776&utm_zone=31T", "UTM_Easting=1&utm_northing=2", "mtm_id=3",
    "hsa_id=4", "utm=1", "utm_campus=johor", "cfid=online-support",
])  # fmt: skip
def test_items_and_coordinates_whose_names_begin_like_those_of_campaigns_were_one_page(query: str) -> None:
    """`itm_*` left out itm_id, so that a shop was one page."""
    url = f"http://a.test/item?{query}".encode()
    assert Spelling(Urls(), {}).of(url) == url


@pytest.mark.parametrize("name", [
    "itm_source", "itm_medium_s", "itm_campaign", "itm_content", "itm_term", "itm_channel", "itm_audience", "utm_id",
    "utm_source_platform", "utm_creative_format", "utm_marketing_tactic", "utm_campaign_id", "utm_social-type",
    "utm_userid", "mtm_kwd", "mtm_placement", "hsa_cam", "hsa_ver", "matomo_campaign", "pk_kwd",
])  # fmt: skip
def test_names_of_campaigns_that_lists_keep_are_left_out(name: str) -> None:
    assert Spelling(Urls(), {}).of(f"http://a.test/item?id=7&{name}=x".encode()) == b"http://a.test/item?id=7"


def test_the_order_of_parameters_of_one_name_stays() -> None:
    assert spelling("sort_query").of(b"http://a.test/?b=2&a=z&b=1&a=y") == b"http://a.test/?a=z&a=y&b=2&b=1"


def test_www_and_https_change_neither_ports_nor_short_names() -> None:
    rules = spelling("www", "https")
    for url in (b"http://www.test:8080/", b"https://www.test/"):
        assert rules.of(url) == url
    assert rules.of(b"http://www.a.test/") == b"https://a.test/"
    assert rules.of(b"http://[::1]/") == b"https://[::1]/"


def test_www_that_is_the_site_itself_under_a_public_suffix_was_left_out_and_its_links_with_it() -> None:
    rules = spelling("www")
    for url in (
        b"https://www.gov.uk/browse",
        b"https://www.gov.uk:8443/",
        b"https://www.gov.uk./",
        b"http://www.github.io/",
    ):
        assert rules.of(url) == url
    assert rules.of(b"https://www.parliament.uk/") == b"https://parliament.uk/"


def test_brackets_in_a_path_were_taken_for_a_session() -> None:
    rules = Spelling(Urls(), {})
    for url in (
        b"http://a.test/wiki/(F(x))/y",
        b"http://a.test/(S(3))/",
        b"http://a.test/(B(lit3py55t21z5v55vlm25s55))/",
    ):
        assert rules.of(url) == url
    assert rules.of(b"http://a.test/(X(1)S(lit3py55t21z5v55vlm25s55))/page") == b"http://a.test/page"


URLS = st.lists(
    st.sampled_from([
        "a", "B", "/", "//", ".", "..", "%", "%25", "%2e", "%2F", "%41", "%c3%a4", "?", "&", "=", ";", "jsessionid=",
        "(S(lit3py55t21z5v55vlm25s55))", "(S(a))", "(X(1))",
        "index.html", "Default.asp", "utm_id", "sid=", "0123456789abcdef" * 2, "phpsessid", "7", "~", "ä",
    ]), max_size=12,
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(["http://a.test/", "https://www.b.test/", "http://www.c.test:81/"]), URLS,
       st.sets(st.sampled_from(URL_RULES)))  # fmt: skip
def test_a_spelling_is_in_stored_form_and_its_own(origin: str, parts: list[str], rules: set[str]) -> None:
    url = canonical(origin + "".join(parts))
    if url is None:
        return
    rule_set = spelling(*rules)
    found = rule_set.of(url)
    assert canonical(found) == found
    assert rule_set.of(found) == found


def test_a_site_has_rules_of_its_own() -> None:
    """Of the nearest name that has any; an empty list is none."""
    rules = spelling("empty_query", a_test=Site(merge_urls=["slashes"]), b_a_test=Site(merge_urls=[]))
    for host, expected in (("a.test", b"/x?"), ("w.a.test", b"/x?"), ("b.a.test", b"//x?"), ("c.test", b"//x")):
        assert rules.of(b"http://%b//x?" % host.encode()) == b"http://" + host.encode() + expected


def test_a_pattern_has_rules_of_its_own_and_before_those_of_its_site() -> None:
    patterns = [UrlRule("/shop/", ["slashes"], ["color"]), UrlRule("/shop/|/news/", None, [])]
    rules = Spelling(
        Urls(merge=["empty_query"]), {"a.test": Site(merge_urls=["www"], parameters=["v", "x_*"])}, patterns
    )
    for url, expected in (
        ("http://a.test/?v=1&x_y=2&V&vv=3", "http://a.test/?vv=3"),
        ("http://a.test/shop//?color=red&v=1", "http://a.test/shop/?v=1"),
        ("http://a.test/news/?color=red&v=1", "http://a.test/news/?color=red&v=1"),
        ("http://www.a.test/?v", "http://a.test/"),
        ("http://b.test/shop/?color=red", "http://b.test/shop/"),
        ("http://b.test/?v=1", "http://b.test/?v=1"),
    ):
        assert rules.of(url.encode()) == expected.encode()
    assert rules.by(b"http://www.a.test/?v=1") == ["www", "parameters"]
    with pytest.raises(ConfigError, match="url_rule 2"):
        Spelling(Urls(), {}, [UrlRule("a", []), UrlRule("(", [])])


@given(st.lists(st.sampled_from(["http://", "www.", "a.test", "/", "//", "?", "v=1", "&", "x=2", "%2F", "index.html"])))
def test_a_rule_that_led_to_another_sites_left_the_others_undone(parts: list[str]) -> None:
    """By `www` a URL of www.a.test became one of a.test, and kept what a.test's rules change."""
    sites = {"www.a.test": Site(merge_urls=["www"]), "a.test": Site(merge_urls=["slashes"], parameters=["x"])}
    rules = Spelling(Urls(), sites, [UrlRule("v=1", ["default_pages", "empty_query"], ["v"])])
    assert rules.of(b"http://www.a.test//x?x=2&y") == b"http://a.test/x?y"
    if (url := canonical("".join(parts))) is not None:
        assert rules.of(rules.of(url)) == rules.of(url)


def test_a_file_brings_more_parameters(tmp_path: Path) -> None:
    file = tmp_path / "parameters.txt"
    file.write_text("# ours\nref\n\nwt_*  # Webtrekk\n")
    rules = Spelling(Urls(parameters_file=str(file)), {})
    assert rules.of(b"http://a.test/?REF=1&wt_x=2&reference=3&utm_id=4") == b"http://a.test/?reference=3"
    file.write_text("größe\n")
    rules = Spelling(Urls(parameters_file=str(file)), {})
    assert rules.of(b"http://a.test/?gr%C3%B6%C3%9Fe=1&Gr%c3%b6%c3%9fe=2&gr=3") == b"http://a.test/?gr=3"
    for text, told in (("a b\n", "line 1: 'a b'"), ("ok\n*\n", r"line 2: '\*'")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=told):
            Spelling(Urls(parameters_file=str(file)), {})
    with pytest.raises(ConfigError, match="cannot be read"):
        Spelling(Urls(parameters_file=str(tmp_path / "none")), {})


def test_a_redirect_that_only_adds_a_session_is_followed_as_it_came() -> None:
    """The page behind it would never be fetched."""
    rules = Spelling(Urls(), {})
    assert rules.of_target(b"http://a.test/x?PHPSESSID=1", b"http://a.test/x") == b"http://a.test/x?PHPSESSID=1"
    assert rules.of_target(b"http://a.test/y?PHPSESSID=1", b"http://a.test/x") == b"http://a.test/y"


def test_a_url_of_very_many_parameters_is_left_as_it_is() -> None:
    """50,000 such URLs of one sitemap held a worker's loop for seconds."""
    rules = Spelling(Urls(), {})
    assert rules.of(b"http://a.test/?utm_id=1" + b"&a" * PARAMETERS_MAX) == b"http://a.test/?a" + b"&a" * (
        PARAMETERS_MAX - 1
    )
    url = b"http://a.test/?utm_id=1" + b"&a" * (PARAMETERS_MAX + 1)
    assert rules.of(url) == url
