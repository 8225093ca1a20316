"""Sitemaps and feeds in a whole crawl: from robots.txt to pages that no page links to."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from irlcrawl.ask import why
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web
from tests.upkeep.conftest import save_config

SITE = "http://a.test"
XML = {"content-type": "application/xml"}


def sitemap(kind: str, urls: list[str]) -> bytes:
    return f"<{kind}>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</{kind}>".encode()


def site() -> Web:
    """A home page without links; a robots.txt that names an index, of which one sitemap is packed."""
    web = Web({f"{SITE}/": [], **{f"{SITE}/{page}": [] for page in ("1", "2", "3", "no")}})
    lines = b"User-agent: *\nDisallow: /no\nSitemap: http://a.test/index.xml\nSitemap: http://other.test/s.xml\n"
    web.answers |= {
        f"{SITE}/robots.txt": Answer(200, {"content-type": "text/plain"}, lines),
        f"{SITE}/index.xml": Answer(200, XML, sitemap("sitemapindex", [f"{SITE}/s1.xml.gz", f"{SITE}/s2.txt"])),
        f"{SITE}/s1.xml.gz": Answer(200, {"content-type": "application/gzip"}, gzip.compress(
            sitemap("urlset", [f"{SITE}/1", f"{SITE}/2", f"{SITE}/no", "http://other.test/x"]))),
        f"{SITE}/s2.txt": Answer(200, {"content-type": "text/plain"}, b"http://a.test/3\nhttp://a.test/1\n"),
    }  # fmt: skip
    return web


def crawled(path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    crawl = Crawl(path, web, [f"{SITE}/"], monkeypatch)
    crawl.config.scope.kind = "site"
    return crawl


def test_pages_that_only_a_sitemap_lists_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawled(tmp_path / "job", site(), monkeypatch)
    assert crawl.run() == ExitCode.DONE
    outcomes = crawl.outcomes()
    assert {url.removeprefix(SITE): told for url, told in outcomes.items()} == {
        **dict.fromkeys(("/", "/index.xml", "/s1.xml.gz", "/s2.txt", "/1", "/2", "/3"), ("fetched", "ok")),
        "/no": ("excluded", "robots"), "http://other.test/s.xml": ("fetched", "http_error"),
    }, "what other.test has besides is out of scope"  # fmt: skip


@pytest.mark.parametrize("way", ["prefix", "include", "host", "another host"])
def test_a_sitemap_outside_of_the_scope_was_never_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A robots.txt names it; what it lists is crawled as far as it is in scope."""
    home, listed = f"{SITE}/docs/", [f"{SITE}/docs/1", f"{SITE}/2", "http://cdn.test/3"]
    at = "http://cdn.test/map/s.xml" if way == "another host" else "http://www.a.test/s.xml" if way == "host" else (
        f"{SITE}/s.xml"
    )  # fmt: skip
    web = Web({home: [], **{url: [] for url in listed}})
    web.answers |= {
        f"{SITE}/robots.txt": Answer(200, {"content-type": "text/plain"}, f"Sitemap: {at}\n".encode()),
        "http://cdn.test/robots.txt": Answer(200, {"content-type": "text/plain"}, b"Sitemap: http://cdn.test/own.xml"),
        at: Answer(200, XML, sitemap("sitemapindex", [at.replace("s.xml", "part.xml")])),
        at.replace("s.xml", "part.xml"): Answer(200, XML, sitemap("urlset", listed)),
    }
    crawl = Crawl(tmp_path / "job", web, [home], monkeypatch)
    crawl.config.scope.kind = "host" if way in ("host", "another host") else "prefix" if way == "prefix" else "any"
    crawl.config.scope.include = ["/docs/"] if way == "include" else []
    assert crawl.run() == ExitCode.DONE
    inside = {home, listed[0], *([listed[1]] if way in ("host", "another host") else [])}
    assert crawl.outcomes().keys() == {*inside, at, at.replace("s.xml", "part.xml")}


@pytest.mark.parametrize("kind", ["text", "html", "gz"])
def test_a_sitemap_that_its_server_had_moved_was_read_as_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    web = Web({f"{SITE}/": [], f"{SITE}/1": []})
    body, type_ = {
        "text": (f"{SITE}/1\n".encode(), "text/plain"), "html": (sitemap("urlset", [f"{SITE}/1"]), "text/html"),
        "gz": (gzip.compress(sitemap("urlset", [f"{SITE}/1"])), "application/octet-stream"),
    }[kind]  # fmt: skip
    web.answers |= {
        f"{SITE}/robots.txt": Answer(200, {"content-type": "text/plain"}, b"Sitemap: http://a.test/map\n"),
        f"{SITE}/map": Answer(301, {"location": "/moved"}), f"{SITE}/moved": Answer(302, {"location": "/now?x"}),
        f"{SITE}/now?x": Answer(200, {"content-type": type_}, body),
    }  # fmt: skip
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    assert crawl.run() == ExitCode.DONE
    assert crawl.outcomes()[f"{SITE}/1"] == ("fetched", "ok")


