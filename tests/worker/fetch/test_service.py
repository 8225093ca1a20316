"""A real worker process and a real server, driven over the wire: what is asked and when, archived and handed over."""

from __future__ import annotations

import asyncio
import gzip
import time
from pathlib import Path

from drum import Files

import brotlicffi
import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.base.keys import name_key
from irlcrawl.base.names import Names
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Robots, Source
from irlcrawl.worker.archive import crawl_log, redo
from irlcrawl.worker.harvest.rules_log import RulesLog
from tests.worker.fetch.driver import SEED, UNKNOWN, Driver, crawl_config
from tests.worker.fetch.loopback import Asked, Loopback, response, say

LINKS = b'<a href="/b">b</a> <a href="/c#frag">c</a> <a href="http://other.test/">o</a> <a href="/b">again</a>'
PAGE = response(LINKS)
ROBOTS = response(b"User-agent: *\nDisallow: /private\nCrawl-delay: 0.3\n", kind="text/plain")


def origin(server: Loopback, host: str = "a.test") -> str:
    return f"http://{host}:{server.port}"


def archived(job: Path, stream: int = 0) -> list[tuple]:
    redo.recover(Files(), str(job / "warcs"), stream)
    return list(redo.units(Files(), str(job / "warcs"), stream))


def test_a_page_is_fetched_archived_parsed_and_handed_over(tmp_path: Path) -> None:
    with Loopback({"/": PAGE}) as server, Driver(tmp_path, crawl_config()) as worker:
        home = origin(server)
        worker.visit(home, ["/"])
        end = worker.end()
        assert (end["reached"], end["outcome"], end["requests"], end["robots"]) == (1, "ok", 1, None)
        assert end["started"] <= end["ended"] and end["fetch_s"] >= 0
        assert end["body_s"] >= 0 and end["fetching_s"] == end["fetch_s"], "one request"
        harvest = worker.harvest()
        links = {link["url"]: link for link in harvest.links}
        assert sorted(links) == sorted([f"{home}/b".encode(), f"{home}/c".encode(), b"http://other.test/"])
        link = links[f"{home}/b".encode()]
        assert link["key"] == Names(SEED).url_key(link["url"])
        assert (link["depth"], link["hop"], link["source"], link["attempt"]) == (1, 0, Source.LINK, 0)
        assert (link["site"], link["host"]) == Names().of_origin(home.encode()) and link["site"] == name_key(b"a.test")
        assert [pair["site"] for pair in harvest.pairs] == [name_key(b"other.test")]
        (outcome,) = harvest.outcomes
        assert (outcome["segment"], outcome["row"], outcome["cls"], outcome["status"]) == (7, 0, Class.FETCHED, 200)
        counters = harvest.meta["counters"]
        assert (counters["pages"], counters["links"]) == (1, 3)
        assert harvest.message["number"] == 0 and harvest.message["pages"] == 1
        assert worker.stop() == 0
    ((unit, exchange, location),) = archived(tmp_path)
    assert unit.url == f"{home}/".encode() and exchange.header + exchange.body == PAGE
    assert list(location.position) == harvest.meta["warc"]
    entry = crawl_log.parse(outcome["line"])
    assert entry.url == unit.url and entry.warc[0] == location.file


def test_harvests_are_numbered_and_an_empty_one_is_no_file(tmp_path: Path) -> None:
    pages = {"/": PAGE, "/2": response(LINKS + b" but for this the same page")}
    with Loopback(pages) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.send({"t": "harvest"})
        assert worker.receive("harvest")["file"] is None
        _, first = worker.crawl(origin(server), ["/"])
        _, second = worker.crawl(origin(server), ["/2"])
        assert [h.meta["number"] for h in (first, second)] == [0, 1]
        assert second.links == [] and second.meta["counters"]["duplicates"] == 3
        assert second.pairs == first.pairs, "what does not count yet may count later: told in every harvest"


