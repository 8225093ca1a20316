"""`why` and `report` on a real crawl, stopped half way and at its end: what they say is what is so."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.ask import report, why
from irlcrawl.base.clock import since_boot
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.keys import name_key, stand_in
from irlcrawl.base.reasons import Reason
from irlcrawl.cli import main
from irlcrawl.config import plugins
from irlcrawl.config.keys import Config, Priority, Site
from irlcrawl.config.plugins import Plugin
from irlcrawl.config.toml import to_toml
from irlcrawl.frontier.dispatch import machine_cells
from irlcrawl.frontier.dispatch.machine_cells import HELD
from irlcrawl.frontier.dispatch.machine_file import MachineFile
from irlcrawl.frontier.politeness.clocks import Kind
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.state.lease_log import boot_id
from irlcrawl.frontier.state.view import PLACES, Reading
from irlcrawl.worker.archive import log_parts
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web, star
from tests.upkeep import three_sites

Ask = Callable[..., Any]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(*words: object) -> Any:
        assert main.main([*map(str, words), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert main.main([*map(str, words)]) == 0
        assert capsys.readouterr().out.strip()
        return answer

    return ask


def half_way(path: Path, monkeypatch: pytest.MonkeyPatch, pages: int = 75) -> Crawl:
    """Stopped by its limit of pages."""
    crawl = three_sites.crawl_of(path, monkeypatch)
    crawl.config.limits.pages = pages
    crawl.run()
    JobDir(path).write_config(to_toml(crawl.config))
    return crawl


def linked_first(crawl: Crawl, url: str) -> str:
    """The page with a link to it that was fetched before all others with one."""
    link = f'"{url}"'.encode()
    return next(page for _, page in crawl.web.log if link in crawl.web.answer(page, "", 0.0).body)


def test_every_url_that_is_not_done_is_told_once_with_its_place(tmp_path: Path, ask: Ask) -> None:
    wanted, met = {"ready", "resting", "queued", "over_budget"}, set[str]()
    for pages in (3, 15, 250, 60, 100, 150, 200):  # how far a turn is at a kill is the machine's to say
        if wanted <= met:
            break
        with pytest.MonkeyPatch.context() as monkeypatch:
            crawl = half_way(tmp_path / f"job{pages}", monkeypatch, pages)
        reading = Reading.open(JobDir(crawl.path))
        assert reading is not None
        places = {url.decode(): place for place, batch in reading.waiting() for url in batch["url"].tolist()}
        done = crawl.outcomes()
        discovered = reading.catalog.get("ledger")["discovered"]
        assert not places.keys() & done.keys() and len(places) + len(done) == discovered
        for place in set(places.values()):
            url = next(url for url, where in places.items() if where == place)
            told = ask("why", crawl.path, url)
            assert told["seen"] and told["place"] == place and told["stands"], told
            assert told["history"] == [] or told["history"][-1]["outcome"] == "retry"
            assert told["via"] in done or told["depth"] == 0, "the page that linked to it was fetched"
        met |= set(places.values())
    assert wanted <= met <= set(PLACES)


def test_why_of_a_url_that_is_done_one_that_is_forbidden_and_one_nobody_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    monkeypatch.setattr("time.time", lambda: crawl.clock.now() + 0.1)
    told = ask("why", crawl.path, "http://c.three.test/5")
    assert [line["outcome"] for line in told["history"]] == ["retry", "fetched"]
    assert told["history"][0]["retry_after"] == "400" and told["place"] == "done"
    assert (first := linked_first(crawl, "http://c.three.test/5")) and told["via"] == first
    lines = log_parts.entries_of(Files(), str(crawl.job().crawl_log), b"http://c.three.test/5")
    assert {line.via for line in lines} == {first.encode()}
    told = ask("why", crawl.path, "http://a.two.test/secret/1")
    assert told["stands"] == "done: excluded, robots" and not told["robots"]["allowed"]
    assert told["robots"]["rule"].lower().replace(" ", "") == "disallow:/secret/"
    told = ask("why", crawl.path, "http://a.two.test/0")
    assert told["robots"]["allowed"] and told["robots"]["rule"] is None
    told = ask("why", crawl.path, "http://a.two.test/never")
    assert not told["seen"] and told["place"] == "unknown"
    told = ask("why", crawl.path, "http://two.test/")
    assert told["site"]["name"] == "two.test" and told["site"]["in_degree"] == 1


def test_why_of_a_host_says_when_it_may_be_asked_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    crawl = half_way(tmp_path / "job", monkeypatch)
    now = crawl.clock.now()
    monkeypatch.setattr("time.time", lambda: now)
    told = ask("why", crawl.path, "b.two.test")
    ends = [at + crawl.web.fetch_s for at, url in crawl.web.log if url.startswith("http://b.two.test/")]
    (origin,) = told["origins"].values()
    assert origin["robots"]["crawl_delay_s"] == 3.0
    assert origin["next_allowed"] is None or ends[-1] + 3.0 - 0.01 <= origin["next_allowed"] <= now + 3.01
    assert told["outcomes"]["fetched"]["ok"] + 1 == len(ends)
    told = ask("why", crawl.path, "two.test")
    outcomes = Counter(what for url, (what, _) in crawl.outcomes().items() if "two.test/" in url)
    assert {what: sum(reasons.values()) for what, reasons in told["outcomes"].items() if what in outcomes} == outcomes


def test_report_counts_what_was_spent_and_names_what_eats_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    names = [f"www.good{n}.test" for n in range(9)]
    links = {url: targets for name in names for url, targets in star(name, 6).items()}
    links["http://www.good0.test/"] += [f"http://{name}/" for name in names] + ["http://trap.test/"]
    web = Web(links, fetch_s=0.01)
    for number, url in enumerate(url for url in links if url.rsplit("/", 1)[1]):
        web.answers[url] = Answer(200, {"content-type": "text/html"}, b"page " + b"x" * number)
    web.page("http://trap.test/", [f"http://trap.test/{n}" for n in range(60)])
    crawl = Crawl(tmp_path / "job", web, ["http://www.good0.test/"], monkeypatch)  # the trap's pages are all 404
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = ask("report", crawl.path, "--by", "spent", "--top", "3")
    assert told["totals"]["spent"] == crawl.web.pages_asked.total() and told["totals"]["sites"] == 10
    first = told["sites"][0]
    assert len(told["sites"]) == 3 and (first["name"], first["spent"], first["gained"]) == ("trap.test", 61, 1)
    assert [one["name"] for one in told["eaters"]] == ["trap.test"]
    told = ask("report", crawl.path)
    assert [one["in_degree"] for one in told["sites"]] == [1] * 9 + [0]
    assert told["sites"][-1]["name"] == "good0.test" and told["sites"][-1]["budget"] == 3_000, "it has a seed"
    assert {one["budget"] for one in told["sites"][:-1]} == {7, 30}, "the base, or what is left of it"


def test_report_and_why_agree_that_a_calendar_brings_nothing_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """Its pages differ in digits only. report called each of them gained, and the only site of a crawl no trap."""
    web = Web({"http://cal.test/": []}, fetch_s=0.01)
    for day in range(60):
        body = f'<p>day {day} of the year</p><a href="/{day + 1}">next</a>'
        web.answers[f"http://cal.test/{day or ''}"] = Answer(200, {"content-type": "text/html"}, body.encode())
    crawl = Crawl(tmp_path / "job", web, ["http://cal.test/"], monkeypatch)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told, site = ask("report", crawl.path), ask("why", crawl.path, "cal.test")
    assert (site["novel"], site["tried"]) == (1, 60)
    assert (told["totals"]["spent"], told["totals"]["gained"]) == (61, 2), "the last page is not merged"
    (eater,) = told["eaters"]
    assert eater["name"] == "cal.test" and "page.near_duplicates_max = 10" in eater["why"]


def test_why_names_the_key_that_keeps_a_host_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    crawl = Crawl(tmp_path / "job", Web({"http://a.test/": []}), ["http://a.test/", "http://in.test/"], monkeypatch)
    crawl.names.answers["in.test"] = Reason.ADDRESS
    crawl.run()
    crawl.config.site["a.test"], crawl.config.scope.block = Site(block=True), ["/private/"]
    crawl.config.site["b.test"] = Site(pause=True)
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    assert ask("why", crawl.path, "http://www.a.test/x")["blocked"] == 'site."a.test".block = true'
    assert ask("why", crawl.path, "http://c.test/private/x")["blocked"] == "scope.block"
    (origin,) = ask("why", crawl.path, "www.b.test")["origins"].values()
    assert origin["paused"] == 'site."b.test".pause = true' and "blocked" not in origin
    told = ask("why", crawl.path, "http://in.test/")
    assert told["stands"] == "done: failed, address" and "network.allow" in told["private"]
    assert ask("why", crawl.path, "in.test")["private"].startswith("of 1 URL: its address is private")
    assert ask("why", crawl.path, "a.test")["blocked"] == 'site."a.test".block = true', "of a site, too"


def test_a_report_of_very_many_sites_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    monkeypatch.setattr("irlcrawl.ask.report.SITES_MAX", 4)
    links = {"http://hub.test/": [f"http://s{n}.test/" for n in range(30)]}
    crawl = Crawl(tmp_path / "job", Web(links), ["http://hub.test/"], monkeypatch)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = ask("report", crawl.path)
    assert len(told["sites"]) <= 4 and told["totals"]["sites"] == 31
    assert told["totals"]["spent"] == 31 == sum(one["spent"] for one in told["sites"]) + told["others"]["spent"]


def test_before_the_first_commit_there_is_little_to_say(tmp_path: Path, ask: Ask) -> None:
    with JobDir(tmp_path / "job") as job:
        job.write_config(to_toml(Config()))
    assert "nothing is known yet" in ask("why", job.path, "a.test")["stands"]
    assert ask("report", job.path)["totals"]["sites"] == 0


def test_why_of_a_site_tells_the_question_and_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """The site record's `asked`, a number, stood where the question stands."""
    crawl = half_way(tmp_path / "job", monkeypatch)
    told = ask("why", crawl.path, "One.TEST")
    assert told["asked"] == "One.TEST" and told["site"] == "one.test" and told["tried"] > 0


