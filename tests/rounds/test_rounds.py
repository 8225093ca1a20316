"""Rounds of generate, fetch and update against a crawl that fetches by itself: the same pages, each once."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from drum import Catalog, Edits, Files
from drum.files import Data
from drum.files import Path as FilePath
from drum.segment import Segment

import pytest

from irlcrawl.ask import why
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobError
from irlcrawl.cli import main
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl import status
from irlcrawl.crawl.turns import Turns
from irlcrawl.frontier.state import formats
from irlcrawl.rounds.generate import Made
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.fsck import Fsck
from tests.crawl.virtual_crawl import Killed, Web, star
from tests.rounds.virtual_rounds import Rounds
from tests.terminal.test_bars import Recorded

SITES = [f"http://s{number}.test/" for number in range(4)]


PAIRS = {b"http://s0.test", b"http://s1.test"}, {b"http://s2.test", b"http://s3.test"}


def web() -> Web:
    links = {}
    for url in SITES:
        links |= star(url[7:-1], 5)
    links["http://s0.test/"] += ["http://s9.test/"]
    links |= star("s9.test", 3)
    return Web(links)


@pytest.fixture
def crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(tmp_path / "job", web(), SITES, monkeypatch)


def fetched(crawl: Rounds) -> set[str]:
    return {url for url, (outcome, _) in crawl.outcomes().items() if outcome == "fetched"}


def test_rounds_fetch_what_a_crawl_does_each_page_once(crawl: Rounds) -> None:
    crawl.seed()
    for number in range(10):
        made = crawl.generate(lists=2)
        if not made:
            break
        for at, each in enumerate(made):
            told = crawl.fetch(each, f"{number}-{at}")
            assert told.over and told.done == told.urls == each.urls
        backs = crawl.update(*(f"{number}-{at}" for at in range(len(made))))
        assert all(back.taken for back in backs)
    assert number > 2, "pages were found in one round and fetched in the next"
    assert fetched(crawl) == set(crawl.web.answers)
    assert crawl.run() == ExitCode.DONE
    assert crawl.web.pages_asked == dict.fromkeys(crawl.web.answers, 1)


def test_a_crawl_that_is_done_was_interrupted_by_a_wish_for_lists(crawl: Rounds) -> None:
    assert crawl.run() == ExitCode.DONE and crawl.generate() == []
    assert status.read_status(crawl.job())["state"] == "done"


def test_fetch_and_update_show_how_far_they_are(crawl: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch of a long list said nothing for hours. What is copied from another disk shows; what is linked is not."""
    crawl.seed()
    (made,) = crawl.generate()
    crawl.bar = bar = Recorded()
    crawl.fetch(made, "all")
    assert bar.full() and bar.stages == [["fetching", made.urls, made.urls]]

    def elsewhere(files: Files, old: FilePath, new: FilePath) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(Files, "link", elsewhere)
    crawl.bar = bar = Recorded()
    crawl.update("all")
    assert bar.full() and [(name, total > 0) for name, total, _ in bar.stages] == [
        ("archives", True),
        ("harvests", True),
    ]


def test_gaps_hold_from_crawl_to_fetch_to_crawl(crawl: Rounds) -> None:
    crawl.config.limits.pages = 6
    crawl.run()
    crawl.fetch(*crawl.generate(per_host=2), "first")
    crawl.update("first")
    crawl.config.limits.pages = 0
    assert crawl.run() == ExitCode.DONE
    last: dict[str, float] = {}
    for at, url in crawl.web.log:
        host = url.split("/")[2]
        assert at - last.get(host, 0.0) >= crawl.config.politeness.gap_host_seconds
        last[host] = at