def test_robots_txt_comes_first_and_is_obeyed(tmp_path: Path) -> None:
    with Loopback({"/robots.txt": ROBOTS, "/": PAGE}) as server, Driver(tmp_path, crawl_config()) as worker:
        end, harvest = worker.crawl(origin(server), ["/", "/private/x", "/"], robots=UNKNOWN)
        assert [asked.target for asked in server.asked] == ["/robots.txt", "/", "/"]
        assert end["reached"] == 3 and end["requests"] == 3
        robots = end["robots"]
        assert robots["state"] == Robots.RULES and robots["crawl_delay"] == 0.3
        assert ROBOTS.endswith(RulesLog.read(Files(), str(tmp_path / "state"), robots["rules"]))
        (fact,) = harvest.facts
        assert fact["robots"] == Robots.RULES and fact["robots_until"] == robots["until"]
        assert [fact["rules_log"], fact["rules_offset"], fact["rules_length"]] == robots["rules"]
        told = [(o["segment"], o["cls"], o["reason"], o["status"]) for o in harvest.outcomes]
        assert told == [
            (NO_SEGMENT, Class.NONE, Reason.OK, 200),
            (7, Class.FETCHED, Reason.OK, 200),
            (7, Class.EXCLUDED, Reason.ROBOTS, -9998),
            (7, Class.FETCHED, Reason.OK, 200),
        ]
        gaps = [b.at - a.answered for a, b in zip(server.asked, server.asked[1:], strict=False)]
        assert all(gap >= 0.3 for gap in gaps), "the Crawl-delay just learnt holds at once"


def test_a_robots_txt_and_a_page_with_faults_in_their_headers_are_read(tmp_path: Path) -> None:
    """Both were refused whole, and the host was closed."""
    faults = b"X y: z\r\nX : z\r\n<!-- x -->\r\nX: a\rb\r\n"
    robots, page = (wire.replace(b" 200 OK\r\n", b"  200 OK\r\n" + faults, 1) for wire in (ROBOTS, PAGE))
    with Loopback({"/robots.txt": robots, "/": page}) as server, Driver(tmp_path, crawl_config()) as worker:
        end, harvest = worker.crawl(origin(server), ["/private/x", "/"], robots=UNKNOWN)
        assert [asked.target for asked in server.asked] == ["/robots.txt", "/"]
        assert end["robots"]["state"] == Robots.RULES and end["robots"]["crawl_delay"] == 0.3
        assert worker.stop() == 0
    assert len(harvest.links) == 3
    entries = [crawl_log.parse(outcome["line"]) for outcome in harvest.outcomes]
    noted = "cr+status-line+name+space+no-colon"
    assert [entry.notes.get("faults") for entry in entries] == [noted, None, noted]
    kept = [(unit.faults, exchange.header + exchange.body) for unit, exchange, _ in archived(tmp_path) if exchange]
    assert kept == [(noted, robots), (noted, page)], "so replay logs the same"
    with open(tmp_path / "warcs" / entries[2].warc[0], "rb") as archive:
        read = [
            (record.http_headers.get_statuscode(), record.content_stream().read())
            for record in ArchiveIterator(archive)
            if record.rec_type == "response"
        ]
    assert read == [("200", ROBOTS.split(b"\r\n\r\n", 1)[1]), ("200", LINKS)], "by warcio"


def test_known_rules_are_read_from_the_log_another_worker_wrote(tmp_path: Path) -> None:
    with Loopback({"/robots.txt": ROBOTS, "/": PAGE}) as server:
        with Driver(tmp_path, crawl_config(), stream=3) as worker:
            worker.visit(origin(server), [], robots=UNKNOWN)
            robots = worker.end()["robots"]
        with Driver(tmp_path, crawl_config(), stream=4) as worker:
            end, harvest = worker.crawl(origin(server), ["/private/", "/"], robots=robots)
        assert end["robots"] is None and end["reached"] == 2
        assert [o["reason"] for o in harvest.outcomes] == [Reason.ROBOTS, Reason.OK]
        assert [asked.target for asked in server.asked] == ["/robots.txt", "/"]


