"""The weather over the simulated web: the same whenever it is asked, with the shares it was given."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from drum.ragged import Ragged

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from tools.simweb.mix import mix, normal, uniform
from tools.simweb.params import Params
from tools.simweb.truth import NOWHERE, Section, page_number
from tools.simweb.weather import CALM, Reply, Verdict, Weather, WeatherParams
from tools.simweb.weather_hosts import Fate, Hosting, RobotsState
from tools.simweb.weather_spells import Interval, Spell, after, bell, both, fraction, hashed, without
from tools.simweb.weather_urls import page_of
from tools.simweb.web import Web

ROOT = Path(__file__).resolve().parents[2]
START = 1_700_000_000.0
DAY, WEEK = 86_400.0, 604_800.0
WEB = Web(Params(seed=4, pages_nominal=2_000_000))
WEATHER = Weather(WEB, WeatherParams(), START)
NO_SPELLS = {name: getattr(CALM, name) for name in ("blips", "outages", "absences", "name_spells", "address_spells",
                                                    "robots_spells")}  # fmt: skip


def weather(**changes: Any) -> Weather:
    """Calm but for some things."""
    return Weather(WEB, dataclasses.replace(CALM, sound_sites=0.0, **changes), START)


def home_names(over: Weather, count: int = 3_000) -> list[bytes]:
    """Names of first hosts of good sites."""
    sites = np.arange(min(count, over.web.good_sites), dtype=np.uint64)
    names = over.web.names.host_names(sites << np.uint64(32)).tolist()
    over.meet(names)
    return names


def home_urls(over: Weather, count: int = 3_000) -> list[bytes]:
    home_names(over, count)
    sites = np.arange(min(count, over.web.good_sites))
    return over.web.urls(page_number(sites, Section.PAGES, np.zeros(len(sites), np.int64))).tolist()


def get(over: Weather, url: bytes, at: float = START, load: float = 0.0) -> Reply:
    found = over.resolve(url.split(b"/")[2], at)
    return over.answer(url, (found and found.address) or "240.0.0.0", at, load)


def share(of: list[bool]) -> float:
    return sum(of) / len(of)


def near(wanted: float, count: int) -> object:
    """Within four standard deviations of a share of so many."""
    return pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / count) + 1e-9)


# One at a time is what columns are


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4), st.integers(0, 2**63))
def test_one_hash_is_a_row_of_a_column_of_hashes(numbers: list[int], salt: int) -> None:
    row = mix(salt, *(np.array([n], np.uint64) for n in numbers))
    x = hashed(salt, *numbers)
    assert x == int(row[0])
    assert fraction(x) == float(uniform(row)[0])
    assert bell(x) == pytest.approx(float(normal(row)[0]))


def test_one_url_is_read_as_columns_read_it() -> None:
    sites = np.arange(0, WEB.sites, 7)
    pages = page_number(sites, Section.PAGES, (sites * 7_919) % WEB.size(sites))
    targets = np.unique(WEB.links(pages).targets)[::40]
    urls = WEATHER.web.urls(targets).tolist()
    assert len(urls) > 250
    WEATHER.meet([url.split(b"/")[2] for url in urls])
    strange = itertools.cycle([
        lambda path: path + b"x", lambda path: path.replace(b".html", b".htm"), lambda path: path.replace(b"e", b"o"),
        lambda path: b"/about" + path, lambda path: path.replace(b"-", b"-z"),
    ])  # fmt: skip
    for page, url in zip(targets.tolist(), urls):
        name, path = url.split(b"/", 3)[2], b"/" + url.split(b"/", 3)[3]
        found = WEATHER._host(name)
        assert found is not None and found[1] and page_of(WEATHER.web, found[0].area, path) == page
        wrong = next(strange)(path)
        other = WEATHER.web.pages(Ragged.from_list([url[: -len(path)] + wrong]))[0]
        assert page_of(WEATHER.web, found[0].area, wrong) == (None if other == NOWHERE else other), wrong


def test_what_a_page_answers_for_good_is_what_columns_say() -> None:
    over = weather(missing_share=0.1, moved_share=0.1, page_broken_share=0.05)
    pages = np.unique(over.web.links(over.web.seeds(30)).targets)
    answers = over.web.answers(pages)
    told: Counter[int] = Counter()
    for row, url in enumerate(over.web.urls(pages).tolist()):
        reply = get(over, url)
        assert reply.status == answers["status"][row]
        assert reply.content == answers["content"][row]
        if reply.status == 301:
            assert dict(reply.header)["Location"].encode() == over.web.urls(answers["location"][row : row + 1])[0]
        told[reply.status] += 1
    assert set(told) == {200, 301, 404, 500}


# Spells

SPELLS = st.builds(
    lambda chance, every, shortest, longest: Spell(
        chance, float(every), every * min(shortest, longest), every * max(shortest, longest)
    ),
    st.floats(0, 1), st.integers(10, 400), st.floats(0.01, 1), st.floats(0.01, 1),
)  # fmt: skip


@given(SPELLS, st.integers(0, 2**64 - 1), st.integers(-1_000, 1_000), st.integers(1, 500))
def test_the_spells_of_a_time_are_those_of_its_moments(spell: Spell, key: int, since: int, length: int) -> None:
    inside = list(spell.within(7, key, since, since + length))
    moments = list(range(since, since + length))
    random.Random(key).shuffle(moments)
    for moment in moments:
        found = spell.at(7, key, moment)
        covering = [one for one in inside if one[0] <= moment < one[1]]
        assert (found in covering) if covering else found is None


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda p: (p[0], p[0] + p[1])), max_size=6)


@given(INTERVALS, INTERVALS, st.integers(0, 30))
def test_intervals_are_sets_of_moments(left: list[Interval], right: list[Interval], more: int) -> None:
    def moments(intervals: list[Interval]) -> set[int]:
        return {m for a, b in intervals for m in range(int(a), int(b))}

    free, other = without([(0, 70)], left), without([(0, 70)], right)
    assert moments(free) == set(range(70)) - moments(left)
    assert moments(both(free, other)) == moments(free) & moments(other)
    later = {m + step for m in moments(free) for step in range(more + 1) if m + step < 65}
    assert moments(after(free, more, 65)) & set(range(65)) == later


def test_hosts_are_down_as_long_as_the_spells_say() -> None:
    outages = Spell(0.5, DAY, 600.0, 6 * 3_600.0)
    over = weather(outages=outages)
    urls = home_urls(over, 400)
    times = [START + DAY * day + 3_600.0 * hour for day in (3, 17) for hour in range(24)]
    bad = [get(over, url, at).passing for url in urls for at in times]
    assert share(bad) == pytest.approx(outages.share(), rel=0.1)


def test_a_host_that_was_down_for_an_hour_answers_after() -> None:
    over = weather(outages=Spell(1.0, WEEK, 3_600.0, 3_600.0))
    seen: Counter[int] = Counter()
    for url in home_urls(over, 60):
        host = over._host(url.split(b"/")[2])
        assert host is not None
        begin, end, _ = next(iter(over.params.outages.within(over._names["outages"], host[0].key, 0.0, WEEK)))
        assert end - begin == 3_600
        before, first, last, later = (get(over, url, START + at) for at in (begin - 1, begin, end - 1, end))
        if begin > 0:
            assert before.status == 200
        assert later.status == 200
        assert first.status == last.status and first.passing and last.passing
        seen[first.status] += 1
    assert set(seen) > {-2, -4, 503}


def test_the_same_answer_comes_in_any_order_and_from_another_weather() -> None:
    urls = home_urls(WEATHER, 200)
    asked = [(url, START + moment * 977.0) for moment, url in enumerate(urls * 3)]
    shuffled = random.Random(1).sample(asked, len(asked))
    again = Weather(Web(WEB.params), WeatherParams(), START)

    def told(over: Weather, url: bytes, at: float) -> tuple[object, ...]:
        reply = get(over, url, at)
        found = over.resolve(url.split(b"/")[2], at)
        return found, reply.status, reply.seconds, reply.header, reply.body_bytes, reply.content

    first = {one: told(WEATHER, *one) for one in asked}
    assert {one: told(again, *one) for one in shuffled} == first


# Shares


def test_hosts_have_the_fates_they_should() -> None:
    over = Weather(WEB, dataclasses.replace(WeatherParams(), **NO_SPELLS, death_per_day=0.0, sound_sites=0.0), START)
    p, names = over.params, home_names(over)
    fates = Counter(over._host(name)[0].fate for name in names)  # type: ignore[index]
    shares = {
        Fate.UNKNOWN: p.unknown_share, Fate.LAME: p.lame_share, Fate.REFUSED: p.refused_share,
        Fate.SILENT: p.silent_share, Fate.BROKEN: p.broken_share, Fate.CHALLENGE: p.challenge_share,
        Fate.PARKED: p.parked_share,
    }  # fmt: skip
    for fate, wanted in shares.items():
        assert fates[fate] / len(names) == near(wanted, len(names)), fate
    resolutions = [over.resolve(name, START + 5.0) for name in names]
    assert share([r is not None and r.permanent for r in resolutions]) == near(p.unknown_share, len(names))
    assert share([r is None for r in resolutions]) == near(p.lame_share, len(names))
    statuses = Counter(get(over, url).status for url in home_urls(over))
    alive = statuses.total() - statuses[-1]
    assert statuses[-4] / alive == near(p.silent_share / (1 - p.unknown_share - p.lame_share), alive)
    blocked = statuses[403] + statuses[503]
    # Certificates that do not hold come before it, and pages fail in passing.
    assert blocked / alive == pytest.approx(p.challenge_share / (1 - p.unknown_share - p.lame_share), rel=0.2)


def test_robots_txt_is_what_it_should_be() -> None:
    over = weather(robots_missing_share=0.3, robots_forbidden_share=0.1, robots_broken_share=0.1,
                   robots_silent_share=0.05, robots_redirect_share=0.1, robots_html_share=0.1)  # fmt: skip
    urls = home_urls(over)
    honeypots = over.web.trap(np.arange(len(urls))) == Section.HONEYPOT  # which always have a file
    plain = [url for url, honeypot in zip(urls, honeypots) if not honeypot]
    answers = [get(over, url + b"robots.txt") for url in plain]
    told = Counter(answer.status for answer in answers)
    for status, wanted in {404: 0.3, 403: 0.1, 500: 0.1, -4: 0.05, 302: 0.1, 200: 0.35}.items():
        assert told[status] / len(plain) == near(wanted, len(plain)), status
    files = [a for a in answers if a.status == 200]
    assert share([b"<title>" in (a.robots or b"") for a in files]) == near(0.1 / 0.35, len(files))
    for answer in answers:
        if answer.status == 302:
            assert get(over, dict(answer.header)["Location"].encode()).robots


def test_pages_fail_for_a_minute_and_not_the_next() -> None:
    over = weather(page_passing_share=0.2)
    url = home_urls(over, 1)[0]
    minutes = [get(over, url, START + 60.0 * minute + 59.0) for minute in range(2_000)]
    assert share([reply.passing for reply in minutes]) == near(0.2, 2_000)
    assert {r.status for r in minutes} == {200, 500, 502, 503, 504, -3, -4}
    assert [get(over, url, START + 60.0 * minute).status for minute in range(50)] == [r.status for r in minutes[:50]]


def test_hosts_end_and_stay_so() -> None:
    over = weather(death_per_day=0.02)
    urls = home_urls(over, 2_000)
    gone = [[(found := over.resolve(url.split(b"/")[2], START + day * DAY)) is not None and found.permanent
             for url in urls] for day in (10, 30)]  # fmt: skip
    for day, there in zip((10, 30), gone):
        assert share(there) == near(1 - math.exp(-0.02 * day), len(urls))
    assert all(later for earlier, later in zip(*gone) if earlier)
    assert get(over, urls[gone[1].index(True)], START + 30 * DAY).status == -2  # who kept the address is refused


def test_soft_404s_and_parked_hosts_show_one_page_under_every_url() -> None:
    over = weather(parked_share=0.5, soft_missing_share=1.0, missing_share=0.5)
    contents: dict[bytes, set[int]] = {}
    for url in home_urls(over, 150):
        replies = [get(over, url + path) for path in (b"no-such-page", b"no/such/page?at=all")]
        assert {reply.status for reply in replies} == {200} and not any(reply.links() for reply in replies)
        contents[url] = {reply.content for reply in replies}
    assert {len(some) for some in contents.values()} == {1}
    counts = Counter(content for some in contents.values() for content in some)
    assert counts.most_common(1)[0][1] > 5 and len(counts) > 50  # parking has a few templates, soft 404s one a site


# Throttling


def test_a_server_refuses_above_what_it_bears_and_not_below() -> None:
    over = weather(throttle_share=0.5, throttle_after_share=0.5, throttle_503_share=0.3)
    urls = home_urls(over, 1_500)
    bounds = [over.bears(url.split(b"/")[2]) for url in urls]
    assert share([math.isfinite(bound) for bound in bounds]) == near(0.5, len(urls))
    told: Counter[int] = Counter()
    later = []
    for url, bound in zip(urls, bounds):
        assert get(over, url, load=min(bound, 1e6)).status == 200
        if math.isfinite(bound):
            reply = get(over, url, START, bound * 1.01)
            told[reply.status] += 1
            later.append(dict(reply.header).get("Retry-After"))
            assert reply.passing
    assert set(told) == {429, 503}
    assert told[503] / told.total() == near(0.3, told.total())
    assert share([value is not None for value in later]) == near(0.5, len(later))
    dates = [value for value in later if value is not None and "GMT" in value]
    assert dates and all(value.isdigit() for value in later if value is not None and "GMT" not in value)


def test_an_address_refuses_too() -> None:
    over = weather(hosting_bears=5.0, hosting_share=1.0, network_share=0.0, builder_share=0.0, wide_share=0.0)
    url = home_urls(over, 1)[0]
    found = over.resolve(url.split(b"/")[2], START)
    assert found is not None and found.address is not None and over.bears_address(found.address) == 5.0
    assert over.answer(url, found.address, START, 1.0, 5.0).status == 200
    assert over.answer(url, found.address, START, 1.0, 5.1).status == 429


def test_a_server_slows_as_its_load_nears_what_it_bears() -> None:
    over = weather(throttle_share=1.0)
    url = home_urls(over, 1)[0]
    bound = over.bears(url.split(b"/")[2])
    times = [get(over, url, load=bound * part).seconds for part in (0.0, 0.5, 0.8, 1.0)]
    assert times == sorted(times) and times[-1] > 2 * times[0]


def test_latency_and_size_are_spread_as_they_should() -> None:
    over = weather(slow_share=0.1, slow_factor=1_000.0)
    p = over.params
    hosts = [over._host(name)[0] for name in home_names(over)]  # type: ignore[index]
    paces = np.array([host.pace for host in hosts])
    slow = paces > 100.0
    assert slow.mean() == near(0.1, len(hosts))
    assert np.median(paces[~slow]) == pytest.approx(p.latency_median, rel=0.1)
    assert np.log(paces[~slow]).std() == pytest.approx(p.latency_sigma, rel=0.1)
    replies = [get(over, url) for url in home_urls(over, 1_500)]
    sizes = np.array([reply.body_bytes for reply in replies])
    assert np.median(sizes) == pytest.approx(p.bytes_median, rel=0.15)
    assert np.log(sizes).std() == pytest.approx(p.bytes_sigma, rel=0.1)
    assert all(reply.seconds > size / (8 << 30) for reply, size in zip(replies, sizes))


# Addresses


def test_addresses_are_shared_as_in_hosting_and_content_networks() -> None:
    over = weather(wide_share=0.1, network_sites=50.0, hosting_sites=25.0)
    names = home_names(over)
    sites: dict[Hosting, dict[str, set[bytes]]] = {how: {} for how in Hosting}
    hosts = {name: over._host(name)[0] for name in names}  # type: ignore[index]
    for name, host in hosts.items():
        for moment in range(4):
            found = over.resolve(name, START + moment * 2 * DAY)
            assert found is not None and found.address is not None
            sites[host.hosting].setdefault(found.address, set()).add(name)
    kinds = Counter(host.hosting for host in hosts.values())
    p = over.params
    for how, wanted in {Hosting.NETWORK: p.network_share, Hosting.BUILDER: p.builder_share,
                        Hosting.SHARED: p.hosting_share, Hosting.WIDE: p.wide_share}.items():  # fmt: skip
        assert kinds[how] / len(names) == near(wanted, len(names)), how
    assert len(sites[Hosting.BUILDER]) == 1  # an address has 100,000 sites if there are so many
    assert {len(some) for some in sites[Hosting.OWN].values()} == {1}
    assert {len(some) for some in sites[Hosting.WIDE].values()} == {1}
    assert len(sites[Hosting.WIDE]) > 3 * kinds[Hosting.WIDE]  # a site answers with another address each time
    assert len({a for some in sites.values() for a in some}) == sum(len(some) for some in sites.values())


# Spellings


def test_redirects_lead_to_the_canonical_url() -> None:
    over = weather(upgrade_share=1.0, one_name_share=1.0, two_hops_share=0.5, https_share=0.7,
                   found_share=0.3)  # fmt: skip
    hops: Counter[int] = Counter()
    told: Counter[int] = Counter()
    for url in home_urls(over, 60):
        name = url.split(b"/")[2]
        other = name[4:] if name.startswith(b"www.") else b"www." + name
        for start in (b"http://" + name + b"/a/b?c", b"http://" + other + b"/", url.replace(name, other)):
            at, count = start, 0
            while (reply := get(over, at)).status in (301, 302):
                told[reply.status] += 1
                at, count = dict(reply.header)["Location"].encode(), count + 1
            assert at.startswith(url)
            hops[count] += 1
    assert set(hops) == {0, 1, 2} and set(told) == {301, 302}


def test_the_other_name_may_be_missing_and_any_name_may_exist() -> None:
    over = weather(other_name_missing_share=0.3, wildcard_share=0.2)
    names = home_names(over, 1_500)
    others = [name[4:] if name.startswith(b"www.") else b"www." + name for name in names]
    wilds = [b"zap." + name.removeprefix(b"www.") for name in names]
    over.meet(others + wilds)
    missing = [(found := over.resolve(name, START)) is not None and found.permanent for name in others]
    assert share(missing) == near(0.3, len(names))
    wild = [(found := over.resolve(name, START)) is not None and not found.permanent for name in wilds]  # fmt: skip
    assert share(wild) == near(0.2, len(names))


def test_links_are_spelt_in_other_ways_as_often_as_they_should() -> None:
    over = weather(link_http_share=0.3, link_other_name_share=0.2, https_share=1.0)
    links, urls = over.links(over.web.seeds(400))
    canonical = over.web.urls(links.targets).tolist()
    source = np.repeat(over.web.seeds(400), np.diff(links.offsets)) >> np.uint64(36)
    away = (links.targets >> np.uint64(36)) != source
    spelt = urls.tolist()
    assert [u for u, there in zip(spelt, away) if not there] == [u for u, there in zip(canonical, away) if not there]
    outside = [(u, c) for u, c, there in zip(spelt, canonical, away) if there]
    assert share([u.startswith(b"http://") for u, _ in outside]) == near(0.3, len(outside))
    named = [u.replace(b"http:", b"https:") != c for u, c in outside]
    assert 0.1 < share(named) <= 0.25  # hosts but the first of a site have one name


# What could have been had

HARSH = WeatherParams(
    sound_sites=0.0,
    unknown_share=0.05, refused_share=0.05, silent_share=0.05, certificate_share=0.05, broken_share=0.05,
    challenge_share=0.05, parked_share=0.05, death_per_day=200.0, lame_share=0.05,
    blips=Spell(0.9, 120.0, 5.0, 120.0), outages=Spell(0.8, 400.0, 60.0, 400.0),
    absences=Spell(0.5, 600.0, 60.0, 600.0), name_spells=Spell(0.9, 300.0, 60.0, 300.0),
    address_spells=Spell(0.5, 200.0, 10.0, 150.0), robots_spells=Spell(0.9, 300.0, 60.0, 300.0),
    robots_broken_share=0.05, robots_silent_share=0.05,
    robots_redirect_share=0.2, page_passing_share=0.5, page_broken_share=0.1, missing_share=0.1,
    wildcard_share=0.3, upgrade_share=0.7, one_name_share=0.7,
)  # fmt: skip


def _readable(over: Weather, url: bytes, address: str, at: float) -> bytes | None:
    """The rules that a robots.txt gives at a moment; None: it cannot be had."""
    for _ in range(6):
        reply = over.answer(url, address, at)
        if reply.status in (301, 302):
            url = dict(reply.header)["Location"].encode()
            continue
        return (reply.robots or b"") if 200 <= reply.status < 500 else None
    raise AssertionError(f"{url!r} redirects in circles")


def _had(over: Weather, url: bytes, since: int, until: int) -> int | None:
    """The second in which a crawler has an answer that asks every second for what it needs next."""
    origin = b"/".join(url.split(b"/")[:3])
    named = read = -math.inf
    address, rules, ttl = "", b"", 0.0
    for moment in range(since, until):
        at = START + moment
        found = over.resolve(url.split(b"/")[2], at)
        if found is not None and found.address is not None:
            named, address, ttl = moment, found.address, found.ttl
        if moment - named > ttl:
            continue
        text = _readable(over, origin + b"/robots.txt", address, at)
        if text is not None:
            read, rules = moment, text
        if moment - read > DAY:
            continue
        if not Protego.parse(rules.decode()).can_fetch(url.decode(), "irlcrawl"):
            return None
        reply = over.answer(url, address, at)
        if reply.status > 0 and not reply.passing:
            return moment
    return None


def test_what_can_be_had_is_what_a_crawler_gets_that_asks_every_second() -> None:
    """Hosts end after some minutes, as long as the time that is asked about."""
    over = Weather(WEB, HARSH, START)
    _, found = over.links(over.web.seeds(40))
    urls = random.Random(2).sample(sorted(set(found.tolist())), 160)
    told: Counter[Verdict] = Counter()
    for number, url in enumerate(urls):
        since = number * 7 % 300
        verdict = over.verdict(url, START + since, START + since + 240)
        had = _had(over, url, since, since + 240)
        assert over.had_at(url, START + since, START + since + 240) == (had if had is None else START + had), url
        assert (verdict == Verdict.HAD) == (had is not None)
        assert over.obtainable(url, START + since, START + since + 240) == (had is not None)
        told[verdict] += 1
    assert set(told) == set(Verdict) and told[Verdict.HAD] < 120, told


def test_calm_is_no_weather_at_all() -> None:
    over = Weather(WEB, CALM, START)
    for url in home_urls(over, 300):
        assert get(over, url, START + 3 * WEEK, load=1e9).status == 200
        assert over.obtainable(url, START, START + 1.0) or over.verdict(url, START, START + 1.0) == Verdict.ROBOTS
    hosts = [over._host(name)[0] for name in home_names(over, 300)]  # type: ignore[index]
    assert {host.robots for host in hosts} == {RobotsState.RULES, RobotsState.MISSING}


def test_seeds_can_be_had() -> None:
    seeds = WEATHER.seeds(30)
    assert len(set(seeds)) == 30
    assert all(WEATHER.obtainable(url, START, START + DAY) for url in seeds)


@pytest.mark.parametrize(
    ("setting", "said"),
    [("rain=1", "no parameter 'rain' of the weather"), ("blips.rain=1", "no parameter 'blips.rain'"),
     ("unknown_share=much", "unknown_share is a number, not 'much'"), ("blips.longest=1e9", "longest <= every"),
     ("unknown_share=2", "unknown_share is from 0 to 1, not 2"), ("latency_median=-1", "latency_median is 0 or above"),
     ("parked_share=0.99", "shares of hosts add up to 1.2")],
)  # fmt: skip
def test_what_no_weather_has_is_said(setting: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        WeatherParams().overridden([setting])


def test_parameters_may_be_set_by_name() -> None:
    p = WeatherParams().overridden(["unknown_share=0.5", "blips.chance=0", "blips.longest=60", "blips.every=60"])
    assert p.unknown_share == 0.5 and p.blips == Spell(0.0, 60.0, 5.0, 60.0) and p.outages == WeatherParams().outages


UNITS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": DAY}
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)


def _value(text: str) -> float | Spell:
    """What a cell of docs/weather.md says: a number, or the four of a spell."""
    if text.count(", ") != 3:
        return float(text.replace(",", ""))
    chance, *times = text.split(", ")
    return Spell(float(chance), *(float(n) * UNITS[unit] for n, unit in (time.split() for time in times)))


def test_the_document_has_every_figure_as_it_is() -> None:
    """docs/weather.md says where each is from; a default that moves takes its row along."""
    told = {name: _value(text) for name, text in ROW.findall((ROOT / "docs/weather.md").read_text())}
    assert told == dataclasses.asdict(WeatherParams()) | {
        field.name: field.default for field in dataclasses.fields(WeatherParams) if isinstance(field.default, Spell)
    }
