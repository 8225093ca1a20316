"""Which query parameters change nothing, by a model that looks at every pair of pages; and the verb."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.ask.parameters import Rows, counted
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.config.keys import Site
from irlcrawl.config.toml import load_stored
from tests.crawl.virtual_crawl import Answer, Crawl, Web
from tests.upkeep.conftest import save_config

QUERIES = st.dictionaries(st.sampled_from("abc"), st.sampled_from("01"), max_size=3)


def model(pages: dict[str, int], name: str) -> int:
    """Pairs of URLs that differ in the parameter alone."""
    known = {url: (url.partition("?")[0], dict(parse_qsl(url.partition("?")[2]))) for url in pages}
    kinds = set()
    for one, other in itertools.combinations(pages, 2):
        (path, query), (path_of, query_of) = known[one], known[other]
        if name in {**query, **query_of} and path == path_of and {**query, name: ""} == {**query_of, name: ""}:
            if pages[one] != pages[other]:
                return 0
            kinds.add(pages[one])
    return len(kinds)


@given(st.lists(st.tuples(st.sampled_from(["/", "/x"]), QUERIES, st.integers(1, 3)), max_size=12))
def test_what_is_counted_is_what_a_look_at_all_pairs_tells(said: list[tuple[str, dict[str, str], int]]) -> None:
    rows, pages = Rows(), dict[str, int]()
    for path, query, content in said:
        url = f"http://a.test{path}" + ("?" if query else "") + "&".join(f"{n}={v}" for n, v in sorted(query.items()))
        rows.add("a.test", url.encode(), content)
        pages[url] = content  # of a page that is visited again the last visit counts
    found = counted(rows)
    for (_, name), number in rows.names.items():
        assert found[number] == model(pages, name)
    assert len(found) == len(rows.names)


def test_the_verb_tells_them_and_links_lead_to_one_page_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def page(body: str) -> Answer:
        return Answer(200, {"content-type": "text/html"}, body.encode())

    site = "http://a.test/"
    web = Web({site: []})
    links = "".join(f"<a href='/p?id={n}&ref={ref}'>" for n in range(3) for ref in "xy") + "<a href=/p?id=0>"
    web.answers[site] = page(links + "<a href=/late>")
    for n in range(3):
        for ref in ("", "&ref=x", "&ref=y", "&ref=z"):
            web.answers[f"{site}p?id={n}{ref}"] = page(f"page {n}")
    crawl = Crawl(tmp_path / "job", web, [site], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    save_config(crawl)
    job = str(crawl.path)
    assert main.main(["parameters", job, "--pages", "4"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert not out and err.startswith("none: no parameter is known by 4 pages or more")
    assert main.main(["parameters", job, "--pages", "3", "--write"]) == ExitCode.DONE
    assert "a.test\tref\t3" in capsys.readouterr().out
    assert load_stored(JobDir(crawl.path).config_file).site["a.test"].parameters == ["ref"]
    assert main.main(["why", job, f"{site}p?id=1&ref=z", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["spelled"] == f"links to it lead to {site}p?id=1 (by parameters)"
    assert main.main(["parameters", job, "--write", "--pages", "3"]) == ExitCode.DONE
    assert "nothing" in capsys.readouterr().out


def test_they_had_no_effect_where_a_host_has_parameters_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The site's section was written, and the host's hid it; the next `--write` said that all was done."""
    site = "http://www.a.test/"
    pages = [f"{site}p?id={n}&ref={ref}" for n in range(3) for ref in "xy"]
    web = Web({site: pages})
    for url in pages:
        body = url.partition("&")[0].encode()
        web.answers[url] = Answer(200, {"content-type": "text/html"}, body)
    crawl = Crawl(tmp_path / "job", web, [site], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    crawl.config.site |= {"www.a.test": Site(parameters=["foo"]), "test": Site(parameters=["bar"])}
    save_config(crawl)
    job = str(crawl.path)
    assert main.main(["parameters", job, "--pages", "3", "--write"]) == ExitCode.DONE
    sites = load_stored(JobDir(crawl.path).config_file).site
    assert {name: values.parameters for name, values in sites.items()} == {
        "www.a.test": ["foo", "ref"], "a.test": ["bar", "ref"], "test": ["bar"],
    }  # fmt: skip
    capsys.readouterr()
    assert main.main(["why", job, f"{site}p?id=1&ref=z", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["spelled"] == f"links to it lead to {site}p?id=1 (by parameters)"
    assert main.main(["parameters", job, "--write", "--pages", "3"]) == ExitCode.DONE
    assert "nothing" in capsys.readouterr().out


def test_a_server_of_one_page_proves_nothing() -> None:
    rows = Rows()
    for number in range(50):
        rows.add("a.test", b"http://a.test/?x=%d" % number, 7)
    assert counted(rows).tolist() == [1]
