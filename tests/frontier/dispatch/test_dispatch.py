"""What happens to hosts that do not answer, do not resolve, close their robots.txt, or ask for patience; and that a
host in memory is one that can be asked before long (I4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.keys import name_key
from irlcrawl.base.reasons import Reason
from irlcrawl.base.url import host_of
from irlcrawl.config.keys import Site
from irlcrawl.frontier.dispatch.dns import Resolved
from irlcrawl.frontier.politeness.politeness import HostEntry, Politeness
from irlcrawl.worker.archive import log_parts
from tests.crawl.virtual_crawl import FAILED, GIVEN_UP, START, Answer, Crawl, Killed, Web, star

Make = Callable[..., Crawl]
ROBOTS = "http://a.test/robots.txt"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def crawl(web: Web, *seeds: str) -> Crawl:
        return Crawl(tmp_path / "job", web, list(seeds), monkeypatch)

    return crawl


def failing(reason: Reason) -> Callable[[str, float], Answer]:
    return lambda url, now: Answer(reason=reason)


def times(crawl: Crawl, url: str) -> list[float]:
    return [at - START for at, asked in crawl.web.log if asked == url]


# -- hosts that do not answer ------------------------------------------------------------------------------------------


def test_a_host_that_never_answered_is_given_up_with_all_its_urls(make: Make) -> None:
    web = Web()
    web.moods["a.test"] = failing(Reason.CONNECT)
    crawl = make(web, "http://a.test/", "http://a.test/1")
    assert crawl.run(hours=1) == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("failed", "connect")}
    assert len(crawl.outcomes()) == 2
    assert [url for _, url in web.log] == [ROBOTS] * GIVEN_UP


def test_urls_found_for_a_dead_host_leave_without_a_request(make: Make) -> None:
    web = Web(star("b.test", 40))
    web.page("http://b.test/39", ["http://a.test/late"])
    web.moods["a.test"] = failing(Reason.CONNECT)
    crawl = make(web, "http://a.test/", "http://b.test/")
    assert crawl.run(hours=1) == ExitCode.DONE
    assert crawl.outcomes()["http://a.test/late"] == ("failed", "connect")
    assert len(times(crawl, ROBOTS)) == GIVEN_UP


def test_a_dead_host_is_asked_once_more_when_it_was_dead_for_long(make: Make) -> None:
    web = Web(star("b.test", 40))
    web.page("http://b.test/39", ["http://a.test/late"])
    web.moods["a.test"] = failing(Reason.CONNECT)
    crawl = make(web, "http://a.test/", "http://b.test/")
    crawl.config.politeness.gap_host_seconds = 10.0
    assert crawl.run(hours=1) == ExitCode.DONE
    assert crawl.outcomes()["http://a.test/late"] == ("failed", "connect")
    assert len(times(crawl, ROBOTS)) == GIVEN_UP + 1


def test_a_host_that_answered_once_is_waited_for(make: Make) -> None:
    """Until host_dead_hours have passed in rests; then what waits fails without a request."""
    web = Web(star("a.test", 60))
    web.moods["a.test"] = lambda url, now: Answer(reason=Reason.CONNECT) if now > START + 3 else None
    crawl = make(web, "http://a.test/")
    crawl.config.politeness.host_dead_hours = 0.5
    assert crawl.run(hours=20) == ExitCode.DONE
    failed = [at - START for at, _ in web.log if at > START + 3]
    assert len(failed) == 13, "12 rests, and before them the end of a visit that had answers"
    assert failed[-1] - failed[0] >= 1800
    assert ("failed", "host_dead") in crawl.outcomes().values()
    assert len(crawl.outcomes()) == 61


def test_a_visit_that_got_an_answer_before_it_failed_is_no_silent_one(make: Make) -> None:
    """A host whose robots.txt answers but whose pages do not was taken for one that never answered, and given up after
    four visits; its URLs have their own tries."""
    web = Web()
    web.moods["a.test"] = lambda url, now: None if url == ROBOTS else Answer(reason=Reason.LOST)
    seeds = [f"http://a.test/{n}" for n in range(6)]
    crawl = make(web, *seeds)
    crawl.config.politeness.host_dead_hours = 10.0
    assert crawl.run(hours=5) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(seeds, ("failed", "lost"))
    assert web.pages_asked == dict.fromkeys(seeds, FAILED)


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_name_that_does_not_exist_is_given_up_like_a_host(make: Make) -> None:
    web = Web(star("b.test", 5))
    web.page("http://b.test/4", ["http://a.test/late"])
    crawl = make(web, "http://a.test/", "http://b.test/")
    crawl.names.answers["a.test"] = Reason.DNS
    assert crawl.run(hours=1) == ExitCode.DONE
    outcomes = crawl.outcomes()
    assert outcomes["http://a.test/"] == outcomes["http://a.test/late"] == ("failed", "dns")
    assert crawl.names.asked["a.test"] == GIVEN_UP
    assert not times(crawl, ROBOTS)


def test_an_address_that_is_not_allowed_is_its_own_reason(make: Make) -> None:
    crawl = make(Web(), "http://a.test/")
    crawl.names.answers["a.test"] = Reason.ADDRESS
    assert crawl.run(hours=1) == ExitCode.DONE
    assert crawl.outcomes() == {"http://a.test/": ("failed", "address")}


@pytest.mark.parametrize("failures", [1, 3, 4, 100])
def test_a_name_server_that_does_not_answer_is_asked_again(make: Make, failures: int) -> None:
    crawl = make(Web(star("a.test", 0)), "http://a.test/")
    crawl.names.answers["a.test"] = failures
    assert crawl.run(hours=1) == ExitCode.DONE
    assert crawl.outcomes() == {"http://a.test/": ("fetched", "ok") if failures < GIVEN_UP else ("failed", "dns")}
    assert crawl.names.asked["a.test"] == min(failures + 1, GIVEN_UP)


def test_a_resolver_that_breaks_ends_the_crawl_with_its_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host would wait for an address for ever, and the crawl with it."""

    async def broken(name: str) -> Resolved:
        raise RuntimeError(f"no way to ask for {name}")

    crawl = make(Web(star("a.test", 0)), "http://a.test/")
    monkeypatch.setattr(crawl.names, "resolve", broken)
    with pytest.raises(RuntimeError, match=r"no way to ask for a\.test"):
        crawl.run(hours=1)


