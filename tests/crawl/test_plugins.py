"""Plug-ins: the examples, found by their entry points, in whole crawls under virtual time; and what goes wrong."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drum import Batch

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Carried
from irlcrawl.config import plugins
from irlcrawl.config.checks import check_start
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.plugins import GROUP, Plugin
from irlcrawl.crawl import status
from irlcrawl.web.plugins import Handled, PageSeen
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive.log_parts import read
from irlcrawl.worker.archive.unit import Exchange, Location, Unit
from irlcrawl.worker.fetch.terms import TermsOf
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.process import process
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of examples as if it were installed."""
    project = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / "irlcrawl_example_plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"][GROUP].items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(info.parent))
    yield
    sys.modules.pop("irlcrawl_example_plugins", None)


def configured() -> Config:
    config = Config()
    config.crawl.user_agent = "Test/1 (+http://contact.test/)"
    return config


PATHS = ["/de/x", "/fr/x", "/en/x", "/2021/05/new", "/2001/05/old", "/story/", "/found"]
PAGES = {
    "http://a.test/": [*PATHS[:5], "/story/amp/", "/api", "/" + "x" * 90],
    **{f"http://a.test{path}": [] for path in PATHS},
}


FOLLOWED = {"/", "/api", *PATHS} - {"/fr/x"}


def crawl_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    web = Web({url: [f"http://a.test{link}" for link in links] for url, links in PAGES.items()})
    web.answers["http://a.test/api"] = Answer(200, {"content-type": "application/json"}, b'{"n": ["/found", "no"]}')
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    keys = crawl.config.plugins
    keys.filter, keys.priority, keys.normaliser = ["languages", "short"], ["recent"], ["amp"]
    keys.page, keys.headers = ["json-links"], ["country"]
    keys.options = ["languages.keep=de, en", "short.bytes=80", "recent.since=2020"]
    return crawl


def notes_of(crawl: Crawl) -> dict[str, dict[str, str]]:
    return {entry.url.decode(): entry.notes for entry in read(crawl.files, str(crawl.job().crawl_log))}


