"""`python -m bench weather`: the shipped frontier in the weather of the real web, for four weeks of virtual time.

The web is tools/simweb's without its enemies, the weather tools/simweb/weather.py's (docs/weather.md), the crawler has
its defaults (`--set`). The frontier is the shipped one, whole, with real files; time, servers, names and the parser are
played (bench/_sim/long_crawl.py). It fetches at most `--rate` URLs a second. The figures:

`ended`          where every URL is: done by class and reason, or waiting, by where it waits
`could`          URLs that a crawl had that knows the weather, with the same seeds, gaps, rate and time
                 (bench/_sim/oracle.py), and those it found and could not have, by why
`had_share`      of those, the part that the crawl had: an answer that lasts, be it 404
`missed`         where the others are
`given_up`       by reason: URLs that were given up though no answer of theirs lasts, the least time between the first
                 and the last time that they, their host or its name were asked for in vain, and how many were given up
                 after less than a day of that
`capacity_used`  used / (used + idle), in host-seconds: of the time in which hosts had URLs to give and the clocks of
                 politeness and the capacity allowed a request, the part that was used (bench/_sim/backlog.py)
`host_hours`     what that is made of; `resting` is time in which a host was up and the crawler waited because its last
                 request had failed
`idlest`         the hosts with most idle hours
`false_outage_hours`  in which the crawler took the silence of servers for an outage of its own network, which never
                 has one here
`instead`        URLs that the crawl had and the oracle was late for: where hosts have more than the time allows, which
                 of them are had is a matter of order. They count in `had_share`, each for one that is missing
`requests`       by what they brought; `wasted_share`: of all, those without an answer, throttled, or with 5xx
`weeks`          at the end of each: memory of this process (MiB; the played web's is among it), bytes of JOB/state and
                 of the logs, the share of that of what `irlcrawl plan` says of so many URLs, what the frontier held,
                 URLs by where they wait, URLs and requests so far

A web of ordinary sites is read within two weeks. With `--busy` each site has as many pages as it can be asked for in
nine tenths of the time, by servers that take 15 s for each, so that the crawl is busy all the time, at an affordable
number of requests; a turn then takes 12 s, because each costs CPU time here, and there would be one every 5 s.

The goals (issue 21): had_share of at least 99.5%, nothing given up within a day, capacity_used of at least 95%, no more
memory in the last week than in the first. Ends with 1 if one is not reached.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import time
from pathlib import Path
from typing import Any

from drum.cost import store_bytes

from bench import _jobs
from bench._sim.endings import Endings
from bench._sim.links import Pages
from bench._sim.long_crawl import DAY, TURN_S, WEEK, LongCrawl, Point
from bench._sim.oracle import Had, Oracle
from irlcrawl.ask.plan import WEB as PLANNED
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.toml import load
from tools.options import amount, whole
from tools.simweb.params import NO_ENEMIES, Params
from tools.simweb.weather import CALM, Weather, WeatherParams
from tools.simweb.web import Web

START = 1_000_000_000.0
SITE_PAGES, DEGREE = 50.0, 20.0
BUSY_SITES, BUSY_TURN_S = 24, 12.0
BUSY_PAGES_A_WEEK = 3_300.0
BUSY_WEB: dict[str, Any] = {
    "site_size_exponent": 0.01, "site_size_noise": 1.01, "plural_pages_min": 10**9,  # sites of equal size and one host
    "degree_mean": 10.0, "nav_share": 0.54, "near_share": 0.3,  # so few links lead to nearly all pages
}  # fmt: skip
BUSY_WEATHER: dict[str, Any] = {
    "latency_median": 15.0,
    "latency_sigma": 0.05,
    "slow_share": 0.0,
    "bandwidth_sigma": 0.0,
}
SEEDS_SHARE = 0.02
SEEDS_MIN = 10
IDLEST = 5
MIB = 1 << 20
HAD_GOAL, CAPACITY_GOAL, MEMORY_GOAL = 0.995, 0.95, 1.05


def main(argv: list[str]) -> int:
    options = _options(argv)
    log = logging.getLogger("irlcrawl")
    told = log.level
    log.setLevel(logging.ERROR)
    try:
        return _jobs.run(measure, options, "weather", unreached)
    finally:
        log.setLevel(told)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("weather", __doc__)
    parser.add_argument("--hosts", type=whole(8), help=f"sites of the web (default 1000, with --busy {BUSY_SITES})")
    parser.add_argument("--weeks", type=amount(), default=4.0, help="of virtual time (default %(default)g)")
    parser.add_argument("--seed", type=whole(0), default=1, help="of web and weather (default %(default)s)")
    parser.add_argument(
        "--rate", type=amount(), default=20.0, help="URLs that can be fetched a second (default %(default)g)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the crawler's")
    parser.add_argument("--weather", action="append", default=[], metavar="NAME=NUMBER", help="a share of the weather")
    parser.add_argument("--web", action="append", default=[], metavar="NAME=NUMBER", help="a parameter of the web")
    parser.add_argument("--calm", action="store_true", help="no weather, but what --weather says")
    parser.add_argument("--busy", action="store_true", help="sites so large and slow that it takes all the time")
    parser.add_argument("--progress", action="store_true", help="a line per virtual day")
    options = parser.parse_args(argv)
    params = Params(
        seed=options.seed, site_pages_mean=SITE_PAGES, degree_mean=DEGREE, **NO_ENEMIES,  # type: ignore[arg-type]
    )  # fmt: skip
    sky = CALM if options.calm else WeatherParams()
    options.hosts, options.turn_s = options.hosts or (BUSY_SITES if options.busy else 1_000), TURN_S
    if options.busy:
        params = dataclasses.replace(params, site_pages_mean=BUSY_PAGES_A_WEEK * options.weeks, **BUSY_WEB)
        sky, options.turn_s = dataclasses.replace(sky, **BUSY_WEATHER), BUSY_TURN_S
    try:
        options.config = load(overrides=options.set)
        params = params.overridden(options.web)
        pages = round(options.hosts * params.site_pages_mean / params.good_share)
        options.params = dataclasses.replace(params, pages_nominal=pages)
        options.sky = sky.overridden(options.weather)
    except (ConfigError, ValueError) as error:
        parser.error(str(error))
    return options


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One crawl, and the oracle on the same web."""
    weather = Weather(Web(options.params), options.sky, START)
    seconds = options.weeks * WEEK
    seeds = weather.seeds(max(SEEDS_MIN, round(SEEDS_SHARE * options.hosts)))
    began = time.monotonic()

    def progress(point: Point) -> None:
        if options.progress:
            print(f"day {point.seconds / DAY:.1f}: {_words(point)}, {time.monotonic() - began:.0f} s", flush=True)

    config: Config = options.config
    crawl = LongCrawl(
        directory / "job", weather, config, seeds, seconds, options.rate, options.seed, options.turn_s,
        progress=progress,
    )  # fmt: skip
    code = crawl.run()
    pages = Pages(weather, directory)
    oracle = Oracle(weather, pages, config, START, seconds, options.rate).run(seeds)
    pages.close()
    endings = Endings(crawl.files, crawl.job, weather, START, seconds, crawl.backlog.questions)
    return figures(crawl, oracle, endings) | {
        "code": int(code), "hosts": options.hosts, "days": round(crawl.points[-1].seconds / DAY, 2),
        "seed": options.seed, "rate": options.rate,
    }  # fmt: skip