@pytest.mark.parametrize(
    ("status", "state", "outcome"),
    [("404 No", Robots.ALLOW, "ok"), ("500 Oops", Robots.DENY, "throttled"), ("429 Slow", Robots.DENY, "throttled")],
)
def test_robots_answers_without_rules(tmp_path: Path, status: str, state: Robots, outcome: str) -> None:
    pages = {"/robots.txt": response(b"", "Retry-After: 7", status=status), "/": PAGE}
    with Loopback(pages) as server, Driver(tmp_path, crawl_config()) as worker:
        end, harvest = worker.crawl(origin(server), ["/"], robots=UNKNOWN)
        assert (end["robots"]["state"], end["outcome"]) == (state, outcome)
        assert end["reached"] == (state is Robots.ALLOW)
        assert end["retry_after"] == (7.0 if outcome == "throttled" else None)
        assert harvest.facts[0]["failed"] == 0
        assert len(server.asked) == 1 + end["reached"]


@pytest.mark.parametrize(("status", "state"), [("200 OK", Robots.DENY), ("404 No", Robots.ALLOW)])
def test_the_part_of_a_robots_txt_that_came_in_time_was_all_of_it(tmp_path: Path, status: str, state: Robots) -> None:
    async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n\r\nUser-agent: *\nDisallow: /a\n"
        await say(asked, writer, head.encode())
        await asyncio.Event().wait()

    config = crawl_config()
    config.fetch.total_seconds = 0.2
    with Loopback({"/robots.txt": endless, "/": PAGE}) as server, Driver(tmp_path, config) as worker:
        end, harvest = worker.crawl(origin(server), ["/"], robots=UNKNOWN)
        assert end["robots"]["state"] == state and end["reached"] == (state is Robots.ALLOW)
        assert harvest.outcomes[0]["status"] == int(status[:3]) and harvest.facts[0]["failed"] == 0


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
def test_what_was_before_the_damage_of_a_robots_txt_was_all_of_it(tmp_path: Path, coding: str) -> None:
    text = b"User-agent: *\n" + b"".join(b"Disallow: /%x\n" % n**3 for n in range(3000)) + b"Disallow: /private\n"
    packed = {"gzip": gzip.compress, "zstd": zstandard.compress, "br": brotlicffi.compress}[coding](text)
    damaged = response(packed[: len(packed) // 2], f"Content-Encoding: {coding}", kind="text/plain")
    with Loopback({"/robots.txt": damaged, "/private": PAGE}) as server, Driver(tmp_path, crawl_config()) as worker:
        end, harvest = worker.crawl(origin(server), ["/private"], robots=UNKNOWN)
        assert [asked.target for asked in server.asked] == ["/robots.txt"]
        assert end["robots"]["state"] == Robots.DENY and end["outcome"] == "failed"
    assert crawl_log.parse(harvest.outcomes[0]["line"]).notes["damaged"] == "1"
    assert harvest.facts[0]["robots"] == Robots.DENY and harvest.facts[0]["rules_length"] == 0


def test_robots_redirects_stay_inside_the_visit_on_the_same_name(tmp_path: Path) -> None:
    pages = {
        "/robots.txt": response(b"", "Location: /r2", status="301 Moved"),
        "/r2": response(b"User-agent: testbot\nDisallow: /", kind="text/plain"),
    }
    with Loopback(pages) as server, Driver(tmp_path, crawl_config()) as worker:
        end, harvest = worker.crawl(origin(server), ["/"], robots=UNKNOWN, gap=0.2)
        assert [asked.target for asked in server.asked] == ["/robots.txt", "/r2"]
        assert server.asked[1].at - server.asked[0].answered >= 0.2
        assert [o["reason"] for o in harvest.outcomes] == [Reason.REDIRECT, Reason.OK, Reason.ROBOTS]
        assert len(harvest.facts) == 1 and end["robots"]["state"] == Robots.RULES


def test_a_robots_redirect_to_another_host_asks_for_a_detour(tmp_path: Path) -> None:
    with Loopback({}, addresses=("127.0.0.1", "127.0.0.2")) as server, Driver(tmp_path, crawl_config()) as worker:
        away = f"http://www.b.test:{server.port}/robots.txt"
        redirect = response(b"", f"Location: {away}", status="302 Found")
        server.pages["/robots.txt"] = _by_host({"b.test": redirect}, ROBOTS)
        visit = worker.visit(origin(server, "b.test"), ["/private", "/"], robots=UNKNOWN)
        detour = worker.receive("detour")
        assert (detour["visit"], detour["url"]) == (visit, away)
        assert len(server.asked) == 1, "nothing goes out before the detour is granted"
        worker.send({"t": "detour", "id": detour["id"], "address": "127.0.0.2"})
        detour_end = worker.receive("detour_end")
        assert detour_end["id"] == detour["id"] and detour_end["ended"] is not None
        assert worker.end()["reached"] == 2
        assert [(asked.address, asked.host.split(":")[0]) for asked in server.asked] == [
            ("127.0.0.1", "b.test"), ("127.0.0.2", "www.b.test"), ("127.0.0.1", "b.test"),
        ]  # fmt: skip


def test_a_refused_detour_closes_the_host_and_an_unanswered_one_does_not(tmp_path: Path) -> None:
    pages = {"/robots.txt": response(b"", "Location: http://gone.test/robots.txt", status="301 Moved")}
    with Loopback(pages) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/"], robots=UNKNOWN)
        worker.send({"t": "detour", "id": worker.receive("detour")["id"], "address": None, "reason": int(Reason.DNS)})
        end = worker.end()
        assert (end["outcome"], end["reason"], end["robots"]["state"]) == ("failed", Reason.DNS, Robots.DENY)
        worker.visit(origin(server), ["/"], robots=UNKNOWN)
        worker.send({"t": "detour", "id": worker.receive("detour")["id"], "address": None})
        assert worker.end()["robots"] is None
        asked = len(server.asked)
        worker.visit(origin(server), ["/"], robots=UNKNOWN)
        worker.receive("detour")
        assert len(server.asked) == asked, "the next visit goes on where that one had to stop"


def _by_host(pages: dict[str, bytes], other: bytes):
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await say(asked, writer, pages.get(asked.host.split(":")[0], other))

    return answer


def test_requests_of_a_visit_keep_the_gap_whatever_they_are(tmp_path: Path) -> None:
    """robots.txt, a redirect of it, pages, an answer that took long, a connection that broke: the gap runs from the end
    of one to the start of the next."""

    async def slow(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        await say(asked, writer, PAGE)

    async def dropped_once(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if sum(a.target == "/drop" for a in server.asked) == 1:
            asked.answered = time.monotonic()
            writer.transport.abort()
        else:
            await say(asked, writer, PAGE)

    pages = {
        "/robots.txt": response(b"", "Location: /r", status="302 Found"), "/r": response(b""), "/": PAGE,
        "/slow": slow, "/drop": dropped_once,
    }  # fmt: skip
    with Loopback(pages) as server, Driver(tmp_path, crawl_config()) as worker:
        end, _ = worker.crawl(origin(server), ["/", "/slow", "/drop", "/"], robots=UNKNOWN, gap=0.15)
        assert end["reached"] == 4
        assert [a.target for a in server.asked] == ["/robots.txt", "/r", "/", "/slow", "/drop", "/drop", "/"]
        gaps = [b.at - a.answered for a, b in zip(server.asked, server.asked[1:], strict=False)]
        assert min(gaps) >= 0.15
        assert end["ended"] - end["started"] >= 6 * 0.15 + 0.3


def test_the_gap_grows_with_the_time_a_fetch_took(tmp_path: Path) -> None:
    async def slow(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        await say(asked, writer, PAGE)

    config = crawl_config()
    config.politeness.gap_host_factor = 5.0
    with Loopback({"/": slow}) as server, Driver(tmp_path, config) as worker:
        worker.crawl(origin(server), ["/", "/"])
        assert server.asked[1].at - server.asked[0].answered >= 0.5


def test_a_visit_ends_rather_than_wait_long_or_start_late(tmp_path: Path) -> None:
    with Loopback({"/": PAGE}) as server, Driver(tmp_path, crawl_config()) as worker:
        worker.visit(origin(server), ["/", "/"], gap=60.0)
        end = worker.end()
        assert (end["reached"], end["outcome"]) == (1, "ok")
        worker.visit(origin(server), ["/"], not_after=worker.clock.now() - 1)
        end = worker.end()
        assert (end["reached"], end["outcome"], end["started"], end["ended"]) == (0, "unreached", None, None)
        worker.visit(origin(server), ["/", "/"], gap=2.0, not_after=worker.clock.now() + 1)
        assert worker.end()["reached"] == 1
        assert len(server.asked) == 2


def test_redirects_are_discoveries_and_a_seeds_redirect_extends_the_scope(tmp_path: Path) -> None:
    config = crawl_config()
    config.scope.kind = "site"
    moved = response(b"", "Location: http://new.test/x", status="301 Moved")
    with Loopback({"/": moved, "/deep": moved}) as server, Driver(tmp_path, config, entries=("site a.test",)) as worker:
        _, harvest = worker.crawl(origin(server), ["/"])
        (link,) = harvest.links
        assert link["url"] == b"http://new.test/x"
        assert (link["depth"], link["hop"], link["source"]) == (0, 1, Source.REDIRECT)
        assert harvest.scope == [{"entry": b"site new.test"}]
        assert harvest.outcomes[0]["reason"] == Reason.REDIRECT
        _, harvest = worker.crawl(origin(server), ["/deep"], depth=2, source=Source.LINK)
        assert harvest.links == [] and harvest.meta["counters"]["out_of_scope"] == 1
        worker.send({"t": "scope", "version": 2, "entries": ["site new.test"]})
        _, harvest = worker.crawl(origin(server), ["/deep"], depth=2, source=Source.LINK)
        assert harvest.meta["counters"]["out_of_scope"] == 0 and harvest.meta["counters"]["duplicates"] == 1


@pytest.mark.parametrize(("status", "again"), [("503 Busy", True), ("500 Oops", True), ("501 No", False)])
def test_passing_failures_come_back_later_and_not_for_ever(tmp_path: Path, status: str, again: bool) -> None:
    with Loopback({"/": response(b"", status=status)}) as server, Driver(tmp_path, crawl_config()) as worker:
        end, harvest = worker.crawl(origin(server), ["/"], attempt=1)
        (outcome,) = harvest.outcomes
        assert outcome["cls"] == (Class.RETRY if again else Class.FETCHED) and outcome["status"] == int(status[:3])
        if again:
            (retry,) = harvest.retries
            assert retry["attempt"] == 2 and retry["url"] == f"{origin(server)}/".encode()
            assert retry["due"] == pytest.approx(end["ended"] + 60.0 * 4, abs=0.01)
        _, harvest = worker.crawl(origin(server), ["/"], attempt=8)
        assert harvest.outcomes[0]["cls"] == Class.FETCHED and harvest.retries == []


def test_a_throttled_visit_ends_at_once_and_tells_for_how_long(tmp_path: Path) -> None:
    busy = response(b"", "Retry-After: 100", status="429 No")
    with Loopback({"/": busy}) as server, Driver(tmp_path, crawl_config()) as worker:
        end, harvest = worker.crawl(origin(server), ["/", "/x"])
        assert (end["reached"], end["outcome"], end["retry_after"]) == (1, "throttled", 100.0)
        assert end["reason"] == Reason.THROTTLED and len(server.asked) == 1
        assert harvest.retries[0]["due"] == pytest.approx(end["ended"] + 100.0, abs=0.01)


def test_a_dead_port_fails_the_visit_and_says_so_of_the_host(tmp_path: Path) -> None:
    with Driver(tmp_path, crawl_config()) as worker:
        with Loopback({}) as server:
            gone = origin(server)
        end, harvest = worker.crawl(gone, ["/", "/x"])
        assert (end["reached"], end["outcome"], end["reason"]) == (1, "failed", Reason.CONNECT)
        (outcome,) = harvest.outcomes
        assert (outcome["cls"], outcome["status"]) == (Class.RETRY, -2)
        assert [fact["failed"] for fact in harvest.facts] == [1] and harvest.facts[0]["robots"] == Robots.UNKNOWN
        _, harvest = worker.crawl(gone, ["/"], robots=UNKNOWN)
        assert [fact["failed"] for fact in harvest.facts] == [1] and harvest.facts[0]["robots"] == Robots.DENY


def test_the_first_response_after_failed_visits_clears_the_host(tmp_path: Path) -> None:
    with Loopback({"/": PAGE}) as server, Driver(tmp_path, crawl_config()) as worker:
        _, harvest = worker.crawl(origin(server), ["/", "/"], failures=2)
        assert [(fact["failed"], fact["robots"]) for fact in harvest.facts] == [(0, Robots.UNKNOWN)]


def test_visits_run_side_by_side(tmp_path: Path) -> None:
    """A barrier in the server: no answer goes out before every host has asked."""
    waiting: list[asyncio.StreamWriter] = []

    async def barrier(asked: Asked, writer: asyncio.StreamWriter) -> None:
        waiting.append(writer)
        if len(waiting) == 20:
            for other in waiting:
                other.write(PAGE)

    with Loopback({"/": barrier}) as server, Driver(tmp_path, crawl_config()) as worker:
        for number in range(20):
            worker.visit(origin(server, f"h{number}.test"), ["/"])
        assert all(worker.end()["reached"] == 1 for _ in range(20))


def test_a_harvest_goes_out_by_itself_when_it_is_old_or_large(tmp_path: Path) -> None:
    old, large = crawl_config(), crawl_config()
    old.frontier.harvest_seconds = 0.01
    large.frontier.harvest_bytes = 1 << 16
    links = b"".join(b'<a href="/page-with-a-long-name-number-%d">' % n for n in range(3000))
    with Loopback({"/": PAGE, "/links": response(links)}) as server:
        for stream, (config, target) in enumerate([(old, "/"), (large, "/links")]):
            with Driver(tmp_path, config, stream=stream) as worker:
                worker.visit(origin(server), [target])
                assert worker.receive("harvest")["file"] == f"harvest-{stream:04d}-000000.seg"


def test_a_worker_that_reads_damaged_rules_says_so_and_ends_with_6(tmp_path: Path) -> None:
    """It took them for rules that are gone, which a turn does not."""
    with Loopback({"/robots.txt": ROBOTS, "/": PAGE}) as server, Driver(tmp_path, crawl_config()) as worker:
        log = RulesLog(Files(), str(tmp_path / "state"), 9)
        pointer = log.append(b"User-agent: *\nDisallow: /private\n")
        log.close()
        path = tmp_path / "state" / "robots-0009.log"
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        known = {"state": int(Robots.RULES), "until": 9e9, "rules": pointer, "crawl_delay": 0.0}
        worker.visit(origin(server), ["/"], robots=known)
        with pytest.raises(EOFError):
            worker.receive("end")
        assert worker.process.wait(20) == 6
        assert worker.process.stderr is not None and str(path).encode() in worker.process.stderr.read()
        assert server.asked == []
