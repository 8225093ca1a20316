"""Blocked and paused hosts in a whole crawl under virtual time; what verbs make of irlcrawl.toml and the journal."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from drum import Catalog, Files

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.keys import Config, ConfigError, Priority, Site
from irlcrawl.config.rewrite import rewritten
from irlcrawl.config.toml import CONFIG_HEADER, load, load_stored, parse_stored, to_toml
from irlcrawl.crawl import journal
from irlcrawl.crawl.returns import Selection
from irlcrawl.crawl.steering import PATTERN, steer, steer_at_rest
from irlcrawl.web.block import Block
from tests.crawl.test_returns import put_back
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

NOW = 1_000_000_000.0


def star(host: str, pages: int, more: tuple[str, ...] = ()) -> dict[str, list[str]]:
    urls = [f"http://{host}/{number}" for number in range(pages)]
    return {f"http://{host}/": [*urls, *more], **{url: [] for url in urls}}


def asked(crawl: Crawl) -> Counter[str]:
    return Counter(url.split("/")[2] for _, url in crawl.web.log)


# -- what is blocked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "killed"), [("section", True), ("file", False), ("pattern", True)])
def test_nothing_is_asked_of_what_was_blocked_and_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, killed: bool
) -> None:
    """Its URLs wait in all places when the block comes: queues, the calendar, runs, a visit that is out."""
    web = Web(star("www.a.test", 150, ("http://b.test/",)) | star("b.test", 20))
    crawl = Crawl(tmp_path / "job", web, ["http://www.a.test/"], monkeypatch)
    crawl.config.politeness.horizon_seconds = 30.0

    async def ends_early(crawl: Crawl) -> None:
        assert crawl.loop is not None
        while asked(crawl)["www.a.test"] < 10:
            await asyncio.sleep(1)
        crawl.kill() if killed else crawl.loop.stop(ExitCode.INTERRUPTED)

    if killed:
        with pytest.raises(Killed):
            crawl.run(ends_early)
    else:
        assert crawl.run(ends_early) == ExitCode.INTERRUPTED
    before = asked(crawl)
    if way == "section":
        crawl.config.site["a.test"] = Site(block=True)
    elif way == "pattern":
        crawl.config.scope.block = [r"^http://www\.a\.test/"]
    else:
        crawl.config.scope.block_file = str(tmp_path / "names")
        (tmp_path / "names").write_text("# those who asked\na.test  # on Monday\n\nc.test\n")
    assert crawl.run() == ExitCode.DONE
    assert asked(crawl)["www.a.test"] == before["www.a.test"], "not even robots.txt"
    told = Counter(crawl.outcomes().values())
    done = told["fetched", "ok"]
    assert told["excluded", "blocked"] == 172 - done and set(told) == {("fetched", "ok"), ("excluded", "blocked")}
    crawl.config.site.clear()
    crawl.config.scope.block, crawl.config.scope.block_file = [], ""
    crawl.archived &= {url.encode() for url, (outcome, _) in crawl.outcomes().items() if outcome == "fetched"}
    assert put_back(crawl, Selection(reasons=("blocked",))) == {("excluded", "blocked"): 172 - done}
    assert crawl.run() == ExitCode.DONE
    assert Counter(crawl.outcomes().values()) == {("fetched", "ok"): 172}


def test_a_pattern_blocks_a_part_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 30)), ["http://a.test/"], monkeypatch)
    crawl.config.scope.block = [r"/1\d$"]
    assert crawl.run() == ExitCode.DONE
    blocked = {url for url, outcome in crawl.outcomes().items() if outcome == ("excluded", "blocked")}
    assert blocked == {f"http://a.test/{number}" for number in range(10, 20)}
    assert crawl.loop is not None and crawl.loop.status()["excluded_by_reason"] == {"blocked": 10}


def test_the_nearest_section_counts_before_the_file(tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("example.org\n")
    config = Config()
    config.scope.block_file, config.scope.block = str(names), ["/private/"]
    config.site["good.example.org"] = Site(block=False)
    block = Block(config)
    hosts = ["example.org", "a.example.org", "x.good.example.org", "good.example.org", "xexample.org", "org"]
    assert [host for host in hosts if block.host(host)] == ["example.org", "a.example.org"]
    assert block.key_of("a.example.org") == "scope.block_file" and block.key_of("org", b"http://org/") is None
    assert block.key_of("org", b"http://org/private/") == "scope.block"
    config.site["example.org"] = Site(block=True)
    assert Block(config).key_of("a.example.org") == 'site."example.org".block = true'


def test_a_file_of_hosts_names_its_wrong_line(tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("good.test\nhttp://bad.test/\n")
    config = Config()
    config.scope.block_file = str(names)
    with pytest.raises(ConfigError, match=r"names, line 2: 'http://bad.test/' is no name of a host"):
        Block(config)


# -- what is paused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("everything", [False, True])
def test_a_pause_loses_nothing_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    web = Web(star("a.test", 400) | star("b.test", 20))
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://b.test/"], monkeypatch)
    crawl.config.limits.wait_hours = 0.1  # a pause is no reason to end

    async def stops(crawl: Crawl, hours: float, asked_for: int = 0) -> None:
        loop = crawl.loop
        assert loop is not None
        while asked(crawl)["a.test"] < asked_for:
            await asyncio.sleep(1)
        await asyncio.sleep(hours * 3600)
        loop.stop(ExitCode.INTERRUPTED)

    assert crawl.run(lambda crawl: stops(crawl, 0.0, 10)) == ExitCode.INTERRUPTED
    before, commits = asked(crawl), Catalog.open(JobDir(crawl.path).state, Files(), readonly=True).number
    if everything:
        crawl.config.crawl.pause = True
    else:
        crawl.config.site["a.test"] = Site(pause=True)
    assert crawl.run(lambda crawl: stops(crawl, 0.5)) == ExitCode.INTERRUPTED
    assert asked(crawl)["a.test"] == before["a.test"]
    assert asked(crawl)["b.test"] == (before["b.test"] if everything else 22)
    assert crawl.loop is not None
    assert list(crawl.loop.status()["paused"]) == ["*" if everything else "a.test"]
    spent = Catalog.open(JobDir(crawl.path).state, Files(), readonly=True).number - commits
    assert spent < 100, "commits in half an hour of waiting"
    crawl.config.crawl.pause = False
    crawl.config.site.clear()
    began = crawl.clock.now()
    assert crawl.run() == ExitCode.DONE
    again = next(at for at, url in web.log if at >= began and "a.test" in url)
    assert again - began < 10
    assert Counter(crawl.outcomes().values()) == {("fetched", "ok"): 422}


# -- what verbs make of the configuration ------------------------------------------------------------------------------


def ours(path: Path, **scope: object) -> JobDir:
    """A crawl that ended, with a configuration that could start again."""
    job = JobDir(path)
    with job:
        job.write_config(CONFIG_HEADER + to_toml(load(None, ["crawl.user_agent=test/1 (+http://contact.test/)"])))
    return job


def verb(job: JobDir, name: str, *arguments: str) -> Config:
    with job:
        steer_at_rest(job, name, arguments, NOW)
    return load_stored(job.config_file)


@pytest.mark.parametrize("kept", ["paused", "blocked by a pattern"])
def test_a_robots_txt_that_leads_to_a_host_that_is_not_to_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """A pause was taken for a failure of the host that leads there; where a pattern blocks the URL it was asked for."""
    there = "http://b.test/robots.txt"
    web = Web({"http://a.test/": ["http://a.test/1"], "http://a.test/1": []})
    web.answers |= {
        "http://a.test/robots.txt": Answer(301, {"location": there}),
        there: Answer(200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /1\n"),
    }
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch)
    if kept == "paused":
        crawl.config.site["b.test"] = Site(pause=True)
        crawl.config.politeness.host_dead_hours, crawl.config.limits.seconds = 1.0, 3 * 3600.0
        crawl.tick_every(60.0, 60.0)
        assert crawl.run(hours=10) == ExitCode.TIME_LIMIT
        assert there not in [url for _, url in web.log] and crawl.outcomes() == {}
        crawl.config.site["b.test"] = Site()
        assert crawl.run() == ExitCode.DONE
        assert crawl.outcomes() == {"http://a.test/": ("fetched", "ok"), "http://a.test/1": ("excluded", "robots")}
    else:
        crawl.config.scope.block = ["^http://b[.]test/"]
        crawl.run(hours=500)
        assert there not in [url for _, url in web.log]


def test_verbs_of_a_crawl_that_does_not_run_change_its_file(tmp_path: Path) -> None:
    job = ours(tmp_path / "job")
    assert verb(job, "block", "example.org", f"{PATTERN}/old/").site == {"example.org": Site(block=True)}
    assert verb(job, "unblock", "www.example.org").site["www.example.org"] == Site(block=False)
    config = verb(job, "unblock", "example.org", f"{PATTERN}/old/")
    assert config.site == {"www.example.org": Site(block=False)} and not config.scope.block
    assert verb(job, "pause").crawl.pause and not verb(job, "unpause").crawl.pause
    assert verb(job, "pause", "slow.example").site["slow.example"] == Site(pause=True)
    assert "slow.example" not in verb(job, "unpause", "slow.example").site
    assert verb(job, "set", 'site."example.org".gap_host_seconds=9').site["example.org"].gap_host_seconds == 9
    rules = verb(job, "prefer", "example.org", "3").priority
    assert rules == [Priority(r"^https?://(?:[^/]*\.)?example\.org(?::\d+)?/", 3)]
    rules = verb(job, "prefer", "http://example.org/a?b", "2").priority
    assert [rule.weight for rule in rules] == [2, 3]
    assert [rule.weight for rule in verb(job, "prefer", "example.org", "off").priority] == [2]
    verbs = [line.verb for line in journal.read(job)]
    assert verbs == [
        "block",
        "unblock",
        "unblock",
        "pause",
        "unpause",
        "pause",
        "unpause",
        "set",
        "prefer",
        "prefer",
        "prefer",
    ]
    first = journal.read(job)[0]
    assert (first.time, first.by) == ("2001-09-09T01:46:40Z", journal.user_name())
    assert first.arguments == '["example.org", "pattern:/old/"]' and 'site."example.org".block' in first.result


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("set", ["politeness.gap_host_seconds=-1"], "gap_host_seconds = -1.0: takes a number from 0"),
        ("set", ["scope.private_suffixes=true"], "scope.private_suffixes was false, now true: cannot change"),
        ("set", ["crawl.user_agent=me"], "carries no contact"),
        ("set", ["cluster.listen=127.0.0.1"], "cluster.listen = '127.0.0.1': takes HOST:PORT"),  # ended a running crawl
        ("set", ["cluster.listen=127.0.0.1:7117"], "no port is opened without a secret"),
        ("set", [f'archive.dedupe_from=["{__file__}"]'], "line 1 is not one of CDXJ"),
        ("set", ["scope.block_file=/none/such"], "scope.block_file = /none/such: cannot be read"),
        ("block", ["http://example.org/a"], "takes the name of a host or a site"),
        ("block", [f"{PATTERN}("], "scope.block: '(' is not an RE2 pattern"),
        ("unblock", ["example.org"], "no [site] section blocks it"),
        ("unpause", ["example.org"], "is not paused"),
        ("prefer", ["example.org", "99"], "priority 1.weight = 99: takes a whole number from -10 to 10"),
        ("block", [f"{PATTERN}a\tb"], 'scope.block = "a\\tb": takes printable text'),
        ("block", [f"{PATTERN}a\udcffb"], 'scope.block = "a\\udcffb": takes printable text'),
    ],
)
def test_what_a_start_would_refuse_changes_nothing(
    tmp_path: Path, name: str, arguments: list[str], message: str
) -> None:
    job = ours(tmp_path / "job")
    before = job.config_file.read_bytes()
    with pytest.raises(ConfigError) as refused:
        verb(job, name, *arguments)
    assert message in str(refused.value)
    assert job.config_file.read_bytes() == before
    assert journal.read(job)[-1].result.startswith("refused: ")


def test_a_rule_with_a_wrong_weight_does_not_end_the_crawl(tmp_path: Path) -> None:
    """`prefer --weight 99` wrote a configuration that killed every worker, and that no verb could read again."""
    job = ours(tmp_path / "job")
    with pytest.raises(ConfigError):
        verb(job, "prefer", "example.org", "99")
    verb(job, "prefer", "example.org", "10")
    assert [rule.weight for rule in load_stored(job.config_file).priority] == [10]


def test_who_paused_it_and_since_when_is_kept(tmp_path: Path) -> None:
    job = ours(tmp_path / "job")
    first = steer(job, "pause", ["a.test"], "ann", NOW)
    job.write_config(first.text)
    second = steer(job, "pause", [], "bob", NOW + 60, pauses=first.pauses)
    assert second.pauses == {"*": {"by": "bob", "since": NOW + 60}, "a.test": {"by": "ann", "since": NOW}}
    job.write_config(second.text)
    assert steer(job, "unpause", ["a.test"], "cid", NOW + 90, pauses=second.pauses).pauses == {
        "*": {"by": "bob", "since": NOW + 60}
    }


def test_comments_and_order_of_a_file_stay(tmp_path: Path) -> None:
    config = Config()
    text = "# mine\n" + to_toml(config).replace(
        "gap_host_seconds = 1.0", "gap_host_seconds = 1.0   # they asked for it"
    )
    config.politeness.gap_host_seconds, config.scope.exclude = 2.5, [r"\.pdf$", "#"]
    config.site["example.org"] = Site(block=True)
    changed = rewritten(text, config, CONFIG_HEADER)
    assert parse_stored(changed, "x") == config
    assert changed.startswith("# mine\n") and "gap_host_seconds = 2.5   # they asked for it\n" in changed
    config.site.clear()
    assert parse_stored(again := rewritten(changed, config, CONFIG_HEADER), "x") == config
    assert again.startswith("# mine\n") and "site." not in again
    odd = text.replace("include = []", "include = [\n]")
    config.scope.include = ["/a/"]
    assert parse_stored(rewritten(odd, config, CONFIG_HEADER), "x") == config
    assert parse_stored(rewritten("no = toml =", config, CONFIG_HEADER), "x") == config