def test_why_of_a_host_does_not_count_the_hosts_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    web = Web({"http://a.one.test/": ["http://b.a.one.test/", "http://b.a.one.test/x"]})
    crawl = Crawl(tmp_path / "job", web, ["http://a.one.test/"], monkeypatch)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = ask("why", crawl.path, "a.one.test")
    assert told["outcomes"]["fetched"] == {"ok": 1} and list(told["origins"]) == ["http://a.one.test"]
    assert {line["url"] for line in told["history"]} == {"http://a.one.test/", "http://a.one.test/robots.txt"}


def test_why_knows_a_site_in_its_own_letters_and_an_address_with_a_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    seeds = ["http://xn--bcher-kva.test/", "http://[2001:db8::7]:8080/", "http://[2001:db8::7]/"]
    crawl = Crawl(tmp_path / "job", Web({seed: [] for seed in seeds}), seeds, monkeypatch)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = ask("why", crawl.path, "bücher.test")
    assert told["site"] == "xn--bcher-kva.test" and told["outcomes"]
    told = ask("why", crawl.path, "[2001:db8::7]:8080")
    assert list(told["origins"]) == ["http://[2001:db8::7]:8080"] and told["outcomes"], told
    assert {line["url"] for line in told["history"]} >= {"http://[2001:db8::7]:8080/"}
    assert not any(line["url"].startswith("http://[2001:db8::7]/") for line in told["history"])


