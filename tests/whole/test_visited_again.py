"""Pages visited again and again by real workers, on servers that say truly, untruly or not at all whether a page
changed: each change is found, and every visit replays as the server had it, from files of several workers."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.util
import io
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

from drum import Files

import pytest
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.ask import get
from irlcrawl.base.rows import VISIT, Change
from irlcrawl.config.keys import Config
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.verify import verify
from irlcrawl.web.scope import Scope
from irlcrawl.worker.archive import crawl_log, redo
from irlcrawl.worker.archive.known import COLUMNS, Known
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.process import process
from tests.whole import others
from tests.worker.archive.support import check, paths_in
from tests.worker.fetch.driver import SEED, Driver, crawl_config
from tests.worker.fetch.loopback import Asked, Loopback, response, say

ROUNDS = 7
DAY = 86_400.0
EVERY = 4


def text(name: str, version: int) -> bytes:
    words = ["red", "blue", "green", "yellow", "black", "white", "brown"][version]
    links = "".join(f'<a href="/{name}/{n}">{n}</a>' for n in range(8 + version))
    return f"<title>{name}</title><p>{f'The ribbon at {name} is {words}, and long enough. ' * 40}</p>{links}".encode()


class Site:
    """A web server whose pages are of the version of `round`, or changed at some rounds only."""

    def __init__(self) -> None:
        self.round = 0
        self.asked: list[tuple[int, str, bool]] = []  # (round, target, conditionally)
        self.had: dict[tuple[int, str], bytes] = {}  # what a reader would have seen

    def pages(self) -> dict[str, Any]:
        names = ("steady", "honest", "dated", "lying", "plain", "noisy", "gone", "twin", "moved")
        return {f"/{name}": functools.partial(self._page, name) for name in names}

    def version(self, name: str) -> int:
        changes = {"honest": self.round // 2, "dated": self.round // 3, "lying": self.round // 3, "plain": self.round}
        return changes.get("plain" if name == "twin" else name, 0)

    async def _page(self, name: str, asked: Asked, writer: Any) -> None:
        fields = dict(line.split(": ", 1) for line in asked.head.decode().lower().split("\r\n")[1:] if line)
        version = self.version(name)
        etag, at = f'"{name}-{version}"', formatdate(1_000_000_000 + version, usegmt=True)
        tag, since = fields.get("if-none-match"), fields.get("if-modified-since")
        self.asked.append((self.round, name, bool(tag or since)))
        body = text("plain" if name == "twin" else name, version)
        lines, status = {"honest": [f"ETag: {etag}"], "dated": [f"Last-Modified: {at}"]}.get(name, []), "200 OK"
        if name == "steady":
            lines = [f"ETag: {etag}", f"Last-Modified: {at}"]
        elif name == "lying":
            lines = ['ETag: "always"']
        elif name == "noisy":
            body += b"<nav>%d other people read this</nav>" % time.monotonic_ns()
        elif name == "gone" and self.round >= 3:
            body, status = b"gone", "410 Gone"
        elif name == "moved":
            body, lines, status = b"", [f"Location: /to/{self.round // 2}"], "302 Found"
        current = tag == etag or (tag is None and since == at.lower())
        if (tag and name == "lying") or ((tag or since) and current):
            self.had[self.round, name] = self.had[self.round - 1, name]
            await say(
                asked, writer, b"HTTP/1.1 304 Not Modified\r\n" + "".join(f"{x}\r\n" for x in lines).encode() + b"\r\n"
            )
            return
        self.had[self.round, name] = body
        await say(asked, writer, response(body, *lines, status=status))


class Visited(NamedTuple):
    """One visit: which, of what, and how it was told."""

    round: int
    name: str
    url: bytes
    row: dict[str, Any]
    line: bytes


class Crawl(NamedTuple):
    job: Path
    config: Config
    site: Site
    visits: list[Visited]

    def changes(self, name: str) -> list[Change]:
        return [Change(visit.row["change"]) for visit in self.visits if visit.name == name]


@pytest.fixture(scope="module", params=("httptools", "aiohttp"))
def crawl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    job, site, config = tmp_path_factory.mktemp("job"), Site(), crawl_config()
    config.fetch.client = request.param
    config.revisit.enabled, config.revisit.unconditional_every = True, EVERY
    known: dict[str, Known] = {}
    visits: list[Visited] = []
    pages = site.pages()
    targets = sorted(pages)
    with Loopback(pages) as server:
        origin = f"http://a.test:{server.port}"
        for site.round in range(ROUNDS):
            with Driver(job, config, stream=site.round, ahead_seconds=site.round * DAY) as worker:
                pages_known = [known.get(target, Known()) for target in targets]
                worker.visit(origin, targets, known=pages_known if site.round else None)
                assert worker.end()["reached"] == len(targets)
                harvest = worker.harvest()
                assert worker.stop() == 0
            for target, row, outcome in zip(targets, harvest.visits, harvest.outcomes, strict=True):
                assert (row["segment"], row["row"]) == (outcome["segment"], outcome["row"])
                known[target] = Known(site.round + 1, *(row[name] for name in COLUMNS[1:]))
                visits.append(Visited(site.round, target[1:], (origin + target).encode(), row, outcome["line"]))
    (job / "logs").mkdir()
    (job / "logs" / "crawl.log").write_bytes(b"".join(visit.line + b"\n" for visit in visits))
    yield Crawl(job, config, site, visits)


FIRST, NONE, SAME, NEAR, YES, GONE, _ = Change


def test_every_change_is_found_as_soon_as_the_server_lets_it_be(crawl: Crawl) -> None:
    """Every fourth visit is unconditional: then it is seen that `lying` changed in round 3, and it is not believed any
    more. All others are what the server did, round by round."""
    assert {visit.name: crawl.changes(visit.name) for visit in crawl.visits} == {
        "steady": [FIRST, NONE, NONE, SAME, NONE, NONE, NONE], "honest": [FIRST, NONE, YES, SAME, YES, NONE, YES],
        "dated": [FIRST, NONE, NONE, YES, NONE, NONE, YES], "lying": [FIRST, NONE, NONE, YES, SAME, SAME, YES],
        "plain": [FIRST] + [YES] * 6, "twin": [FIRST] + [YES] * 6, "noisy": [FIRST] + [NEAR] * 6,
        "gone": [FIRST, SAME, SAME, GONE, GONE, GONE, GONE], "moved": [FIRST, SAME, YES, SAME, YES, SAME, YES],
    }  # fmt: skip


def test_pages_are_asked_conditionally_where_that_is_worth_it(crawl: Crawl) -> None:
    asked = {name: [how for _, asked, how in crawl.site.asked if asked == name] for _, name, _ in crawl.site.asked}
    believed = [False, True, True, False, True, True, True]
    assert asked["steady"] == asked["honest"] == asked["dated"] == believed
    assert asked["lying"] == [False, True, True, False, False, False, False]
    assert not any(any(asked[name]) for name in ("plain", "twin", "noisy", "gone", "moved"))


def test_new_links_are_counted_by_whoever_had_others(crawl: Crawl) -> None:
    new = [visit.row["new_links"] for visit in crawl.visits if visit.name == "plain"]
    assert new == [0, 0, 1, 1, 1, 1, 1], "the first change begins to count"


def test_the_crawl_log_says_it_as_heritrix_does(crawl: Crawl) -> None:
    for visit in crawl.visits:
        notes = visit.line.split(b" ")[11].split(b",")
        unchanged = {NONE: b"warcRevisit:notModified", SAME: b"warcRevisit:digest"}.get(visit.row["change"])
        empty = not crawl.site.had[visit.round, visit.name]
        assert (unchanged in notes) == (unchanged is not None and not empty)
        assert (b"visit=%d" % (visit.round + 1) in notes) == (visit.round > 0)
        assert crawl_log.parse(visit.line).status == (304 if visit.row["change"] == NONE else _status(visit))


def _status(visit: Visited) -> int:
    return 302 if visit.name == "moved" else 410 if visit.row["change"] == GONE else 200


def test_a_replay_gives_the_same_rows(crawl: Crawl) -> None:
    context = Context(crawl.config, SEED, Scope(crawl.config.scope, {}, [b"any"]))
    warcs = str(crawl.job / "warcs")
    again = []
    for stream in redo.streams(Files(), warcs):
        found = [process(unit, came, where, context) for unit, came, where in redo.units(Files(), warcs, stream)]
        again += [(one.visit, one.outcome[-1]) for one in found]
    assert again == [(tuple(visit.row[name] for name in VISIT), visit.line) for visit in crawl.visits]


def test_only_what_is_new_is_stored(crawl: Crawl) -> None:
    found = {"response": 0, "revisit": 0, "request": 0, "warcinfo": 0}
    for path in paths_in(crawl.job / "warcs"):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                record.content_stream().read()
                found[record.rec_type] += 1
    twins = ROUNDS
    same = sum(visit.row["change"] in (NONE, SAME) and visit.name != "moved" for visit in crawl.visits)
    assert found == {
        "request": len(crawl.visits), "warcinfo": ROUNDS, "revisit": same + twins,
        "response": len(crawl.visits) - same - twins,
    }  # fmt: skip


def test_archives_are_whole_to_us_and_to_warcio(crawl: Crawl) -> None:
    paths = paths_in(crawl.job / "warcs")
    assert list(verify(Files(), [str(path) for path in paths], Bar())) == []
    assert check(*paths) == 0


def test_get_follows_to_the_record_that_holds_the_page(crawl: Crawl) -> None:
    for visit in crawl.visits[-len(set(crawl.site.pages())) :]:
        assert get.get(crawl.job, visit.url) == crawl.site.had[visit.round, visit.name], visit.name
        header = get.get(crawl.job, visit.url, "headers")
        assert header.split(b" ")[1] == (b"304" if visit.row["change"] == NONE else b"%d" % _status(visit))


def test_get_says_what_is_away(crawl: Crawl, tmp_path: Path) -> None:
    job = tmp_path / "job"
    shutil.copytree(crawl.job, job)
    (first, *_) = (path for path in paths_in(job / "warcs") if path.name.endswith("s0000.warc.gz"))
    first.unlink()
    (steady,) = {visit.url for visit in crawl.visits if visit.name == "steady"}
    with pytest.raises(get.Unavailable, match=rf"archived in {first.name} at offset \d+, but"):
        get.get(job, steady)


def _replayed(visit: Visited, crawl: Crawl) -> bytes:
    return crawl.site.had[visit.round, visit.name]


def test_every_visit_replays_in_pywb(crawl: Crawl, tmp_path: Path) -> None:
    wanted = [
        f"{time.strftime('%Y%m%d%H%M%S', time.gmtime(visit.row['at']))} {visit.url.decode()}" for visit in crawl.visits
    ]
    given = "\n".join([*(f"warc {path}" for path in paths_in(crawl.job / "warcs")), *wanted])
    script = str(Path(__file__).parent / "pywb_replay.py")
    python = others.python_with("pywb")
    done = subprocess.run([python, script, tmp_path], input=given, text=True, capture_output=True, check=False)
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert len(told) == len(wanted), done.stderr[-2000:]
    for visit, got in zip(crawl.visits, told, strict=True):
        assert got["at"] == formatdate(int(visit.row["at"]), usegmt=True), visit
        assert (got["status"], base64.b64decode(got["body"])) == (_status(visit), _replayed(visit, crawl)), visit


@pytest.mark.skipif(importlib.util.find_spec("cdxj_indexer") is None, reason="no cdxj-indexer")
def test_every_visit_is_indexed_by_cdxj_indexer(crawl: Crawl) -> None:
    from cdxj_indexer.main import CDXJIndexer

    out = io.StringIO()
    CDXJIndexer(output=out, inputs=[str(path) for path in paths_in(crawl.job / "warcs")]).process_all()
    lines = [json.loads(line.split(" ", 2)[2]) for line in out.getvalue().splitlines()]
    assert len(lines) == len(crawl.visits)
    digests = {line["digest"] for line in lines if line["mime"] != "warc/revisit"}
    revisits = [line for line in lines if line["mime"] == "warc/revisit"]
    assert revisits and all(line["digest"] in digests for line in revisits)
    assert any(hashlib.sha1(text("steady", 0)).digest() == base64.b32decode(d.removeprefix("sha1:")) for d in digests)
