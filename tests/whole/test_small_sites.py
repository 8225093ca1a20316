"""Small crawls end to end: one page, a thousand pages, a dead host, a name that is none; and stopping and going on."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import socket
import threading
from pathlib import Path

import pytest
from conftest import Serve
from webcrawl import NO_GAPS, Crawl, Tree, check_warcs, outcomes, page, responses, warcs

from irlcrawl.base.clock import VirtualClock
from irlcrawl.crawl.supervisor import SAME_SIGNAL_SECONDS, Stops
from tools.docsweb import audit
from tools.sampleweb.server import Ask, Reply

ONE = {"one.test": "127.61.0.1"}
FAIL_SOON = {
    "politeness.retry_delay_seconds": 0.1,
    "politeness.retries_max": 1,
    "politeness.backoff_seconds": 0.1,
    "politeness.rest_seconds": 0.1,
    "politeness.rest_max_seconds": 1,
    "politeness.host_dead_hours": 0.0002,
}


def test_one_page_with_default_gaps(serve: Serve, job: Path) -> None:
    web = serve(Tree(0), ONE)
    ended = Crawl(job, web.resolver, [web.url("one.test")]).run()
    assert ended.code == 0, ended.output
    requests = audit.read(web.log)
    assert [r.uri for r in requests] == ["/robots.txt", "/"]
    assert audit.closest(requests, "host") >= 1.0
    # Nothing to wait for but the gap: not a harvest's age (30 s), not a merge.
    assert ended.seconds < 1.0 + 6.0
    check_warcs(job)


def test_a_thousand_pages_without_gaps(serve: Serve, job: Path) -> None:
    tree = Tree(1000)
    web = serve(tree, ONE)
    ended = Crawl(job, web.resolver, [web.url("one.test")], NO_GAPS).run()
    assert ended.code == 0, ended.output
    expected = {web.url("one.test", target) for target in tree.targets()}
    secret = {web.url("one.test", f"/secret/{n}") for n in range(5)}
    report = audit.report(audit.read(web.log), expected, secret)
    assert (report["missing"], report["repeated"], report["unexpected"], report["disallowed"]) == ([], [], [], [])
    assert outcomes(job) == dict.fromkeys(expected, "fetched") | dict.fromkeys(secret, "excluded(robots)")
    assert responses(job) == dict.fromkeys(expected, 1)
    assert ended.seconds < 30  # 1,001 rotations or merges of a second each would show
    check_warcs(job)


def test_a_finished_crawl_run_again_requests_nothing(serve: Serve, job: Path) -> None:
    web = serve(Tree(5), ONE)
    crawl = Crawl(job, web.resolver, [web.url("one.test")], NO_GAPS)
    assert crawl.run().code == 0
    before, known = web.log.read_bytes(), outcomes(job)
    assert crawl.run().code == 0
    assert web.log.read_bytes() == before
    assert outcomes(job) == known


def test_seeds_added_to_a_finished_crawl(serve: Serve, job: Path) -> None:
    web = serve(Tree(5), ONE | {"two.test": "127.61.0.2"})
    crawl = Crawl(job, web.resolver, [web.url("one.test")], NO_GAPS)
    assert crawl.run().code == 0
    crawl.seeds.append(web.url("two.test"))
    assert crawl.run().code == 0
    assert set(outcomes(job).values()) == {"fetched", "excluded(robots)"}
    pages = [r.url for r in audit.read(web.log) if r.uri != "/robots.txt"]
    assert sorted(pages) == sorted(web.url(host, t) for host in ("one.test", "two.test") for t in Tree(5).targets())


def test_a_site_whose_only_host_is_dead_ends(serve: Serve, job: Path) -> None:
    web = serve(Tree(0), ONE, {"dead.test": "127.61.0.9"})
    with socket.socket() as closed:  # bound and not listening: every connection is refused
        closed.bind(("127.61.0.9", 0))
        url = f"http://dead.test:{closed.getsockname()[1]}/"
        ended = Crawl(job, web.resolver, [url], FAIL_SOON).run()
    assert ended.code == 16, ended.output
    assert outcomes(job).keys() == {url}
    assert outcomes(job)[url].startswith("failed(")
    assert "done, and no page could be had" in ended.output, "it ended as done, with code 0"


def test_a_name_that_does_not_exist_is_given_up(serve: Serve, job: Path) -> None:
    web = serve(Tree(0), ONE)
    ended = Crawl(job, web.resolver, ["http://nowhere.test/"], FAIL_SOON).run()
    assert ended.code == 16, ended.output
    assert outcomes(job) == {"http://nowhere.test/": "failed(dns)"}


def test_a_crawl_of_a_name_that_does_not_exist_waits_and_ends(serve: Serve, job: Path) -> None:
    """With the defaults it may exist tomorrow: the crawl says so and ends by a limit of its own, long before."""
    web = serve(Tree(0), ONE)
    ended = Crawl(job, web.resolver, ["http://nowhere.test/"], {"limits.wait_hours": 1 / 3600}).run()
    assert ended.code == 15, ended.output
    assert outcomes(job) == {}
    assert "nothing was left but 1 URL at rest" in ended.output
    assert "resting   1 URL" in ended.output and "go on:     irlcrawl resume" in ended.output


def test_a_private_address_is_refused_without_a_connection(serve: Serve, job: Path) -> None:
    web = serve(Tree(0), ONE)
    ended = Crawl(job, web.resolver, [web.url("one.test")], allow="127.99.0.0/16").run()
    assert ended.code == 16, ended.output
    assert web.log.read_text() == ""
    assert [o for o in outcomes(job).values() if "(address)" in o] == list(outcomes(job).values()) != []


class Gated(Tree):
    """A tree whose pages after the tenth wait until `open` is set; `reached` tells that one waits."""

    def __init__(self, pages: int) -> None:
        super().__init__(pages)
        self.asked = 0
        self.reached = threading.Event()
        self.open = threading.Event()

    async def __call__(self, ask: Ask) -> Reply:
        self.asked += 1
        if self.asked > 10:
            self.reached.set()
            while not self.open.is_set():
                await asyncio.sleep(0.01)
        return await super().__call__(ask)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly_and_the_same_command_goes_on(serve: Serve, job: Path, number: signal.Signals) -> None:
    site = Gated(50)
    web = serve(site, ONE)
    crawl = Crawl(job, web.resolver, [web.url("one.test")], NO_GAPS)
    running = crawl.start()
    assert site.reached.wait(30)
    running.signal(signal.SIGUSR1)  # how far is it?
    running.signal(number)
    site.open.set()  # what is in flight may finish
    assert running.wait(15).code == 11
    said = (job / "logs" / "irlcrawl.log").read_text()
    assert re.search("INFO irlcrawl.crawl: (running|stopping): fetched ", said), "signals come in any order"
    archived = responses(job)
    assert 0 < len(archived) < 51
    check_warcs(job)
    assert crawl.run().code == 0
    expected = {web.url("one.test", target) for target in site.targets()}
    assert responses(job) == dict.fromkeys(expected, 1)
    assert audit.report(audit.read(web.log), expected, set())["repeated"] == []


def test_a_crawl_that_is_done_and_still_tells_of_its_archives_can_be_stopped(
    serve: Serve, job: Path, tmp_path: Path
) -> None:
    """It waited for the command, up to ten minutes for each archive, whatever signal came but SIGKILL."""
    begun, fed, told, script = (tmp_path / name for name in ("begun", "fed", "told", "tell"))
    os.mkfifo(begun)
    os.mkfifo(fed)
    script.write_text(
        '#!/bin/sh\ncd "$(dirname "$0")"\n'
        '[ -e told ] && { echo "$1" >>told; exit; }\ntouch told; echo >begun; exec cat fed\n'
    )
    script.chmod(0o755)
    web = serve(Tree(3), ONE)
    crawl = Crawl(job, web.resolver, [web.url("one.test")], NO_GAPS | {"archive.on_warc_closed": script})
    poll = select.poll()
    poll.register(heard := os.open(begun, os.O_RDONLY | os.O_NONBLOCK), select.POLLIN)
    try:
        running = crawl.start()
        assert poll.poll(60_000), running.output.read_text()
        running.signal(signal.SIGTERM)
        ended = running.wait(15)
        assert ended.code == 11 and "irlcrawl resume" in ended.output
    finally:
        os.close(heard)
        os.close(os.open(fed, os.O_RDWR))  # the command may end
    assert crawl.run().code == 0
    assert told.read_text().splitlines() == [str(path) for path in warcs(job)]


def test_a_second_signal_drops_what_is_in_flight(serve: Serve, job: Path) -> None:
    site = Gated(50)
    web = serve(site, ONE)
    crawl = Crawl(job, web.resolver, [web.url("one.test")], NO_GAPS)
    running = crawl.start()
    assert site.reached.wait(30)
    running.signal(signal.SIGINT)
    running.signal(signal.SIGTERM)
    assert running.wait(15).code == 13
    check_warcs(job)
    site.open.set()
    assert crawl.run().code == 0
    assert responses(job) == dict.fromkeys((web.url("one.test", target) for target in site.targets()), 1)


def test_one_stop_sent_to_a_process_and_its_group_was_two() -> None:
    """`timeout 1h irlcrawl ...` ended with code 13 and dropped what was in flight."""
    clock = VirtualClock()
    stops = Stops(clock)
    assert stops.told(signal.SIGTERM) and not stops.told(signal.SIGTERM)
    assert stops.told(signal.SIGINT), "another signal is another word"
    clock.advance(2 * SAME_SIGNAL_SECONDS)
    assert stops.told(signal.SIGINT) and stops.count == 3


class GatedMerge(Crawl):
    """A crawl whose first merge of many buckets waits (gated_merge.py), and says so in `told`."""

    @property
    def told(self) -> Path:
        return self.job.with_suffix(".told")

    def command(self) -> list[str]:
        words = super().command()
        assert words[1:3] == ["-m", "irlcrawl"]
        return [words[0], str(Path(__file__).with_name("gated_merge.py")), str(self.told), *words[3:]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_a_long_merge_ends_it_at_the_next_bucket(serve: Serve, job: Path, number: signal.Signals) -> None:
    site = Tree(60)
    web = serve(site, ONE)
    gated = GatedMerge(job, web.resolver, [web.url("one.test")], NO_GAPS)
    os.mkfifo(gated.told)
    told = os.open(gated.told, os.O_RDONLY | os.O_NONBLOCK)
    running = gated.start()
    ready, _, _ = select.select([told], [], [], 30)
    assert ready, running.output.read_text()
    running.signal(number)
    assert running.wait(30).code == 11
    assert os.read(told, 100) == b".", "no bucket after the one in which it came"
    os.close(told)
    check_warcs(job)
    assert len(responses(job)) < 61
    assert Crawl(job, web.resolver, gated.seeds, NO_GAPS).run().code == 0
    assert responses(job) == {web.url("one.test", target): 1 for target in site.targets()}


def test_redirects_are_discoveries(serve: Serve, job: Path) -> None:
    async def site(ask: Ask) -> Reply:
        moves = {"/a": "/b", "/b": "/a", "/self": "/self", "/far": "http://two.test:1/"}
        if ask.path.startswith("/turn/"):
            return Reply(302, headers=[("Location", f"/turn/{int(ask.path[6:]) + 1}")])
        if ask.path in moves:
            return Reply(301, headers=[("Location", moves[ask.path])])
        return page(["/a", "/self", "/far", "/turn/0"])

    web = serve(site, ONE)
    ended = Crawl(job, web.resolver, [web.url("one.test")], NO_GAPS).run()
    assert ended.code == 0, ended.output
    pages = sorted(r.uri for r in audit.read(web.log) if r.uri != "/robots.txt")
    assert pages == sorted(["/", "/a", "/b", "/self", "/far", *(f"/turn/{n}" for n in range(6))])