def figures(crawl: LongCrawl, oracle: Had, endings: Endings) -> dict[str, Any]:
    """What is printed."""
    backlog, counters = crawl.backlog, crawl.counters
    had = sum(endings.had(url) for url in oracle.urls)
    instead = sum(endings.had(url) for url in endings.of.keys() - oracle.urls.keys()) if oracle.late else 0
    requests = dict(sorted(backlog.requests.items(), key=lambda item: -item[1]))
    wasted = sum(requests.get(kind, 0) for kind in WASTED)
    could = len(oracle.urls)
    return {
        "bench": "weather",
        "discovered": crawl.ledger["discovered"],
        "ended": {
            "fetched": counters.get("fetched_by_reason", {}), "failed": counters.get("failed_by_reason", {}),
            "excluded": crawl.ledger["excluded"], "waiting": crawl.live,
        },
        "could": {"had": could, "late": oracle.late, **oracle.missed},
        "had_share": round(min(had + instead, could) / could, 5) if could else None, "instead": instead,
        "missed": endings.where([url for url in oracle.urls if not endings.had(url)]),
        "given_up": endings.given_up(),
        "capacity_used": None if backlog.capacity_used is None else round(backlog.capacity_used, 4),
        "host_hours": {state: round(seconds / 3600, 1) for state, seconds in backlog.seconds.items()},
        "idle_hours": {where: round(seconds / 3600, 1) for where, seconds in backlog.idle.items()},
        "idlest": {name: round(seconds / 3600, 1) for name, seconds in backlog.idlest(IDLEST)},
        "false_outage_hours": round(crawl.outage_s / 3600, 2),
        "requests": requests,
        "wasted_share": round(wasted / max(1, sum(requests.values())), 4),
        "weeks": [_week(point) for point in weekly(crawl.points)],
        "cpu_s": round(crawl.cpu_s, 1),
        "urls_per_cpu_minute": round(60 * crawl.ledger["discovered"] / crawl.cpu_s),
    }  # fmt: skip