def test_what_a_server_wrote_cannot_move_the_terminals_cursor() -> None:
    entry = {"at": "", "status": 1, "outcome": "", "reason": "", "url": "", "detail": "\x9b2J"}
    told = {"robots": {"rule": "Disallow: /\x1b[2J\udc80ok ü"}, "history": [entry]}
    said = "\n".join(why.lines(told))
    assert "\x1b" not in said and "\x9b" not in said and "ok ü" in said and said.encode()


def test_a_bad_line_of_the_crawl_log_is_damage_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = half_way(tmp_path / "job", monkeypatch, 15)
    log = JobDir(crawl.path).crawl_log
    first, _, rest = log.read_bytes().partition(b"\n")
    log.write_bytes(first + b"\nno line\n" + rest)
    for words in (["report"], ["report", "--politeness"], ["why", "a.one.test"], ["urls"]):
        assert main.main([words[0], str(crawl.path), *words[1:]]) == ExitCode.DAMAGED
        assert "no line" in capsys.readouterr().err


def test_fewer_than_no_sites_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with JobDir(tmp_path / "job") as job:
        job.write_config(to_toml(Config()))
    assert main.main(["report", str(job.path), "--top", "-1"]) == ExitCode.CONFIG
    assert "--top -1" in capsys.readouterr().err