@pytest.mark.parametrize("shared", ["address", "site"])
def test_gaps_of_addresses_and_sites_hold_from_fetch_to_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: str
) -> None:
    """Only the host that a fetch asked last was left alone: the crawl asked another one of its site at once."""
    names = [f"{letter}.test" if shared == "address" else f"{letter}.s.test" for letter in "abc"]
    crawl = Rounds(tmp_path / "job", Web({}), [f"http://{name}/" for name in names], monkeypatch)
    for name in names:
        crawl.web.answers |= Web(star(name, 4)).answers
        crawl.names.answers[name] = "10.0.0.1" if shared == "address" else f"10.0.0.{names.index(name) + 2}"
    setattr(crawl.config.politeness, f"gap_{shared}_seconds", 20.0)
    crawl.seed()
    crawl.fetch(*crawl.generate(urls=1), "first")
    crawl.update("first")
    assert crawl.run() == ExitCode.DONE
    times = [at for at, _ in crawl.web.log]
    assert min(later - at for at, later in pairwise(times)) >= 20.0


def test_a_request_that_was_in_flight_when_a_fetch_was_killed_counts_for_the_crawl(crawl: Rounds) -> None:
    """No archive tells of it: the crawl that took the fetch in as it was asked the same host at once."""
    crawl.config.politeness.gap_host_seconds = 5.0
    crawl.seed()
    (made,) = crawl.generate()
    crawl.on_request = lambda url: len(crawl.web.log) == 3 and crawl.kill()
    with pytest.raises(Killed):
        crawl.fetch(made, "first")
    crawl.on_request = lambda url: None
    host = crawl.web.log[-1][1].split("/")[2]
    crawl.update("first")
    assert crawl.run() == ExitCode.DONE
    times = [at for at, url in crawl.web.log if url.split("/")[2] == host]
    assert min(later - at for at, later in pairwise(times)) >= 5.0


def sound(crawl: Rounds) -> None:
    """`fsck` finds no damage, so the ledger is true."""
    damage = [finding for finding in Fsck(crawl.job(), Bar(), now=crawl.clock.now).run() if finding.damage]
    assert not damage


def total(crawl: Rounds) -> tuple[int, int]:
    """(discovered, fetched) by the last commit."""
    ledger = formats.look(crawl.job().state).get("ledger")
    return ledger["discovered"], ledger["fetched"]


def test_a_crawl_that_goes_on_leaves_the_sites_of_lists_alone(crawl: Rounds) -> None:
    crawl.seed()
    crawl.fetch(*crawl.generate(), "first")
    crawl.update("first")
    (made,) = crawl.generate(urls=2, per_host=1)
    lent = {origin.decode().removeprefix("http://") for origin in hosts_of(crawl, made.path)}
    assert len(lent) == 2, "of each of them four more URLs wait"
    before = len(crawl.web.log)
    assert crawl.run() == ExitCode.INTERRUPTED, "nothing is left but what the sites of the list have"
    asked = {url.split("/")[2] for _, url in crawl.web.log[before:]}
    assert len(asked) == 3 and not asked & lent
    sound(crawl)
    crawl.fetch(made, "second")
    crawl.update("second")
    assert crawl.run() == ExitCode.DONE
    assert fetched(crawl) == set(crawl.web.answers) and max(crawl.web.pages_asked.values()) == 1


def test_a_list_that_is_out_is_told(crawl: Rounds) -> None:
    """`status` said nothing of lists, and `why` that a URL in one may be asked now."""
    crawl.config.limits.pages = 2
    crawl.run()
    (made,) = crawl.generate(urls=1)
    site = next(iter(hosts_of(crawl, made.path))).decode().removeprefix("http://")
    job = crawl.job()
    job.write_config(to_toml(crawl.config))
    record = status.read_status(job)
    assert (record["lists_out"], record["lent_urls"]) == (1, 1)
    assert record["lists_until"] == pytest.approx(crawl.clock.now() + 24 * 3600, abs=60)
    assert any("1 list with 1 URL out until" in line for line in status.lines(record))
    for asked in (f"http://{site}/", site):
        answer = why.why(job, asked, crawl.clock.now())
        told = answer.get("host", answer)
        assert told["lent"].startswith("a list has URLs of its site")
    assert why.why(job, f"http://{site}/", crawl.clock.now())["host"]["next_allowed"] == pytest.approx(
        record["lists_until"]
    )
    crawl.fetch(made, "first")
    crawl.update("first")
    assert status.read_status(crawl.job())["lists_out"] == 0