# -- robots.txt --------------------------------------------------------------------------------------------------------


def closed_for(refusals: int) -> Callable[[str, float], Answer | None]:
    """robots.txt answers 500 so many times."""
    left = [refusals]

    def mood(url: str, now: float) -> Answer | None:
        left[0] -= url.endswith("/robots.txt")
        return Answer(500) if url.endswith("/robots.txt") and left[0] >= 0 else None

    return mood


@pytest.mark.parametrize("refusals", [1, 3, 100])
def test_a_closed_robots_txt_rests_on_the_disk(make: Make, refusals: int) -> None:
    web = Web(star("a.test", 0))
    web.moods["a.test"] = closed_for(refusals)
    crawl = make(web, "http://a.test/")
    rests = []

    async def look(crawl: Crawl) -> None:
        await asyncio.sleep(4)
        assert crawl.loop is not None
        rests.append((len(crawl.loop.dispatcher.hosts), crawl.loop.state.rests.rows))

    assert crawl.run(look, hours=10) == ExitCode.DONE
    assert rests == [(0, 1)]
    asked = times(crawl, ROBOTS)
    for number, (earlier, later) in enumerate(pairwise(asked)):
        assert later - earlier >= 5.0 * 2**number
    given_up = refusals >= GIVEN_UP
    assert crawl.outcomes()["http://a.test/"] == (("excluded", "robots_unreachable") if given_up else ("fetched", "ok"))
    assert len(asked) == min(refusals + 1, GIVEN_UP)