def test_why_says_in_words_where_a_budget_comes_from_and_when_a_host_may_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The columns of the site's record came out as they are stored: tail, count, known."""
    crawl = half_way(tmp_path / "job", monkeypatch)
    for asked in ("one.test", next(iter(crawl.outcomes()))):
        answer = why.why(crawl.job(), asked, crawl.clock.now() + 1e6)
        told = list(why.lines(answer))
        record = answer if "known" in answer else answer["site"]
        budget = next(line for line in told if line.startswith("  budget"))
        assert f"{record['budget']:,} URL" in budget and f"{record['in_degree']:,} other site" in budget
        assert any(
            line.startswith("  new content") and f"of the first {record['tried']:,} URL" in line for line in told
        )
        assert not any(line.split()[0] in ("tail", "count", "known", "seeds") for line in told)
        assert not any(word in line for word in ("drained", "merge", "placed") for line in told), "words of the house"
    assert "  next allowed   now" in told
    unknown = list(why.lines(why.why(crawl.job(), "http://nobody.test/x", crawl.clock.now())))
    assert any("no URL of it was queued" in line for line in unknown)


def test_why_of_a_host_whose_site_has_a_gap_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the site was taken for the site: a traceback."""
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages, crawl.config.politeness.gap_site_seconds = 20, 3.0
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    for asked in (three_sites.SEED, "a.one.test"):
        told = "\n".join(why.lines(why.why(crawl.job(), asked, crawl.clock.now())))
        assert "gap s          3\n" in told and "name           one.test" in told


def test_why_of_a_host_did_not_name_the_bandwidth_of_its_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages = 3
    crawl.config.site["one.test"] = Site(bytes_per_second=5_000)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = why.why(crawl.job(), "a.one.test", crawl.clock.now())
    said = {origin: value.get("bandwidth") for origin, value in told["origins"].items()}
    assert said == {"http://a.one.test": 'at most 5.0 kB/s of its site, by site."one.test".bytes_per_second'}
    assert "bandwidth" not in str(why.why(crawl.job(), "a.two.test", crawl.clock.now()))


def test_why_of_a_public_suffix_does_not_tell_of_the_sites_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """`why JOB test` said that no URL of it waits, and told the outcomes of all of .test."""
    crawl = half_way(tmp_path / "job", monkeypatch)
    told = ask("why", crawl.path, "test")
    assert told["site"] == "test" and not told["known"] and not told["outcomes"] and not told["history"]
    assert ask("why", crawl.path, "one.test")["outcomes"]


def test_a_report_keeps_its_columns_apart_whatever_stands_in_them() -> None:
    """Without budgets in-degree and budget ran into each other (`331,073,741,824`), and long names moved columns."""
    one = {"name": "a.test", "in_degree": 33, "budget": 2**30, "spent": 3, "yield": 0.5, "waiting": 4, "deferred": 5}
    long = {**one, "name": "b" * 60 + ".test", "budget": 200_000_000, "spent": 10**9, "yield": None}
    totals = {"sites": 2, "spent": 3, "gained": 1, "visits": 0, "waiting": 4, "deferred": 5}
    told = list(report.lines({"totals": totals, "sites": [one, long], "others": None, "eaters": []}))[2:5]
    head, first, second = (re.split(r" {2,}", line.strip()) for line in told)
    assert head == ["site", "in-degree", "budget", "spent", "yield", "waiting", "over budget"]
    assert first == ["a.test", "33", "no limit", "3", "0.50", "4", "5"]
    assert second == ["b" * 60 + ".test", "33", "200,000,000", "1,000,000,000", "-", "4", "5"]
    assert len({len(line) for line in told}) == 1


@pytest.mark.parametrize("asked", ["", "   "])
def test_a_question_that_is_empty_is_named(asked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It said `irlcrawl: : empty`."""
    with JobDir(tmp_path / "job") as job:
        job.write_config(to_toml(Config()))
    assert main.main(["why", str(job.path), asked]) == ExitCode.CONFIG
    assert f"{asked!r}: empty" in capsys.readouterr().err