WASTED = ("no answer", "throttled", "5xx", "robots without an answer")


def weekly(points: list[Point]) -> list[Point]:
    """The last point of each week."""
    by_week = {int((point.seconds - 1.0) // WEEK): point for point in points}
    return [by_week[week] for week in sorted(by_week)]


def _week(point: Point) -> dict[str, Any]:
    done = sum(point.ledger[name] for name in ("fetched", "failed", "excluded"))
    waiting = point.ledger["discovered"] - done
    planned = store_bytes(point.ledger["discovered"]) + waiting * PLANNED.waiting + done * PLANNED.log
    return {
        "days": round(point.seconds / DAY, 2), "rss_mib": round(point.rss_bytes / MIB, 1),
        "state_bytes": point.state_bytes, "log_bytes": point.log_bytes,
        "of_plan": round((point.state_bytes + point.log_bytes) / planned, 3), "held": point.held, "waiting": point.live,
        "urls": point.ledger, "requests": point.requests,
    }  # fmt: skip


def _words(point: Point) -> str:
    waiting = ", ".join(f"{count} {where}" for where, count in point.live.items() if count)
    done = ", ".join(f"{count} {name}" for name, count in point.ledger.items())
    return f"{done}; waiting: {waiting or 'none'}; {point.rss_bytes // MIB} MiB"


def unreached(result: dict[str, Any]) -> list[str]:
    """Goals that a result misses, in words."""
    missed = []
    if result["had_share"] is not None and result["had_share"] < HAD_GOAL:
        missed.append(f"{result['had_share']:.2%} of what could be had was had, the goal is {HAD_GOAL:.1%}")
    if early := sum(one["within_a_day"] for one in result["given_up"].values()):
        missed.append(f"{early} URLs were given up within a day")
    if result["capacity_used"] is not None and result["capacity_used"] < CAPACITY_GOAL:
        missed.append(f"{result['capacity_used']:.1%} of the capacity was used, the goal is {CAPACITY_GOAL:.0%}")
    weeks = result["weeks"]
    if len(weeks) > 1 and weeks[-1]["rss_mib"] > MEMORY_GOAL * weeks[0]["rss_mib"]:
        missed.append(f"memory grew from {weeks[0]['rss_mib']} to {weeks[-1]['rss_mib']} MiB")
    return missed
