"""The served weather is the computed one: names, refusals, throttling and pages, at the moment they are asked."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from drum.files import Files

import numpy as np
import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.log_parts import read
from tools.sampleweb.dns import NoAnswer
from tools.sampleweb.server import Ask, Reply
from tools.simweb.__main__ import main
from tools.simweb.params import Params
from tools.simweb.serve import SILENT_ADDRESS, serving
from tools.simweb.truth import Section, page_number
from tools.simweb.weather import CALM, CONNECT, TIMEOUT, Verdict, Weather, WeatherParams
from tools.simweb.weather_serve import RATE_SECONDS, Addresses, Handler, Origins, Rates, Sky, served_weather
from tools.simweb.weather_spells import Spell
from tools.simweb.web import Web

START = 1_700_000_000.0
PORT = 8_080
POOL = ["127.52.0.1", "127.52.0.2", "127.52.0.3"]
WEB = Web(Params(seed=3, pages_nominal=200_000, port=PORT))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sky(params: WeatherParams, speed: float = 1.0) -> tuple[Sky, Clock]:
    clock = Clock()
    return Sky(Weather(WEB, served_weather(params), START), speed, clock, 0.0), clock


def homes(of: Sky, count: int) -> list[str]:
    """Names of first hosts."""
    sites = np.arange(count, dtype=np.uint64)
    names = of.weather.web.names.host_names(sites << np.uint64(32)).tolist()
    of.weather.meet(names)
    return [name.decode() for name in names]


def asked(handler: Handler, name: str, target: str = "/") -> Reply | None:
    """None: the connection was closed."""
    try:
        return asyncio.run(handler(Ask("http", name, "GET", target, {})))
    except ConnectionAbortedError:
        return None


def test_names_resolve_as_the_weather_says_at_the_moment() -> None:
    of, clock = sky(WeatherParams(refused_share=0.1, lame_share=0.1, name_spells=Spell(0.9, 600.0, 60.0, 600.0)), 60.0)
    addresses = Addresses(of, POOL, SILENT_ADDRESS)
    told: Counter[str] = Counter()
    for clock.now in (0.0, 10.0, 21.0):
        at = START + 60.0 * clock.now
        for name in homes(of, 300):
            found = of.weather.resolve(name.encode(), at)
            if found is None:
                with pytest.raises(NoAnswer):
                    addresses.get(name)
                told["silent"] += 1
            elif found.address is None:
                assert addresses.get(name) is None
                told["unknown"] += 1
            else:
                refused = of.weather.answer(of.url(name), found.address, at).status == CONNECT
                record = addresses[name]
                assert (record.address == SILENT_ADDRESS) == refused and (refused or record.address in POOL)
                assert record.ttl == 1 if refused else record.ttl == max(1, round(found.ttl / 60.0))
                assert Origins(of, POOL)[name].address == record.address or refused
                told["refused" if refused else "there"] += 1
    assert min(told[key] for key in ("silent", "unknown", "refused", "there")) > 5, told


def test_answers_are_the_computed_ones() -> None:
    params = dataclasses.replace(WeatherParams(), unknown_share=0.0, missing_share=0.1, page_passing_share=0.1,
                                 robots_html_share=0.1, blips=Spell(1.0, 600.0, 60.0, 600.0))  # fmt: skip
    of, clock = sky(params, 600.0)
    handler = Handler(of, rates=Rates(clock), wait_seconds_max=0.0)
    targets = of.weather.web.links(of.weather.web.seeds(10)).targets[:300]
    urls = of.weather.web.urls(targets).tolist()
    of.weather.meet([url.split(b"/")[2].split(b":")[0] for url in urls])
    told: Counter[int] = Counter()
    for step, url in enumerate(urls):
        clock.now += 20.0  # nobody asks often
        origin = b"/".join(url.split(b"/")[:3])
        name = origin.split(b"/")[2].split(b":")[0].decode()
        for target in (url.removeprefix(origin), b"/robots.txt") if step % 3 == 0 else (url.removeprefix(origin),):
            at = START + 600.0 * clock.now
            answer = of.weather.answer(origin + target, "240.0.0.1", at)
            reply = asked(handler, name, target.decode())
            told[answer.status] += 1
            if answer.status < 0:
                assert reply is None
                continue
            assert reply is not None and reply.status == answer.status
            assert dict(reply.headers).get("Location") == dict(answer.header).get("Location")
            assert isinstance(reply.body, bytes)
            if answer.robots is not None:
                assert reply.body == answer.robots
            elif answer.status == 200:
                assert reply.body.count(b"<a href=") == len(answer.links())
                assert reply.body.startswith(b"<!DOCTYPE html><title>%d<" % answer.content)
    assert {200, 301, 403, 404, 500, CONNECT, TIMEOUT} <= set(told), told


def test_servers_refuse_by_the_load_they_measure() -> None:
    params = dataclasses.replace(CALM, throttle_share=1.0, throttle_median=2.0, throttle_sigma=0.0,
                                 throttle_after_share=1.0)  # fmt: skip
    of, clock = sky(params, 3_600.0)
    handler = Handler(of, rates=Rates(clock))
    name = homes(of, 1)[0]
    bears = int(2.0 * RATE_SECONDS)
    statuses = []
    for _ in range(bears + 10):
        clock.now += 0.01
        reply = asked(handler, name)
        assert reply is not None
        statuses.append(reply.status)
    assert statuses == [200] * (bears + 1) + [429] * 9
    assert reply is not None and dict(reply.headers)["Retry-After"] == "1"  # an hour of weather is a second
    clock.now += RATE_SECONDS
    assert asked(handler, name).status == 200  # type: ignore[union-attr]


def test_rates_are_kept_of_few_hosts() -> None:
    clock = Clock()
    rates = Rates(clock)
    for number in range(25_000):
        clock.now += 0.01
        assert rates.counted(str(number)) == 0.0
    assert len(rates.times) < 12_000


def crawled(job: Path, resolver: str, seeds: list[str], settings: dict[str, Any]) -> tuple[int, list[LogEntry], str]:
    words = [sys.executable, "-m", "irlcrawl", "crawl", str(job), *seeds]
    for key, value in (settings | {"network.resolvers": f'["{resolver}"]'}).items():
        words += ["-s", f"{key}={value}"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, list(read(Files(), str(JobDir(job).crawl_log))), output.decode()


def test_a_crawl_meets_the_weather_that_was_computed(tmp_path: Path) -> None:
    """Time stands still, so that what a URL answers is one thing."""
    pages = 150
    settings = {
        "crawl.user_agent": "irlcrawl-test/1.0 (+https://crawl.test/; crawl@crawl.test)", "crawl.workers": 1,
        "limits.pages": pages, "politeness.gap_host_seconds": 0, "politeness.gap_host_factor": 0,
        "politeness.gap_address_seconds": 0, "politeness.retry_delay_seconds": 0.1, "fetch.read_seconds": 0.5,
        "network.allow": '["127.52.0.0/16"]', "scope.kind": "any",
    }  # fmt: skip
    params = dataclasses.replace(WeatherParams(), throttle_share=0.0, hosting_bears=1e6, builder_bears=1e6)
    with serving(Params(seed=3, pages_nominal=30_000), tmp_path / "access.log", addresses=4, weather=params,
                 weather_speed=0.0) as served:  # fmt: skip
        code, entries, output = crawled(tmp_path / "job", served.resolver, served.seeds(8), settings)
    assert code == 14, output
    assert served.sky is not None
    over = served.sky.weather
    fetched = [e for e in entries if e.outcome == "fetched" and not e.url.endswith(b"/robots.txt")]
    assert len(fetched) >= pages
    told: Counter[int] = Counter()
    for entry in fetched:
        assert entry.status == over.answer(entry.url, "240.0.0.1", over.start).status, entry.url
        told[entry.status] += 1
    assert {200, 301} <= set(told), told
    for entry in entries:
        if entry.outcome == "excluded" and entry.reason == "robots":
            assert over.verdict(entry.url, over.start, over.start + 1.0) in (Verdict.ROBOTS, Verdict.NO_ANSWER)
        if entry.outcome == "failed" and entry.reason == "dns":
            found = over.resolve(entry.url.split(b"/")[2].split(b":")[0], over.start)
            assert found is None or found.permanent


def test_serve_prints_a_crawl_under_the_weather_it_was_given(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tools.simweb", "serve", str(tmp_path / "web"), "--seeds", "3", "--weather",
             "--weather-speed", "3600", "--set", "pages_nominal=9000", "--set", "unknown_share=0",
             "--set", "blips.chance=0"]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        printed = shlex.split(process.stdout.readline())
        assert printed[:3] == ["irlcrawl", "crawl", str(tmp_path / "web" / "job")]
        assert len((tmp_path / "web" / "seeds.txt").read_text().splitlines()) == 3
        dry = subprocess.run([sys.executable, "-m", *printed, "--dry-run"], capture_output=True, text=True, timeout=60)
        assert dry.returncode == 0, dry.stderr
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_weather_that_cannot_be_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path), "--weather", "--set", "unknown_share=2"]) == 1
    assert "simweb: unknown_share is from 0 to 1, not 2" in capsys.readouterr().err
    assert main(["serve", str(tmp_path), "--set", "unknown_share=0.5"]) == 1
    assert "simweb: no parameter 'unknown_share'" in capsys.readouterr().err


def test_all_pages_of_a_host_are_at_one_address() -> None:
    of, _ = sky(WeatherParams(network_share=0.0, wide_share=0.3))
    name = homes(of, 1)[0]
    assert len({Origins(of, POOL)[name].address for _ in range(3)}) == 1
    page = page_number(np.zeros(1, np.int64), Section.PAGES, np.zeros(1, np.int64))
    assert of.weather.web.urls(page)[0] == of.url(name)