def test_a_url_that_waits_has_its_level_with_what_made_it(tmp_path: Path, ask: Ask) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = half_way(tmp_path / "job", monkeypatch, 15)
    reading = Reading.open(JobDir(crawl.path))
    assert reading is not None
    url = next(
        url.decode() for _, batch in reading.waiting() for url in batch["url"].tolist() if not url.endswith(b"/")
    )
    depth = ask("why", crawl.path, url)["depth"]
    links = "1 link from a seed" if depth == 1 else f"{depth} links from a seed"
    assert ask("why", crawl.path, url)["level"] == f"{10 + depth}: {links}"
    crawl.config.priority = [Priority(re.escape(url), 2)]
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = ask("why", crawl.path, url)["level"]
    rule = "and a rule of [[priority]] with weight 2; by that it would be"
    assert told.startswith(f"{10 + depth}: {links}, {rule} {8 + depth}")


def test_why_of_a_url_that_links_spell_otherwise_says_what_they_lead_to(tmp_path: Path, ask: Ask) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = half_way(tmp_path / "job", monkeypatch, 15)
    crawl.config.site = {"a.test": Site(parameters=["ref"])}
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = ask("why", crawl.path, "http://a.test/1?ref=2&utm_source=3&x=4")
    assert told["spelled"] == "links to it lead to http://a.test/1?x=4 (by tracking, parameters)"
    assert told["stands"].startswith("not asked for in this spelling"), "it said that no page links to it"
    assert "spelled" not in ask("why", crawl.path, "http://b.test/1?ref=2&x=4")