def test_urls_that_waited_for_robots_txt_count_for_the_quota(make: Make) -> None:
    """Back from a rest they passed for URLs that the quota had let through before."""
    web = Web(star("a.test", 0) | star("b.test", 20))
    web.page("http://b.test/19", [f"http://a.test/{n}" for n in range(20)])
    web.moods["a.test"] = closed_for(2)
    crawl = make(web, "http://a.test/", "http://b.test/")
    crawl.config.limits.pages_per_host = 5
    web.answers["http://b.test/"] = Answer(200, {"content-type": "text/html"}, b'<a href="/19">x</a>')
    assert crawl.run(hours=10) == ExitCode.DONE
    asked = [url for url in web.pages_asked if url.startswith("http://a.test/")]
    assert len(asked) == 5
    assert list(crawl.outcomes().values()).count(("excluded", "quota_host")) == 16


# -- visits that end early ---------------------------------------------------------------------------------------------


def test_urls_a_visit_did_not_reach_come_back_in_order(make: Make) -> None:
    """A visit of many URLs ends at the first 503; the others stay next in their run, and each is asked for once."""
    web = Web(star("a.test", 40))
    throttled: list[str] = []

    def mood(url: str, now: float) -> Answer | None:
        if url.endswith(("7", "18")) and url not in throttled:
            throttled.append(url)
            return Answer(503, {"retry-after": "20"})
        return None

    web.moods["a.test"] = mood
    crawl = make(web, "http://a.test/")
    crawl.config.politeness.gap_host_seconds = crawl.config.politeness.gap_address_seconds = 0.0
    assert crawl.run(hours=1) == ExitCode.DONE
    assert set(crawl.outcomes().values()) == {("fetched", "ok")}
    assert set(crawl.outcomes()) == set(web.answers)
    assert len(throttled) == 5
    assert web.pages_asked == {url: 1 + (url in throttled) for url in web.answers}
    first = list(dict.fromkeys(url for _, url in web.log))
    assert first == [ROBOTS, *web.answers], "best first, then as found"


# -- patience ----------------------------------------------------------------------------------------------------------


def test_i4_a_host_that_asks_for_patience_leaves_memory_and_stays_out(make: Make) -> None:
    """I4: URLs found later for a host whose time lies beyond the horizon brought it back into memory, to wait there."""
    web = Web(star("b.test", 60) | star("a.test", 3))
    for number in range(60):
        web.page(f"http://b.test/{number}", [f"http://a.test/more{number}"])
    web.moods["a.test"] = lambda url, now: (
        Answer(429, {"retry-after": "5000"}) if now < START + 4000 and url != ROBOTS else None
    )
    crawl = make(web, "http://b.test/", *(f"http://a.test/{n}" for n in range(3)), "http://a.test/")
    seen = []

    async def look(crawl: Crawl) -> None:
        await asyncio.sleep(200)
        assert crawl.loop is not None
        seen.append([host.name for host in crawl.loop.dispatcher.hosts.values()])
        assert crawl.loop.state.rests.rows > 30

    assert crawl.run(look, hours=10) == ExitCode.DONE
    assert seen == [[]]
    asked = [at - START for at, url in web.log if "a.test" in url]
    assert not [at for at in asked if 10 < at < 5000]
    assert set(crawl.outcomes()) >= set(web.answers) | {f"http://a.test/more{n}" for n in range(60)}


def test_i4_no_more_hosts_in_memory_than_allowed(make: Make) -> None:
    """I4: hosts_active_max holds while many more hosts have URLs, and all of them get their turn."""
    names = [f"h{n}.test" for n in range(100)]
    web = Web({url: links for name in names for url, links in star(name, 2).items()})
    crawl = make(web, *(f"http://{name}/" for name in names))
    crawl.config.frontier.hosts_active_max = 16
    most = 0

    def on_request(url: str) -> None:
        nonlocal most
        assert crawl.loop is not None
        most = max(most, len(crawl.loop.dispatcher.hosts))

    crawl.on_request = on_request
    assert crawl.run(hours=10) == ExitCode.DONE
    assert most <= 16
    assert set(crawl.outcomes()) == set(web.answers)