def test_the_examples_filter_weigh_rename_and_find_links(
    examples: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawl_of(tmp_path, monkeypatch)
    crawl.config.politeness.visit_urls_max = 1
    assert crawl.run() == ExitCode.DONE
    asked = [url.removeprefix("http://a.test") for _, url in crawl.web.log if not url.endswith("robots.txt")]
    assert set(asked) == FOLLOWED
    assert asked[:2] == ["/", "/2021/05/new"], "recent first"
    assert asked.index("/2001/05/old") > max(asked.index(path) for path in ("/de/x", "/en/x", "/story/", "/api"))
    assert notes_of(crawl)["http://a.test/api"]["json-links.links"] == "1"
    last = status.read_status(crawl.job())
    assert (last["filtered_urls"], last["plugin_errors"]) == (2, 0)
    assert last["plugin_us"] > 0
    assert "2 left out by plug-ins" in "\n".join(status.lines(last))


def test_a_page_that_is_read_again_after_a_kill_says_the_same(
    examples: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = crawl_of(tmp_path, monkeypatch)

    def kill(unit: Unit) -> None:
        if unit.url in (b"http://a.test/", b"http://a.test/api") and kills and kills.pop():
            crawl.kill()

    kills = [True, True]
    crawl.on_kept = kill
    while True:
        try:
            assert crawl.run() == ExitCode.DONE
            break
        except Killed:
            continue
    assert not kills
    assert {url.removeprefix("http://a.test") for url in crawl.outcomes()} == FOLLOWED
    assert notes_of(crawl)["http://a.test/api"]["json-links.links"] == "1"


def test_headers_of_a_plug_in_go_to_the_hosts_they_are_for(examples: None) -> None:
    config = Config()
    config.plugins.headers = ["country"]
    terms = TermsOf(config)
    assert ("Accept-Language", "de, en;q=0.5") in terms.of("www.a.de").headers
    assert all(name != "Accept-Language" for name, _ in terms.of("www.a.org").headers)


def test_a_start_refuses_plug_ins_that_cannot_be_had(examples: None) -> None:
    config = configured()
    check_start(config)
    config.plugins.filter = ["languges"]
    with pytest.raises(ConfigError, match=r"no installed package offers 'languges' .*languages"):
        check_start(config)
    config.plugins.filter = ["languages"]
    with pytest.raises(ConfigError, match="languages cannot be used: KeyError: 'keep'"):
        check_start(config)
    config.plugins.options = ["languages.keep=de", "short.bytes=3"]
    with pytest.raises(ConfigError, match=r"no key of \[plugins\] names short"):
        check_start(config)
    config.plugins.options = ["keep=de"]
    with pytest.raises(ConfigError, match=r"NAME\.OPTION=VALUE"):
        check_start(config)


def test_nothing_is_loaded_that_is_not_named(examples: None) -> None:
    config = configured()
    Context(config, 1, Scope(config.scope))
    assert "irlcrawl_example_plugins" not in sys.modules
    config.plugins.filter = ["short"]
    Context(config, 1, Scope(config.scope))
    assert "irlcrawl_example_plugins" in sys.modules


BODY = b'<a href="/a">a</a><a href="/b">b</a>'
URL = b"http://a.test/"


def read_with(
    monkeypatch: pytest.MonkeyPatch, links_max: int = 100, **calls: Any
) -> tuple[list[bytes], dict[str, int], dict[str, str]]:
    """The links of a page, what was counted and what was noted, under plug-ins that are these functions."""
    found = {kind: [Plugin(kind, calls[kind])] if kind in calls else [] for kind in plugins.KINDS}
    monkeypatch.setattr(plugins, "load", lambda keys, kinds=plugins.KINDS: {kind: found[kind] for kind in kinds})
    config = configured()
    config.plugins.filter = ["it"]
    config.page.links_max = links_max
    context = Context(config, 1, Scope(config.scope, {}, [b"any"]))
    unit = Unit(
        url=URL, segment=1, row=0, key=1, host=1, carried=Carried(), cls=Class.FETCHED, reason=Reason.OK, status=200,
        start=1.0,
    )  # fmt: skip
    header = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n"
    exchange = Exchange(URL, "10.0.0.1", b"", header, BODY, None, 1.0, 0.1)
    rows = process(unit, exchange, Location("x.warc.gz", 1, 0, 0, 100, 50, "sha1:AAAA"), context)
    return [row[4] for row in rows.links], rows.counts, rows.notes


BOTH = [b"http://a.test/a", b"http://a.test/b"]


def fail(*args: Any) -> Any:
    raise RuntimeError("a plug-in's own mistake")


@pytest.mark.parametrize(
    "call", [fail, lambda *args: [True], lambda *args: "no", lambda *args: 3, lambda *args: object()]
)
@pytest.mark.parametrize("kind", ["filter", "priority", "normaliser", "page"])
def test_what_goes_wrong_in_a_plug_in_is_counted_and_the_page_goes_on(
    monkeypatch: pytest.MonkeyPatch, kind: str, call: Any
) -> None:
    links, counts, _ = read_with(monkeypatch, **{kind: call})
    assert links == BOTH
    assert counts["plugin_errors"] == 1


def test_links_of_a_page_handler_beyond_the_bound_of_a_page_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They vanished."""
    answer = Handled(links=[f"/more/{number}" for number in range(5)])
    links, counts, _ = read_with(monkeypatch, 3, page=lambda page: answer)
    assert links == [*BOTH, b"http://a.test/more/0"] and counts["beyond_max"] == 4


def test_a_wrong_note_or_link_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Handled(links=["mailto:a@b", "/c", b"/a"], notes={"a b,c=\n": "two words\nand a line"})
    links, counts, notes = read_with(monkeypatch, page=lambda page: answer)
    assert links == [*BOTH, b"http://a.test/c"] and "plugin_errors" not in counts
    assert notes == {"page.a_b_c__": "two_words_and_a_line"}


def test_plug_ins_see_columns_and_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(links: Batch, page: PageSeen) -> Any:
        assert (page.url, page.status, page.depth, links["depth"].tolist()) == (URL, 200, 0, [1, 1])
        return links["url"].lengths > 0

    def rename(links: Batch, page: PageSeen) -> Any:
        return [b"http://A.test/c/../A", None]

    links, counts, _ = read_with(monkeypatch, filter=keep, normaliser=rename)
    assert links == [b"http://a.test/A", b"http://a.test/b"] and "plugin_errors" not in counts