def test_why_of_a_redirect_names_the_end_of_its_chain_and_urls_lists_where_each_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the archive said where a redirect led, and nothing that it led out of scope."""
    web = Web(
        {
            "http://a.test/": ["http://a.test/1", "http://a.test/out", "http://a.test/ring", "http://a.test/self"],
            "http://a.test/3": [],
        }
    )
    leads = {"/1": "/2", "/2": "/3", "/out": "http://b.test/x", "/ring": "/ring2", "/ring2": "/ring", "/self": "/self"}
    for path, target in leads.items():
        web.answers[f"http://a.test{path}"] = Answer(301, {"location": target})
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    crawl.config.scope.kind = "site"
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = ask("why", crawl.path, "http://a.test/1")
    assert told["redirects_to"] == "http://a.test/2" and told["ends_at"] == "http://a.test/3 (fetched, ok)"
    assert ask("why", crawl.path, "http://a.test/out")["ends_at"] == "http://b.test/x (left out by scope.kind)"
    loop = "http://a.test/ring2 (fetched, redirect; a loop: it leads back to http://a.test/ring)"
    assert ask("why", crawl.path, "http://a.test/ring")["ends_at"] == loop, "it was called an end"
    told = ask("why", crawl.path, "http://a.test/self")
    assert told["redirects_to"] == "http://a.test/self" and "a loop: it leads back" in told["ends_at"]
    assert "ends_at" not in ask("why", crawl.path, "http://a.test/3")
    assert main.main(["urls", str(crawl.path), "--with", "redirect"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {url: target for _, _, url, target in rows} == {
        f"http://a.test{path}": target if "//" in target else f"http://a.test{target}"
        for path, target in leads.items()
    }  # fmt: skip


def test_why_of_a_url_that_is_scheduled_blamed_others_of_its_host_for_hours_and_for_a_crawl_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """And it said that a host may be asked now that is outside its hours."""
    seeds = ["http://night.test/", "http://slow.test/", "http://full.test/"]
    web = Web({**star("full.test", 100), seeds[0]: [], seeds[1]: []})
    web.answers["http://slow.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nCrawl-delay: 1e308\n")
    crawl = Crawl(tmp_path / "job", web, seeds, monkeypatch)
    crawl.config.site["night.test"] = Site(hours="03:00-04:00")
    crawl.config.politeness.horizon_seconds, crawl.config.limits.seconds = 5.0, 10.0
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    monkeypatch.setattr("time.time", crawl.clock.now)
    opens = START // 86_400 * 86_400 + 3 * 3600.0
    told = ask("why", crawl.path, seeds[0])
    assert told["stands"].startswith("scheduled: outside the hours of its host; due ")
    assert told["closed"].endswith('by site."night.test".hours = "03:00-04:00"')
    assert told["host"]["next_allowed"] == told["due"] == opens
    told = ask("why", crawl.path, seeds[1])
    assert told["stands"].startswith("scheduled: its host is asked once in 1 h 00 min (Crawl-delay); due "), told
    said = "\n".join(why.lines(why.why(crawl.job(), "slow.test", crawl.clock.now())))
    assert "crawl_delay 3600, crawl_delay_asked 1e+308" in said, "what is capped was said in JSON alone"
    full = [f"http://full.test/{number}" for number in range(100)]
    places = [ask("why", crawl.path, url) for url in full[60:]]
    assert any(told["stands"].startswith("scheduled: its host has better ones before it") for told in places)


def test_why_of_a_site_said_nothing_of_the_host_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """It told that a URL rests, and not why: no question but for the whole URL did."""
    crawl = Crawl(tmp_path / "job", Web({"http://www.a.test/": []}), ["http://www.a.test/", "http://gone.test/"],
                  monkeypatch)  # fmt: skip
    crawl.names.answers["gone.test"] = Reason.DNS
    crawl.config.limits.wait_hours, crawl.config.politeness.rest_seconds = 0.001, 60.0
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    monkeypatch.setattr("time.time", crawl.clock.now)
    told = ask("why", crawl.path, "gone.test")
    assert told["waiting"] == {"resting": 1}
    (origin,) = told["origins"].items()
    assert origin[0] == "http://gone.test" and origin[1]["failures"] == 1
    assert origin[1]["next_allowed"] == origin[1]["rests_until"] > crawl.clock.now()
    assert ask("why", crawl.path, "a.test")["origins"] == {}, "there is www.a.test alone"


def test_why_of_a_host_that_another_crawl_of_the_machine_asked_a_moment_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that the next request is allowed now, while the crawl waited for the other one's gap."""
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages = 20
    crawl.run()
    crawl.config.politeness.machine_clocks = str(tmp_path)
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    now = crawl.clock.now() + 1e6
    assert why.why(crawl.job(), three_sites.SEED, now)["host"]["next_allowed"] is None, "nobody has asked anything"
    key = machine_cells.key_of(Kind.HOST, name_key(b"a.one.test"))
    file = MachineFile.open(tmp_path, boot_id(Files()))
    assert file is not None

    def kept(member: int) -> float:
        """Seconds, as told. The clock is due in 900, with a gap of 600."""
        assert file is not None
        bucket = file.read(machine_cells.bucket_of(key))
        if (at := machine_cells.find(bucket, key)) == NONE:
            at = machine_cells.make(bucket, key, machine_cells.NOTHING, 0.0)
        machine_cells.put(bucket, at, machine_cells.Cell(since_boot() + 900, 600.0, 0.0, member, 0))
        file.write(machine_cells.bucket_of(key), bucket)
        told = why.why(crawl.job(), three_sites.SEED, now)["host"]
        assert ("kept_by_another_crawl_until" in told["clocks"].get("host", {})) == bool(told["next_allowed"])
        return float((told["next_allowed"] or now) - now)

    assert 800 < kept(file.member) <= 900
    assert 500 < kept(file.member | HELD) <= 601, "a visit is out: if it ended now, its gap would be left"
    assert kept((file.member + 1) | HELD) == 0, "that crawl is gone"
    file.close()