def test_a_list_of_another_crawl_is_not_overwritten(crawl: Rounds, tmp_path: Path) -> None:
    """Two crawls number their lists alike: the second one's took the place of the first one's."""
    other = tmp_path / "job-lists" / "list-000009.seg"
    other.parent.mkdir()
    other.write_bytes(b"not ours")
    crawl.seed()
    with pytest.raises(JobError, match="a list that this crawl did not lend"):
        crawl.generate()
    assert other.read_bytes() == b"not ours" and not formats.look(crawl.job().state).items("lists/")
    other.unlink()
    assert crawl.generate()


def test_a_host_and_what_it_shares_an_address_with_are_in_one_list(crawl: Rounds) -> None:
    crawl.names.answers |= {f"s{number}.test": f"10.0.0.{number // 2}" for number in range(4)}
    crawl.config.network.allow = ["10.0.0.0/8"]  # an address that may not be asked is none
    crawl.config.limits.pages = 4
    assert crawl.run() == ExitCode.SIZE_LIMIT
    lists = crawl.generate(lists=4)
    assert len(lists) == 3, "s0 and s1, s2 and s3, s9"
    hosts = [hosts_of(crawl, made.path) for made in lists]
    assert all(not one & other for one, other in combinations(hosts, 2))
    assert all(len(pair & one) in (0, 2) for one in hosts for pair in PAIRS)


def hosts_of(crawl: Rounds, path: str) -> set[bytes]:
    section = Segment.open(crawl.files, path).sections["runs"]
    return {origin for batch in section.scan() for origin in batch["origin"].tolist()}


def test_a_list_has_so_many_urls_and_so_many_of_a_host(crawl: Rounds) -> None:
    crawl.seed()
    crawl.fetch(*crawl.generate(), "first")
    crawl.update("first")
    (made,) = crawl.generate(urls=7, per_host=3)
    assert (made.urls, made.hosts) == (7, 3)
    (other,) = crawl.generate(per_host=3)
    assert not hosts_of(crawl, made.path) & hosts_of(crawl, other.path), "no site is in two lists"


def test_a_list_that_never_comes_back_returns_by_itself(crawl: Rounds) -> None:
    crawl.seed()
    (made,) = crawl.generate(hours=2.0)
    assert crawl.generate() == [], "all is lent"
    assert crawl.run() == ExitCode.INTERRUPTED and not crawl.web.log
    crawl.clock.advance(2 * 3600.0)
    assert crawl.run() == ExitCode.DONE
    assert fetched(crawl) == set(crawl.web.answers)
    assert crawl.fetch(made, "late").done == 0, "the crawl may ask the hosts again"
    before = total(crawl)
    (back,) = crawl.update("late")
    assert not back.taken and total(crawl) == before
    sound(crawl)