def test_what_a_sitemap_says_orders_its_pages_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One visit fetches them; each keeps its place whatever the list's order, and nearer pages their level."""
    said = {"low": "0.1", "usual": None, "high": "0.8", "best": "1.0"}
    body = ""
    for day, (page, priority) in enumerate(said.items(), 1):
        more = f"<changefreq>daily</changefreq><priority>{priority}</priority>" if priority else ""
        body += f"<url><loc>{SITE}/{page}</loc><lastmod>2026-01-0{day}</lastmod>{more}</url>"
    web = Web({f"{SITE}/": [f"{SITE}/linked"], f"{SITE}/linked": [], **{f"{SITE}/{page}": [] for page in said}})
    web.answers |= {
        f"{SITE}/robots.txt": Answer(200, {"content-type": "text/plain"}, b"Sitemap: http://a.test/s.xml\n"),
        f"{SITE}/s.xml": Answer(200, XML, f"<urlset>{body}</urlset>".encode()),
    }
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    assert crawl.run() == ExitCode.DONE
    save_config(crawl)
    pages = [url.removeprefix(f"{SITE}/") for _, url in crawl.web.log]
    assert pages[pages.index("best") :] == ["best", "high", "usual", "low"]
    assert why.why(JobDir(crawl.path), f"{SITE}/high", crawl.clock.now())["listed"] == {
        "lastmod": "2026-01-03", "priority": "0.8", "changefreq": "daily",
    }  # fmt: skip
    assert why.why(JobDir(crawl.path), f"{SITE}/usual", crawl.clock.now())["listed"] == {"lastmod": "2026-01-02"}
    for page in ("linked", "s.xml"):
        assert "listed" not in why.why(JobDir(crawl.path), f"{SITE}/{page}", crawl.clock.now())


def test_a_sitemap_may_be_a_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = site()
    del web.answers[f"{SITE}/robots.txt"]
    crawl = Crawl(tmp_path / "job", web, [f"{SITE}/index.xml"], monkeypatch)
    crawl.config.scope.kind = "site"
    assert crawl.run() == ExitCode.DONE
    assert {url.removeprefix(SITE) for url in crawl.outcomes()} == {
        "/index.xml", "/s1.xml.gz", "/s2.txt", "/1", "/2", "/3", "/no",
    }  # fmt: skip


def test_sitemaps_can_be_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = crawled(tmp_path / "job", site(), monkeypatch)
    crawl.config.page.sitemaps = False
    assert crawl.run() == ExitCode.DONE and crawl.outcomes().keys() == {f"{SITE}/"}


@pytest.mark.parametrize("depth_max", [0, 1, 2, 3])
def test_a_sitemap_is_a_link_away_from_the_url_that_asked_for_robots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth_max: int
) -> None:
    """And each list is one link longer a way, so that lists of lists come to an end."""
    crawl = crawled(tmp_path / "job", site(), monkeypatch)
    crawl.config.scope.depth_max = depth_max
    assert crawl.run() == ExitCode.DONE
    depths = [["/"], ["/index.xml"], ["/s1.xml.gz", "/s2.txt"], ["/1", "/2", "/3", "/no"]]
    expected = {SITE + path for paths in depths[: depth_max + 1] for path in paths}
    expected |= {"http://other.test/s.xml"} if depth_max else set()
    assert crawl.outcomes().keys() == expected


def test_a_kill_at_any_request_loses_nothing_that_is_listed(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        whole = crawled(tmp_path / "whole", site(), monkeypatch)
        whole.run()
    for at in range(1, len(whole.web.log) + 1):
        with pytest.MonkeyPatch.context() as monkeypatch:
            crawl = crawled(tmp_path / f"killed{at}", site(), monkeypatch)
            crawl.on_request = lambda url, crawl=crawl, at=at: len(crawl.web.log) == at and crawl.kill()  # type: ignore[misc]
            with pytest.raises(Killed):
                crawl.run()
            crawl.on_request = lambda url: None
            assert crawl.run() == ExitCode.DONE and crawl.outcomes() == whole.outcomes()


def test_what_an_owner_lists_supports_no_other_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = site()
    web.page("http://other.test/x")
    crawl = crawled(tmp_path / "job", web, monkeypatch)
    crawl.config.scope.kind = "any"
    crawl.run()
    assert crawl.outcomes()["http://other.test/x"] == ("fetched", "ok")
    save_config(crawl)
    told = why.why(JobDir(crawl.path), "other.test", crawl.clock.now())
    assert told["in_degree"] == 0