def test_why_of_a_url_that_a_gap_of_its_site_keeps_named_others_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """Each has its seed alone: there were no better ones before it, and a Crawl-delay of 2 s was not it."""
    seeds = ["http://gap.test/", "http://rate.test/"]
    web = Web({seed: [] for seed in seeds})
    web.answers["http://gap.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nCrawl-delay: 2\n")
    crawl = Crawl(tmp_path / "job", web, seeds, monkeypatch)
    crawl.config.site["gap.test"] = Site(gap_host_seconds=400.0)
    crawl.config.site["rate.test"] = Site(bytes_per_second=1)
    crawl.config.politeness.horizon_seconds, crawl.config.limits.seconds = 5.0, 8.0
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    monkeypatch.setattr("time.time", crawl.clock.now)
    stands = [ask("why", crawl.path, seed)["stands"] for seed in seeds]
    assert stands[0].startswith('scheduled: its host is asked once in 6 min 40 s (site."gap.test".gap_host_seconds);')
    rate = 'at most 1 bytes/s of its site, by site."rate.test".bytes_per_second'
    assert stands[1].startswith(f"scheduled: its site may send no more for now ({rate});"), stands


def test_why_of_a_throttled_host_counted_no_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    """It said: 0 times in a row, as the visit had begun well."""
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 4)), ["http://a.test/"], monkeypatch)
    busy = Answer(429, {"retry-after": "3600"})
    crawl.web.moods["a.test"] = lambda url, now: busy if url.endswith("/1") else None
    crawl.config.limits.seconds = 20.0
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    monkeypatch.setattr("time.time", crawl.clock.now)
    stands = ask("why", crawl.path, "http://a.test/2")["stands"]
    assert "asked last (throttled); asked again from" in stands


def test_a_stand_in_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that stands for the name of a host behind a proxy was shown as its address."""
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages = 3
    crawl.names.answers["a.one.test"] = stand_in("a.one.test")
    crawl.config.site["a.one.test"] = Site(proxy="http://127.0.0.1:3128")
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = why.why(crawl.job(), "a.one.test", crawl.clock.now())
    assert told["origins"]["http://a.one.test"]["address"] == "resolved by its proxy"
    assert {line["address"] for line in told["history"]} == {"resolved by its proxy"}


def test_an_ipv6_address_is_asked_for_without_its_brackets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was no URL: empty host."""
    crawl = Crawl(tmp_path / "job", Web({"http://[2001:db8::7]/": []}), ["http://[2001:db8::7]/"], monkeypatch)
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    assert (
        ask("why", crawl.path, "2001:db8::7")["outcomes"] == ask("why", crawl.path, "[2001:db8::7]")["outcomes"] != {}
    )
    for site in ("2001:db8::7", "[2001:db8::7]"):
        assert main.main(["urls", str(crawl.path), "--site", site]) == ExitCode.DONE
        assert "http://[2001:db8::7]/" in capsys.readouterr().out
    assert main.main(["urls", str(crawl.path), "--site", "[2001:db8::7]:8080"]) == ExitCode.CONFIG


def test_why_knows_what_a_plug_in_makes_of_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was never found."""
    rename = Plugin("rename", lambda links, page: [url.replace(b"/old/", b"/new/") for url in links["url"].tolist()])
    found = {kind: [rename] if kind == "normaliser" else [] for kind in plugins.KINDS}
    monkeypatch.setattr(plugins, "load", lambda keys, kinds=plugins.KINDS: {kind: found[kind] for kind in kinds})
    web = Web({"http://a.test/": ["http://a.test/old/x"], "http://a.test/new/x": []})
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    crawl.config.plugins.normaliser = ["rename"]
    crawl.run()
    JobDir(crawl.path).write_config(to_toml(crawl.config))
    told = why.why(crawl.job(), "http://a.test/old/x", crawl.clock.now())
    assert told["spelled"] == "links to it lead to http://a.test/new/x (by plugins.normaliser)"
    assert told["stands"].startswith("not asked for in this spelling")