# -- robots.txt on another host ----------------------------------------------------------------------------------------


def redirecting(target: str) -> Callable[[str, float], Answer | None]:
    return lambda url, now: Answer(301, {"location": target}) if url == ROBOTS else None


def test_a_detour_whose_name_is_not_found_after_its_visit_ended(make: Make) -> None:
    """The resolver answers a minute later with a failure: there is nobody left to refuse the detour to."""
    web = Web(star("a.test", 1) | star("b.test", 100))
    web.moods["a.test"] = redirecting("http://slow.test/robots.txt")
    crawl = make(web, "http://a.test/", "http://b.test/")
    crawl.names.answers["slow.test"] = Reason.DNS
    crawl.names.seconds["slow.test"] = 45.0
    assert crawl.run(hours=10) == ExitCode.DONE
    assert len([url for url in web.pages_asked if "b.test" in url]) == 101
    assert crawl.outcomes()["http://a.test/"][0] != "fetched"


@pytest.mark.parametrize("death", [1.05, 1.2, 2.6])
def test_a_detour_of_a_dead_worker_is_free_again(make: Make, death: float) -> None:
    web = Web(star("a.test", 1) | star("b.test", 3), fetch_s=1.0)
    web.moods["a.test"] = redirecting("http://b.test/robots.txt")
    crawl = make(web, "http://a.test/", "http://b.test/")

    async def kill(crawl: Crawl) -> None:
        await asyncio.sleep(death)
        crawl.kill_worker(min(crawl.running))

    assert crawl.run(kill, hours=1) == ExitCode.DONE
    assert set(crawl.outcomes()) == set(web.answers)
    assert crawl.loop is not None
    assert not crawl.loop.dispatcher.detours._open
    assert crawl.loop.dispatcher.politeness.leased == 0


def test_a_detour_to_another_site_passed_by_the_clock_of_that_site(make: Make) -> None:
    web = Web(star("a.one.test", 1) | star("docs.two.test", 20))
    web.moods["a.one.test"] = lambda url, now: (
        Answer(301, {"location": "http://www.two.test/robots.txt"}) if url.endswith("/robots.txt") else None
    )
    crawl = make(web, "http://a.one.test/", "http://docs.two.test/")
    crawl.config.politeness.gap_site_seconds = 7.0
    assert crawl.run(hours=1) == ExitCode.DONE
    asked = [at for at, url in web.log if ".two.test/" in url]
    assert "http://www.two.test/robots.txt" in [url for _, url in web.log]
    assert min(later - at for at, later in pairwise(asked)) >= 7.0


@pytest.mark.parametrize("status", [429, 503])
def test_a_detours_host_was_asked_on_although_it_had_told_a_retry_after(make: Make, status: int) -> None:
    web = Web(star("a.test", 1) | star("b.test", 20))
    web.moods["a.test"] = redirecting("http://b.test/rules")
    web.moods["b.test"] = lambda url, now: (
        Answer(status, {"retry-after": "300"}) if url.endswith("/rules") and now < START + 100 else None
    )
    crawl = make(web, "http://b.test/", "http://a.test/")
    assert crawl.run(hours=2) == ExitCode.DONE
    refused = times(crawl, "http://b.test/rules")[0]
    after = [at - START - refused for at, url in web.log if "//b.test/" in url and at - START > refused]
    assert min(after) >= 300 and set(crawl.outcomes()) == set(web.answers)


@pytest.mark.parametrize("status", [403, 500, 502])
def test_a_robots_txt_with_a_retry_after_closes_its_host_for_so_long(make: Make, status: int) -> None:
    web = Web(star("a.test", 3))
    web.moods["a.test"] = lambda url, now: (
        Answer(status, {"retry-after": "3600"}) if url == ROBOTS and now < START + 100 else None
    )
    crawl = make(web, "http://a.test/")
    assert crawl.run(hours=9) == ExitCode.DONE
    asked = [at - START for at, _ in web.log]
    assert min(asked[1:]) >= 3600 and set(crawl.outcomes()) == set(web.answers)


