"""A crawl that fetches what its pages need (page.requisites): each once, from whatever host, and nothing besides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irlcrawl.ask.outcomes import last_words
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.rows import Source
from irlcrawl.worker.archive import crawl_log
from tests.crawl.virtual_crawl import Answer, Crawl, Web

PAGE = (
    "<link rel=stylesheet href=/style.css><img src=http://cdn.test/a.png><img src=/moved.png><a href=/p{}>x</a>"
    "<a href=http://other.test/>x</a><img src=/both><a href=/both>x</a>"
)


def web() -> Web:
    found = Web()
    for number in range(4):
        url = "http://a.test/" if not number else f"http://a.test/p{number}"
        found.answers[url] = Answer(200, {"content-type": "text/html"}, PAGE.format(number + 1).encode())
    css = {"content-type": "text/css"}
    found.answers["http://a.test/style.css"] = Answer(
        200, css, b'@import "/more.css"; b { background: url(http://cdn.test/b.png) }'
    )
    for number in range(9):  # a chain of imports without end
        name = f"http://a.test/more{number or ''}.css"
        found.answers[name] = Answer(200, css, f'@import "more{number + 1}.css"'.encode())
    found.answers["http://a.test/moved.png"] = Answer(302, {"location": "http://cdn.test/c.png"})
    for name in "abc":
        html = Answer(200, {"content-type": "text/html"}, b"<a href=http://a.test/never>x</a><img src=/never.png>")
        found.answers[f"http://cdn.test/{name}.png"] = html
    found.answers["http://a.test/both"] = Answer(200, {"content-type": "text/html"}, b"<a href=/behind>x</a>")
    found.answers["http://a.test/behind"] = Answer(200, {"content-type": "text/plain"}, b"x")
    return found


@pytest.fixture
def crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    made = Crawl(tmp_path / "job", web(), ["http://a.test/"], monkeypatch)
    made.config.scope.kind = "site"
    return made


PAGES = {"http://a.test/", "http://a.test/p1", "http://a.test/p2", "http://a.test/p3", "http://a.test/p4",
         "http://a.test/both", "http://a.test/behind"}  # fmt: skip
REQUISITES = {
    "http://a.test/style.css", "http://cdn.test/a.png", "http://cdn.test/b.png", "http://cdn.test/c.png",
    "http://a.test/moved.png", "http://a.test/more.css", *(f"http://a.test/more{n}.css" for n in range(1, 5)),
}  # fmt: skip


def test_what_pages_need_is_fetched_once_from_any_host(crawl: Crawl) -> None:
    crawl.config.page.requisites = True
    assert crawl.run() == ExitCode.DONE
    assert crawl.web.pages_asked == dict.fromkeys(PAGES | REQUISITES, 1)
    order = [url for _, url in crawl.web.log if url.startswith("http://a.test/") and not url.endswith("robots.txt")]
    assert {order[1], order[2]} == {"http://a.test/style.css", "http://a.test/moved.png"}
    for entry in last_words(JobDir(crawl.path)):
        source = Source(crawl_log.carried_of(entry).source)
        assert (source == Source.REQUISITE) == (entry.url.decode() in REQUISITES), (entry.url, entry.path)
    status = json.loads((crawl.path / "status.json").read_text()) if (crawl.path / "status.json").exists() else None
    assert status is None or status["requisites"] == len(REQUISITES)


def test_by_default_none_is_fetched(crawl: Crawl) -> None:
    assert crawl.run() == ExitCode.DONE
    assert crawl.web.pages_asked == dict.fromkeys(PAGES, 1)


def test_a_page_has_so_many_at_most(crawl: Crawl) -> None:
    crawl.config.page.requisites, crawl.config.page.requisites_max = True, 1
    assert crawl.run() == ExitCode.DONE
    asked = crawl.web.pages_asked.keys() & REQUISITES
    assert "http://a.test/style.css" in asked and "http://cdn.test/a.png" not in asked
    (seed,) = (entry for entry in last_words(JobDir(crawl.path)) if entry.url == b"http://a.test/")
    assert seed.notes["requisites_beyond_max"] == "2"


def test_patterns_and_robots_hold_for_them(crawl: Crawl) -> None:
    crawl.config.page.requisites, crawl.config.scope.exclude = True, [r"\.png$"]
    crawl.web.answers["http://a.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /more\n")
    assert crawl.run() == ExitCode.DONE
    assert crawl.web.pages_asked.keys() & REQUISITES == {"http://a.test/style.css"}
    assert crawl.outcomes()["http://a.test/more.css"][1] == "robots"


def test_html_that_a_page_needed_first_was_never_read(crawl: Crawl) -> None:
    html, web = {"content-type": "text/html"}, crawl.web
    web.answers["http://a.test/"] = Answer(200, html, b"<object data=/nav></object><embed src=http://cdn.test/nav>")
    web.answers["http://a.test/nav"] = Answer(200, html, b"<a href=/found>x</a><img src=/needed.png>")
    web.answers["http://cdn.test/nav"] = Answer(200, html, b"<a href=http://a.test/never>x</a>")
    crawl.config.page.requisites = True
    assert crawl.run() == ExitCode.DONE
    asked = {url for url in crawl.web.pages_asked if not url.endswith(".txt")}
    assert asked == {"http://a.test/", "http://a.test/nav", "http://cdn.test/nav", "http://a.test/found",
                     "http://a.test/needed.png"}  # fmt: skip