def test_a_fetch_says_that_the_date_of_its_list_has_passed(
    crawl: Rounds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.seed()
    (made,) = crawl.generate()  # lent in 2001, and for a day
    assert main.main(["fetch", made.path, "-o", str(tmp_path / "late"), "--quiet"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().out.endswith(": that has passed\n")


def test_a_fetch_without_the_opt_out_list_of_its_crawl_died_in_its_workers(
    crawl: Rounds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On another machine; which file was missing stood below a traceback."""
    (listed := tmp_path / "opt-out.txt").write_text("host s1.test 2026-11-02\n")
    crawl.config.scope.opt_out_file = str(listed)
    crawl.seed()
    (made,) = crawl.generate()
    listed.unlink()
    assert main.main(["fetch", made.path, "-o", str(tmp_path / "there"), "--quiet"]) == ExitCode.CONFIG
    said = capsys.readouterr().err
    assert said == f"irlcrawl: scope.opt_out_file = {listed}: cannot be read: No such file or directory\n"


def test_a_list_whose_date_passes_while_the_crawl_runs_returns_to_it(crawl: Rounds) -> None:
    crawl.seed()
    crawl.fetch(*crawl.generate(), "first")
    crawl.update("first")
    crawl.generate(urls=2, per_host=1, hours=0.1)
    crawl.web.fetch_s = 100.0  # the others take longer than that
    assert crawl.run() == ExitCode.DONE
    assert fetched(crawl) == set(crawl.web.answers) and max(crawl.web.pages_asked.values()) == 1


def test_what_came_back_too_late_counts_once(crawl: Rounds) -> None:
    crawl.seed()
    (made,) = crawl.generate(hours=2.0)
    crawl.fetch(made, "late")
    crawl.archived.clear()
    crawl.clock.advance(2 * 3600.0)
    assert crawl.run() == ExitCode.DONE
    before = total(crawl)
    (back,) = crawl.update("late")
    assert not back.taken and total(crawl) == before == (len(crawl.web.answers),) * 2
    sound(crawl)


def test_update_twice_changes_nothing(crawl: Rounds) -> None:
    crawl.seed()
    crawl.fetch(*crawl.generate(), "first")
    assert [back.taken for back in crawl.update("first")] == [True]
    before = total(crawl)
    assert before[1] == 4
    assert [back.taken for back in crawl.update("first")] == [False]
    assert total(crawl) == before
    sound(crawl)


def test_a_fetch_of_another_list_with_the_same_number_is_not_taken_in(crawl: Rounds) -> None:
    """A repaired state numbers its segments anew, and an opened snapshot goes on from an earlier number."""
    crawl.seed()
    shutil.copytree(crawl.path, saved := crawl.path.with_name("saved"))
    (old,) = crawl.generate(urls=2)
    crawl.fetch(old, "first")
    shutil.rmtree(crawl.path)
    saved.rename(crawl.path)
    Path(old.path).unlink()
    (made,) = crawl.generate()
    assert [back.taken for back in crawl.update("first")] == [False]
    crawl.archived.clear()
    assert crawl.fetch(made, "second").done == 4
    assert [back.taken for back in crawl.update("second")] == [True]
    sound(crawl)


def test_pages_that_are_visited_again_are_in_lists_as_pages(crawl: Rounds) -> None:
    crawl.config.revisit.enabled = True
    crawl.config.revisit.first_rate_days = 1.0
    crawl.config.limits.pages = len(crawl.web.answers)
    assert crawl.run() == ExitCode.SIZE_LIMIT
    crawl.clock.advance(30 * 86400.0)
    (made,) = crawl.generate()
    assert crawl.fetch(made, "again").done == made.urls > 10
    visits = formats.look(crawl.job().state).get("ledger")["visits"]
    crawl.update("again")
    assert formats.look(crawl.job().state).get("ledger")["visits"] == visits + made.urls
    sound(crawl)


def test_generate_ends_where_the_frontier_is_full(crawl: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """With frontier.when_full = drop each turn had too much in runs, of which it drops nothing, and called that a
    move: it never ended."""
    crawl.config.limits.pages = 8
    assert crawl.run() == ExitCode.SIZE_LIMIT
    crawl.config.frontier.bytes_max, crawl.config.frontier.when_full = 1, "drop"
    turns, bring = iter(range(50)), Turns.bring

    def counted(self: Turns, rows: int) -> Any:
        next(turns)
        return bring(self, rows)

    monkeypatch.setattr(Turns, "bring", counted)
    (made,) = crawl.generate(urls=1000)
    assert crawl.fetch(made, "first").done == made.urls


def test_no_list_is_made_while_machines_owe_what_they_fetched(
    crawl: Rounds, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.seed()
    catalog, edits = Catalog.open(crawl.job().state), Edits()
    edits.set("streams/1", {"next": 0, "warc": [0, 0], "node": "m7"})
    catalog.commit(edits)
    words = ["generate", str(crawl.path), "-o", f"{crawl.path}-lists", "--urls", "5"]
    assert main.main(words) == ExitCode.FAILED and "m7" in capsys.readouterr().err
    assert not list(Path(f"{crawl.path}-lists").iterdir())


@pytest.mark.parametrize("request_number", [1, 3, 6, 9])
def test_a_fetch_that_is_killed_goes_on_where_it_was(crawl: Rounds, request_number: int) -> None:
    crawl.seed()
    crawl.fetch(*crawl.generate(), "first")
    crawl.update("first")
    (made,) = crawl.generate()
    asked = 0

    def on_request(url: str) -> None:
        nonlocal asked
        asked += 1
        if asked == request_number:
            crawl.kill()

    crawl.on_request = on_request
    with pytest.raises(Killed):
        crawl.fetch(made, "second")
    assert crawl.fetch(made, "second").done == made.urls
    crawl.update("second")
    sound(crawl)
    assert crawl.run() == ExitCode.DONE
    assert fetched(crawl) == set(crawl.web.answers)
    repeats = sum(crawl.web.pages_asked.values()) - len(crawl.web.answers)
    assert repeats <= made.hosts, "at most what was in flight, one a host"


def test_a_fetch_that_was_killed_can_be_taken_in_as_it_is(crawl: Rounds) -> None:
    crawl.seed()
    crawl.fetch(*crawl.generate(), "first")
    crawl.update("first")
    (made,) = crawl.generate()
    crawl.on_kept = lambda unit: len(crawl.archived) > 8 and crawl.kill()
    with pytest.raises(Killed):
        crawl.fetch(made, "second")
    crawl.on_kept = lambda unit: None
    assert crawl.update("second")[0].taken
    assert total(crawl)[1] >= 8
    sound(crawl)
    assert crawl.run() == ExitCode.DONE
    assert fetched(crawl) == set(crawl.web.answers)


@pytest.mark.parametrize("verb", ["generate", "update"])
def test_a_kill_at_any_step_of_a_verb_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    steps = 0
    while True:
        with monkeypatch.context() as patch:
            crawl = Rounds(tmp_path / str(steps) / "job", web(), SITES, patch)
            if not round_with_a_kill(crawl, verb, steps):
                break
        steps += 7
    assert steps > 20


def round_with_a_kill(crawl: Rounds, verb: str, steps: int) -> bool:
    """A round in which a verb is killed after so many steps and run again; whether it was."""
    died = False

    def run(name: str, call: Callable[[], list[Any]]) -> list[Any]:
        nonlocal died
        files.left = steps if verb == name else None
        try:
            return call()
        except Killed:
            died, files.left = True, None
            sound(crawl)
            return call()
        finally:
            files.left = None

    crawl.path.parent.mkdir()
    crawl.seed()
    crawl.files = files = DyingFiles()
    run("generate", crawl.generate)
    (path,) = Path(f"{crawl.path}-lists").glob("list-*.seg")
    assert crawl.fetch(Made(str(path), 4, 4), "first").done == 4
    run("update", lambda: crawl.update("first"))
    sound(crawl)
    assert crawl.run() == ExitCode.DONE
    assert crawl.web.pages_asked == dict.fromkeys(crawl.web.answers, 1)
    assert fetched(crawl) == set(crawl.web.answers)
    return died


class DyingFiles(Files):
    """`left` operations that change something are carried out, then everything is killed; None: all are."""

    left: int | None = None

    def _step(self) -> None:
        if self.left is not None:
            if not self.left:
                raise Killed
            self.left -= 1

    def write(self, handle: int, data: Data) -> None:
        self._step()
        super().write(handle, data)

    def rename(self, old: FilePath, new: FilePath) -> None:
        self._step()
        super().rename(old, new)

    def link(self, old: FilePath, new: FilePath) -> None:
        self._step()
        super().link(old, new)

    def create(self, path: FilePath) -> int:
        self._step()
        return super().create(path)