def test_a_detour_long_ago_eased_the_back_off_of_a_host(make: Make) -> None:
    """It was taken for a visit in which all went well."""
    politeness = make(Web(), "http://a.test/").config.politeness
    polite = Politeness(VirtualClock(START), politeness)
    host = HostEntry(key=1, name="b.test", scheme="http", port=80, site=2, address="10.0.0.1", address_until=9e9)
    host.crawl_delay = 40.0
    for _ in range(5):
        polite.observe(clock_host=host.clock_host, address=None, site=0, ended=START, outcome="throttled")
    polite.activate(host)
    before = polite.gap_for(host), polite.due(host)
    polite.deactivate(host)
    polite.keep_delay(host, START - 1000)
    polite.activate(host)
    assert (polite.gap_for(host), polite.due(host)) == before
    polite.deactivate(host)
    polite.keep_delay(host, before[1])
    polite.activate(host)
    assert polite.due(host) == before[1] + 40.0


def test_a_crawl_delay_that_came_to_memory_after_a_detour_did_not_hold_from_it(make: Make) -> None:
    web = Web({"http://b.test/": [], "http://b.test/new": [], "http://a.test/": []})
    web.answers["http://b.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nCrawl-delay: 40\n")
    web.answers["http://b.test/rules"] = Answer(200, {}, b"User-agent: *\nDisallow: /no\n")
    crawl = make(web, "http://b.test/")
    assert crawl.run(hours=1) == ExitCode.DONE
    web.log.clear()
    web.moods["a.test"] = redirecting("http://b.test/rules")
    web.page("http://a.test/", ["http://b.test/new"])
    crawl.seeds, crawl.again = ["http://a.test/"], True
    assert crawl.run(hours=1) == ExitCode.DONE
    (rules,), (page,) = times(crawl, "http://b.test/rules"), times(crawl, "http://b.test/new")
    assert page - rules >= 40


def test_a_detour_asked_a_site_of_which_a_list_is_out(make: Make) -> None:
    web = Web(star("a.test", 1) | star("c.test", 30))
    web.moods["a.test"] = redirecting("http://www.lent.test/robots.txt")
    crawl = make(web, "http://a.test/", "http://c.test/")
    lent = {name_key(b"lent.test")}

    async def lend(crawl: Crawl) -> None:
        assert crawl.loop is not None
        crawl.loop.dispatcher.lent = lent
        await asyncio.sleep(200)
        assert not [url for _, url in web.log if "lent.test" in url]
        crawl.loop.dispatcher.lent = set()

    assert crawl.run(lend, hours=2) == ExitCode.DONE
    assert times(crawl, "http://www.lent.test/robots.txt") and web.pages_asked["http://a.test/"] == 1


def test_robots_txts_that_redirect_to_a_host_took_all_of_its_time(make: Make) -> None:
    """A hundred hosts of others led there: its own URLs came after all of them, and the visits that waited for their
    turn left no place for other hosts."""
    web = Web(star("good.test", 60) | star("c.test", 60))
    evil = [f"e{number}.test" for number in range(100)]
    for host in evil:
        web.page(f"http://{host}/")
        web.answers[f"http://{host}/robots.txt"] = Answer(302, {"location": f"http://good.test/robots.txt?{host}"})
    crawl = make(web, *(f"http://{host}/" for host in ["good.test", "c.test", *evil]))
    crawl.config.fetch.visits_per_worker = 16
    assert crawl.run(hours=2) == ExitCode.DONE
    assert set(crawl.outcomes()) == set(web.answers) - {f"http://{host}/robots.txt" for host in evil}
    own = [at - START for at, url in web.log if url.startswith("http://good.test/") and "?" not in url]
    others = [at - START for at, url in web.log if url.startswith("http://c.test/")]
    assert own[-1] - own[0] <= 62 / 0.85 and others[-1] - others[0] <= 63
    assert sum("?" in url for _, url in web.log) == len(evil)


def test_hosts_of_a_site_that_share_a_robots_txt_take_turns_with_its_pages(make: Make) -> None:
    web = Web(star("www.good.test", 60))
    others = [f"u{number}.good.test" for number in range(20)]
    for host in others:
        web.page(f"http://{host}/")
        web.answers[f"http://{host}/robots.txt"] = Answer(302, {"location": f"http://www.good.test/robots.txt?{host}"})
    crawl = make(web, *(f"http://{host}/" for host in ["www.good.test", *others]))
    assert crawl.run(hours=2) == ExitCode.DONE
    asked = [url for _, url in web.log if url.startswith("http://www.good.test/")]
    assert len(asked) == 61 + 1 + len(others)
    assert sum("?" in url for url in asked[:30]) <= 16
    assert web.log[-1][0] - START < 120


def test_hosts_of_a_site_stood_in_one_line_with_strangers_to_it(make: Make) -> None:
    """Where a host is called as its site: strangers, who may take a tenth of its time, took half, or its own hosts came
    behind all of them."""
    web = Web(star("good.test", 60))
    own, strangers = [f"u{number}.good.test" for number in range(10)], [f"e{number}.test" for number in range(30)]
    for host in own + strangers:
        web.page(f"http://{host}/")
        web.answers[f"http://{host}/robots.txt"] = Answer(302, {"location": f"http://good.test/robots.txt?{host}"})
    crawl = make(web, *(f"http://{host}/" for host in ["good.test", *strangers, *own]))
    assert crawl.run(hours=2) == ExitCode.DONE
    ends = {url: at - START for at, url in web.log}
    assert max(ends[f"http://{host}/"] for host in own) < 60 < max(ends[f"http://{host}/"] for host in strangers)


# -- hosts that are blocked --------------------------------------------------------------------------------------------


def test_urls_of_a_site_that_is_blocked_when_a_crawl_goes_on_left_their_runs_only_by_requests(make: Make) -> None:
    """A webmaster complains, [site."a.test"] gets block = true: pages that lay in runs were still asked for."""
    crawl = make(Web({**star("a.test", 30), **star("www.a.test", 30), **star("b.test", 5)}))
    crawl.seeds = ["http://a.test/", "http://www.a.test/", "http://b.test/"]
    crawl.on_request = lambda url: crawl.kill() if url == "http://www.a.test/7" else None
    with pytest.raises(Killed):
        crawl.run(hours=1)
    crawl.on_request = lambda url: None
    before = len(crawl.web.log)
    crawl.config.site["a.test"] = Site(block=True)
    assert crawl.run(hours=1) == ExitCode.DONE
    assert {host_of(url.encode()) for _, url in crawl.web.log[before:]} <= {"b.test"}
    outcomes = crawl.outcomes()
    assert len(outcomes) == 31 + 31 + 6
    assert {outcome for url, outcome in outcomes.items() if "b.test" in url} == {("fetched", "ok")}
    blocked = Counter(outcome for url, outcome in outcomes.items() if "a.test" in url)
    assert set(blocked) == {("fetched", "ok"), ("excluded", "blocked")} and blocked["excluded", "blocked"] > 40


def test_a_robots_txt_that_redirects_to_a_blocked_host_was_asked_for_there(make: Make) -> None:
    web = Web(star("a.test", 3))
    web.answers[ROBOTS] = Answer(301, {"Location": "http://b.test/robots.txt"})
    crawl = make(web, "http://a.test/")
    crawl.config.site["b.test"] = Site(block=True)
    assert crawl.run(hours=100) == ExitCode.DONE
    assert crawl.outcomes() == {"http://a.test/": ("excluded", "robots_unreachable")}
    assert {url for _, url in web.log} == {ROBOTS}


# -- who goes first ----------------------------------------------------------------------------------------------------


def test_home_pages_waited_behind_the_pages_of_all_hosts_that_came_before(make: Make) -> None:
    """One visit at a time, forty hosts that may be asked: every other visit is for a home page while there are some."""
    pages, homes = [f"http://h{n}.test/page" for n in range(30)], [f"http://z{n}.test/" for n in range(10)]
    web = Web({"http://hub.test/": [*pages, *homes]})
    crawl = make(web, "http://hub.test/")
    crawl.config.scope.kind, crawl.config.scope.depth_max = "any", 1
    crawl.config.crawl.workers = crawl.config.fetch.visits_per_worker = 1
    assert crawl.run(hours=1) == ExitCode.DONE
    asked = [url for _, url in web.log if not url.endswith("/robots.txt")][1:]
    assert sorted(asked) == sorted([*pages, *homes])
    assert max(asked.index(url) for url in homes) <= 24
    assert min(asked.index(url) for url in pages) <= 1, "no page waits for all of them"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_robots_txt_at_a_host_that_is_asked_seldom_closed_the_hosts_that_lead_there(make: Make, workers: int) -> None:
    """A slow site's www, or its http, has a robots.txt that redirects to a host whose next request is always more than
    half a minute ahead. That was taken for a robots.txt that cannot be had, and in the end the URLs were lost."""
    web = Web(star("a.test", 60) | {f"http://www.a.test/{number}": [] for number in range(3)})
    web.moods["www.a.test"] = lambda url, now: (
        Answer(301, {"location": "http://a.test/robots.txt"}) if url == "http://www.a.test/robots.txt" else None
    )
    crawl = make(web, *web.answers)
    crawl.workers, crawl.config.politeness.gap_host_seconds = workers, 100.0
    assert crawl.run(hours=10) == ExitCode.DONE
    assert crawl.outcomes() == dict.fromkeys(web.answers, ("fetched", "ok"))
    asked = [url for _, url in web.log]
    assert asked.count("http://www.a.test/robots.txt") <= workers
    assert asked.count("http://a.test/robots.txt") == 2, "its own, and the one that www leads to"
    seldom = [at for at, url in web.log if url.startswith("http://a.test/")]
    assert all(later - earlier >= 100 for earlier, later in pairwise(seldom))


def test_a_robots_txt_that_redirects_to_a_host_with_a_crawl_delay_did_not_keep_that(make: Make) -> None:
    """That of a site's www led to the site's own host, which was asked twice more, and then for a page, all within the
    gap of hosts that say nothing."""
    web = Web(star("a.test", 6) | star("www.a.test", 3))
    web.answers["http://a.test/robots.txt"] = Answer(301, {"location": "http://a.test/rules"})
    web.answers["http://a.test/rules"] = Answer(200, {}, b"User-agent: *\nCrawl-delay: 20\n")
    web.answers["http://www.a.test/robots.txt"] = Answer(301, {"location": "http://a.test/robots.txt"})
    crawl = make(web, "http://a.test/", "http://www.a.test/")
    assert crawl.run(hours=10) == ExitCode.DONE
    assert {outcome for outcome, _ in crawl.outcomes().values()} == {"fetched"}
    learnt = next(at for at, url in web.log if url == "http://a.test/rules")
    asked = [at for at, url in web.log if url.startswith("http://a.test/") and at >= learnt]
    assert len(asked) == 1 + 2 + 7, "the rules, both redirects of www, and the pages"
    assert min(later - earlier for earlier, later in pairwise(asked)) >= 20
    read = [
        entry for entry in log_parts.read(Files(), str(crawl.job().crawl_log)) if entry.url == b"http://a.test/rules"
    ]
    assert [(entry.notes.get("crawl_delay"), entry.notes.get("robots_of")) for entry in read] == [
        ("20", None), (None, "another")
    ]  # fmt: skip
