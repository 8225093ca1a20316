"""takedown: what was stored of some URLs is gone afterwards, and everything that reads a crawl says so and agrees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drum import Files
from drum.catalog import Catalog

import pytest
from warcio.archiveiterator import ArchiveIterator

from irlcrawl.ask.get import Unavailable, get
from irlcrawl.ask.outcomes import last_words
from irlcrawl.ask.why import why
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError
from irlcrawl.base.job_files import LOCK
from irlcrawl.base.reasons import Reason
from irlcrawl.cli import main
from irlcrawl.config.keys import ConfigError
from irlcrawl.config.lists import opt_out
from irlcrawl.crawl.status import read_status
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.takedown import Takedown, told
from irlcrawl.upkeep.takedown_log import Mending
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.worker.archive import log_parts, payloads
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.known import Known
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.unit import Unit
from tests.crawl.test_dedupe_from import PAGES, SITE, crawled, web
from tests.crawl.virtual_crawl import START, Answer, Crawl, Web
from tests.upkeep import three_sites
from tests.upkeep.conftest import Copy, save_config

HOST = "a.two.test"
URL = f"http://{HOST}/3"


def takedown(
    job: JobDir, files: Files | None = None, kind: str = "host", what: str = HOST, say: Callable[[str], None] = len
) -> Takedown:
    work = Takedown(job, OptOuts([opt_out(kind, what, "2026-11-02")]), "by mail", START, Bar(), files or Files())
    with job:
        work.run()
        told(work, say)
        work.end()
    return work


def urls(job: JobDir) -> dict[str, str]:
    """URL -> reason."""
    return {entry.url.decode(): entry.reason for entry in last_words(job)}


def held(job: JobDir) -> set[str]:
    """URLs of which the archives hold an answer, as warcio reads them."""
    found = set()
    for path in sorted(job.warcs.iterdir()):
        with open(path, "rb") as stream:
            for one in ArchiveIterator(stream, check_digests="raise"):
                one.content_stream().read()
                if one.rec_type == "response":
                    found.add(one.rec_headers["WARC-Target-URI"])
    return found


def urls_in(archive: Path) -> set[str | None]:
    return {record.fields.get("warc-target-uri") for record in records(Files(), str(archive))}


def sound(job: JobDir, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether fsck and verify find no damage."""
    codes = [main.main([verb, str(job.path), "--quiet"]) for verb in ("fsck", "verify")]
    told = capsys.readouterr().out
    assert codes == [ExitCode.DONE] * 2, told
    return "in it taken down" in told


def test_of_a_host_nothing_is_left_and_every_verb_says_so(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("done")
    before, sizes = urls(job), {path.name: path.stat().st_size for path in job.warcs.iterdir()}
    ours = {url for url in held(job) if f"//{HOST}/" in url}
    others = held(job) - ours
    assert URL in ours and f"http://{HOST}/robots.txt" in ours
    page = get(job.path, "http://b.two.test/")
    work = takedown(job)
    assert work.records == work.lines == len(ours) and not work.away
    assert held(job) == others and {path.name: path.stat().st_size for path in job.warcs.iterdir()} == sizes
    assert sound(job, capsys)
    after = urls(job)
    fetched = {url for url, reason in before.items() if reason != "robots" and f"//{HOST}/" in url}
    assert after == {url: "taken_down" if url in fetched else reason for url, reason in before.items()}
    with pytest.raises(Unavailable, match=f"{URL}: taken down at 2001-09-09T01:46:40.000Z: by mail"):
        get(job.path, URL)
    assert b"Irlcrawl-Taken-Down: 2001-09-09T01:46:40.000Z\r\n" in get(job.path, URL, "record")
    assert get(job.path, "http://b.two.test/") == page
    told = why(job, URL, START)
    assert told["stands"] == "done: fetched, taken_down" and told["history"][-1]["taken_down"].startswith("2001-")
    counters = Catalog.open(job.state, readonly=True).get("counters")["fetched_by_reason"]
    assert counters["taken_down"] == len(fetched)
    assert sum(counters.values()) == len([reason for reason in before.values() if reason != "robots"])
    assert main.main(["urls", str(job.path), "--with", "taken_down", "--host", HOST]) == ExitCode.DONE
    assert len(capsys.readouterr().out.splitlines()) == len(fetched) + 1  # and its robots.txt
    assert read_status(job)["fetched_by_reason"] == counters, "status told the outcomes of before until the next run"


def test_indexes_of_the_log_told_of_what_was_taken_down(
    copy: Copy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("irlcrawl.ask.log_index_build.LOG_BYTES_LEAST", 100)
    job = copy("done")
    asked = ["urls", str(job.path), "--host", HOST]
    assert main.main(asked) == ExitCode.DONE and "\tok\t" in capsys.readouterr().out
    assert [name for name in os.listdir(job.indexes) if name.startswith("log-")]
    takedown(job)
    for _ in range(2):
        assert main.main(asked) == ExitCode.DONE
        told = capsys.readouterr().out
        assert "taken_down" in told and "\tok\t" not in told


def test_a_second_time_there_is_nothing_to_do(copy: Copy) -> None:
    job = copy("done")
    takedown(job)
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in job.path.rglob("*") if path.is_file()}
    work = takedown(job)
    assert work.records == work.lines == 0
    lock = job.lock_file  # has the number of the process
    assert all((path.read_bytes(), path.stat().st_ino) == was for path, was in before.items() if path != lock)


def test_a_crawl_goes_on_after_it_and_fetches_nothing_of_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    crawl.config.limits.pages = 90
    assert crawl.run() == ExitCode.SIZE_LIMIT
    job = save_config(crawl)
    work = takedown(job, what="a.one.test")
    assert work.records > 2
    crawl.config.limits.pages = 0
    assert crawl.run() == ExitCode.DONE  # which checks that no URL is fetched or done twice
    assert list(crawl.outcomes().values()).count(("fetched", "taken_down")) >= work.records - 1
    assert sound(save_config(crawl), capsys)


def test_a_crawl_that_was_killed_has_to_end_first(copy: Copy) -> None:
    job = copy("killed")
    with pytest.raises(JobError, match="did not end cleanly; go on with it"):
        takedown(job)


def test_snapshots_have_it_no_longer_and_share_their_archives_still(
    copy: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    job = copy("done")
    assert main.main(["snapshot", str(job.path), "kept"]) == ExitCode.DONE
    shot = JobDir(job.snapshots / "kept")
    assert URL in held(shot)
    takedown(job)
    assert held(shot) == held(job) and URL not in held(shot)
    for path in job.warcs.iterdir():
        assert os.path.samefile(path, shot.warcs / path.name)
    assert main.main(["fsck", str(shot.path), "--quiet"]) == ExitCode.DONE, capsys.readouterr().out
    with pytest.raises(Unavailable, match="taken down at 2001"):
        get(shot.path, URL)


def test_a_copy_that_a_snapshot_made_of_an_open_archive_is_cleaned_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    taken = []

    def snap(url: str) -> None:
        if not taken and len(crawl.web.log) > 100:
            save_config(crawl)
            taken.append(main.main(["snapshot", str(crawl.path), "early"]))

    crawl.on_request = snap
    assert crawl.run() == ExitCode.DONE and taken == [ExitCode.DONE]
    shot = JobDir(crawl.path / "snapshots" / "early")
    gone = {url for url in held(shot) if "//a.one.test/" in url}
    assert gone
    takedown(JobDir(crawl.path), what="a.one.test")
    assert not gone & held(shot)
    assert main.main(["fsck", str(shot.path), "--quiet"]) == ExitCode.DONE


def test_an_archive_that_is_away_is_named_and_done_when_it_is_back(
    copy: Copy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = copy("done")
    one = next(path for path in sorted(job.warcs.iterdir()) if URL in urls_in(path))
    away = Path(shutil.move(one, tmp_path / one.name))
    options = [str(job.path), URL, "--reason", "by mail", "--quiet"]
    assert main.main(["takedown", *options]) == ExitCode.FAILED
    assert f"NOT taken down: 1 record in {one.name}, which is away" in capsys.readouterr().out
    assert urls(job)[URL] == "ok"
    one.symlink_to(away)  # a link in its place is as good
    assert main.main(["takedown", *options]) == ExitCode.DONE and urls(job)[URL] == "taken_down"
    assert one.is_symlink() and URL not in held(job)
    assert sound(job, capsys)


def test_a_page_that_was_put_back_and_fetched_again_is_gone_both_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = three_sites.crawl_of(tmp_path / "job", monkeypatch)
    assert crawl.run() == ExitCode.DONE
    job, gone = save_config(crawl), "http://a.two.test/gone"
    assert main.main(["retry", str(job.path), "--status", "404"]) == ExitCode.DONE
    crawl.archived.discard(gone.encode())
    assert crawl.run() == ExitCode.DONE
    assert takedown(job, kind="url", what=gone).records == 2
    lines = [entry for entry in log_parts.read(Files(), str(job.crawl_log)) if entry.url == gone.encode()]
    assert [(one.outcome, one.reason) for one in lines] == [
        ("fetched", "http_error"), ("returned", "http_error"), ("fetched", "taken_down"),
    ]  # fmt: skip
    assert all("taken_down" in one.notes for one in lines if one.outcome == "fetched") and sound(job, capsys)
    assert main.main(["retry", str(job.path), "--status", "404"]) == ExitCode.DONE
    assert "nothing to put back" in capsys.readouterr().out


def test_a_repair_after_it_brings_nothing_back(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """Out of the archives alone: state and log are gone."""
    job = copy("done")
    before = urls(job)
    takedown(job)
    for path in job.logs.iterdir():
        path.unlink()
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    after = urls(job)
    assert {url for url, reason in after.items() if reason == "taken_down"} == {
        url for url, reason in before.items() if f"//{HOST}/" in url and reason != "robots"
    }
    capsys.readouterr()
    assert sound(job, capsys)


class Dies(Files):
    """Changes of the disk up to the n-th; then the process is gone, and makes none any more."""

    def __init__(self, after: int) -> None:
        self.left = after

    def _one(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def __getattribute__(self, name: str) -> Any:
        if name in ("create", "append", "write", "rename", "link", "unlink", "truncate", "fsync"):
            object.__getattribute__(self, "_one")()
        return object.__getattribute__(self, name)


POINTS = 8


def changes(job: JobDir) -> list[int]:
    """Numbers of changes after which it dies: some all along, and the last ones, where the log is mended."""
    counting = Dies(10**6)
    takedown(job, counting, kind="site", what="two.test")
    number = 10**6 - counting.left
    return sorted({*range(0, number, number // POINTS), *range(number - POINTS, number, 3)})


def test_a_kill_leaves_a_sound_crawl_and_a_repeat_finishes_it(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    whole = copy("done")
    main.main(["snapshot", str(whole.path), "kept"])
    pattern = whole.path.with_name("pattern")
    shutil.copytree(whole.path, pattern)
    numbers = changes(whole)
    wanted, lines = held(whole), urls(whole)
    for number in numbers:
        shutil.rmtree(whole.path)
        shutil.copytree(pattern, whole.path)
        with pytest.raises(KeyboardInterrupt):
            takedown(whole, Dies(number), kind="site", what="two.test")
        whole.release()
        assert main.main(["fsck", str(whole.path), "--quiet"]) == ExitCode.DONE, (number, capsys.readouterr().out)
        takedown(whole, kind="site", what="two.test")
        assert (held(whole), urls(whole)) == (wanted, lines), number
        assert not [path.name for path in whole.path.rglob("*.tmp")], number
        assert held(JobDir(whole.snapshots / "kept")) == wanted, number
    assert sound(whole, capsys)


def test_the_command(copy: Copy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = copy("done")
    (listed := tmp_path / "list").write_text("url http://a.two.test/4 2026-11-02 from the list\n")
    assert main.main(["takedown", str(job.path), URL, "--dry-run"]) == ExitCode.DONE  # nothing that needs a reason
    assert capsys.readouterr().out == f"200\tok\t{URL}\n" and URL in held(job)
    assert main.main(["takedown", str(job.path), "--opt-out", str(listed), "--quiet"]) == ExitCode.DONE
    assert capsys.readouterr().out == "taken down: 1 record, 1 line of the crawl log\n"
    with pytest.raises(Unavailable, match="from the list"):
        get(job.path, "http://a.two.test/4")
    assert main.main(["takedown", str(job.path), "--match", "/7$", "--reason", "x", "--quiet"]) == ExitCode.DONE
    assert capsys.readouterr().out == "taken down: 12 records, 12 lines of the crawl log\n"
    assert main.main(["takedown", str(job.path), "--match", "/7$", "--reason", "x", "--quiet"]) == ExitCode.DONE
    assert "nothing of what was named is stored here" in capsys.readouterr().out
    with job:
        assert main.main(["takedown", str(job.path), URL, "--reason", "x", "--quiet"]) == ExitCode.LOCKED


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "nothing named"),
        ([URL], "--reason: required"),
        (["--host", "http://a/b", "--reason", "x"], "takes a host's name"),
        (["--match", "(", "--reason", "x"], "not an RE2 pattern: missing ): ("),  # said b'missing ): ('
        (["--opt-out", "/none"], "--opt-out = /none: cannot be read: No such file or directory\n"),
    ],
)
def test_a_wrong_command_line_is_told(
    copy: Copy, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    assert main.main(["takedown", str(copy("done").path), *options]) == ExitCode.CONFIG
    assert told in capsys.readouterr().err


def test_opt_outs_raise_by_themselves() -> None:
    with pytest.raises(ConfigError):
        opt_out("url", "", "2026-11-02")


def test_captures_that_nobody_named_lost_their_bodies_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A body that several URLs have is stored once, with the first of them."""
    web = Web({})
    same = Answer(200, {"content-type": "text/plain"}, b"licence " * 500)
    web.answers |= {"http://me.test/": same, "http://other.test/": same}
    crawl = Crawl(tmp_path / "job", web, ["http://me.test/", "http://other.test/"], monkeypatch)
    assert crawl.run() == ExitCode.DONE
    save_config(crawl)
    (last,) = (one for one in last_words(crawl.job()) if "warcRevisit:digest" in one.notes)
    second = last.url.decode()
    first = ({"http://me.test/", "http://other.test/"} - {second}).pop()
    for url, bereft in ((second, False), (first, True)):
        assert main.main(["takedown", str(crawl.path), url, "--dry-run"]) == ExitCode.DONE
        listed = capsys.readouterr().out
        assert (f"{second}\tnot named: its body is stored with one of these" in listed) == bereft
    assert main.main(["takedown", str(crawl.path), first, "--reason", "x"]) == ExitCode.DONE
    assert "with them went the bodies of 1 capture of other URLs" in capsys.readouterr().out
    assert main.main(["get", str(crawl.path), second]) == ExitCode.FAILED
    assert ": x; its body stood in a record of another visit or URL" in capsys.readouterr().err, "why was not said"


def test_a_body_that_was_whole_somewhere_else_hid_which_captures_lost_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revisit record names one record of one file; two workers stored the same body, each for two hosts."""
    hosts = [f"http://{name}.test/" for name in "abcd"]
    web = Web(fetch_s=0.05)
    web.answers |= dict.fromkeys(hosts, Answer(200, {"content-type": "text/plain"}, b"licence " * 500))
    crawl = Crawl(tmp_path / "job", web, hosts, monkeypatch, workers=2)
    crawl.config.archive.dedupe_window = 0
    assert crawl.run() == ExitCode.DONE
    job = save_config(crawl)
    borrowed = [url for url in hosts if "warcRevisit:digest" in next(logged(job, url)).notes]
    assert len(borrowed) == 2, "each worker stored it once"
    for url in hosts:
        copy = JobDir(shutil.copytree(job.path, tmp_path / "copy", dirs_exist_ok=True))
        named = OptOuts([opt_out("url", url, "2026-11-02")])
        told = {entry.url.decode() for entry in Takedown(copy, named, "", START, Bar()).search().bereft}
        assert takedown(copy, kind="url", what=url).beyond[0].bereft == len(told) == (url not in borrowed)
        assert told == {other for other in hosts if other != url and not body_of(copy, other)}
        shutil.rmtree(copy.path)


def logged(job: JobDir, url: str) -> Iterator[LogEntry]:
    return (entry for entry in log_parts.read(Files(), str(job.crawl_log)) if entry.url == url.encode())


def body_of(job: JobDir, url: str) -> bytes:
    """What `get` gives; empty if the archive has none."""
    try:
        return get(job.path, url)
    except Unavailable:
        return b""


def test_a_body_in_an_earlier_crawl_stayed_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawled(tmp_path / "first", monkeypatch, web(), [])
    second = crawled(tmp_path / "second", monkeypatch, web(changed=2), [tmp_path / "first"]).job()
    assert takedown(second, kind="url", what=SITE).beyond[0].elsewhere == 1
    told = "NOT cleaned: 1 record of an earlier crawl (archive.dedupe_from) with such a body: run it there, too\n"
    assert main.main(["takedown", str(second.path), f"{SITE}1", "--dry-run"]) == ExitCode.DONE
    assert capsys.readouterr().out.endswith(f"would {told.replace('cleaned', 'be cleaned')}")
    assert main.main(["takedown", str(second.path), f"{SITE}1", "--reason", "x", "--quiet"]) == ExitCode.DONE
    assert capsys.readouterr().out.endswith(told)
    assert not any(takedown(second, kind="url", what=f"{SITE}{PAGES - 1}").beyond)  # its body is its own


def test_a_taken_down_304_kept_the_header_of_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Set-Cookie and all; and records of pages that were visited again kept their digest and their ETag."""
    site, body = "http://a.test/", b"<p>" + b"some words of a person " * 100
    web = Web({}, fetch_s=0.05)
    visits = iter(range(10**6))
    told = {"content-type": "text/html", "etag": '"tag-of-john"', "set-cookie": "secret=john"}
    web.moods["a.test"] = lambda url, now: Answer(304 if next(visits) else 200, told, body) if url == site else None
    crawl = Crawl(tmp_path / "job", web, [site], monkeypatch)
    crawl.config.revisit.enabled, crawl.config.limits.pages = True, 4
    crawl.config.revisit.every_min_seconds, crawl.config.revisit.first_rate_days = 30.0, 600 / 86400
    assert crawl.run() == ExitCode.SIZE_LIMIT
    job = save_config(crawl)
    kinds = [entry.reason for entry in logged(job, site)]
    assert kinds.count("not_modified") >= 2
    takedown(job, kind="host", what="a.test")
    units = [
        Unit.from_json(one.unit, b"")
        for path in job.warcs.iterdir()
        for one in records(Files(), str(path))
        if one.unit is not None and one.fields["warc-target-uri"] == site
    ]
    assert len(units) == len(kinds) and all(unit.reason == Reason.TAKEN_DOWN for unit in units)
    assert not any(unit.header or unit.borrowed or unit.size is not None for unit in units)
    assert [unit.page for unit in units if unit.page is not None] == [
        Known(visits=number) for number in range(1, len(units))
    ]
    assert sound(job, capsys)
    for path in job.logs.iterdir():
        path.unlink()
    assert main.main(["fsck", str(job.path), "--repair", "--quiet"]) == ExitCode.DONE
    assert urls(job)[site] == "taken_down"


def test_the_log_kept_where_a_page_led(copy: Copy) -> None:
    """canonical=, redirect=, and the annotations of plug-ins tell what the page said."""
    job = copy("done")
    (entry,) = logged(job, URL)
    entry.notes |= {"canonical": "http://a.test/john", "redirect": "http://a.test/jane", "names.person": "joe"}
    Mending(job, OptOuts([]), "x", START, (), Files()).said(entry, "asked")
    assert not {"canonical", "redirect", "names.person"} & entry.notes.keys()
    assert entry.notes["detail"] == "asked" and entry.notes["outcome"] == "fetched" and entry.warc


def test_logs_of_snapshots_say_it_too(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """A crawl that was opened from one referred to bodies that were gone (archive.dedupe_from)."""
    job = copy("done")
    assert main.main(["snapshot", str(job.path), "kept"]) == ExitCode.DONE
    takedown(job)
    shot, opened = JobDir(job.snapshots / "kept"), job.path.with_name("opened")
    assert urls(shot) == urls(job)
    assert main.main(["fsck", str(shot.path), "--quiet"]) == ExitCode.DONE, capsys.readouterr().out
    assert main.main(["snapshots", str(job.path), "--open", "kept", str(opened)]) == ExitCode.DONE
    assert main.main(["fsck", str(opened), "--quiet"]) == ExitCode.DONE, capsys.readouterr().out
    assert not [one for one in payloads.told(os.fspath(opened), 0, Bar) if HOST.encode() in one.uri]


def test_another_name_of_an_archive_stayed_unsaid(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as that of a round, which `update` linked."""
    job = copy("done")
    assert main.main(["snapshot", str(job.path), "kept"]) == ExitCode.DONE  # which is cleaned
    one = next(path for path in sorted(job.warcs.iterdir()) if URL in urls_in(path))
    os.link(one, job.path.with_name(one.name))
    capsys.readouterr()
    lines = []
    for options in ("--dry-run",), ("--reason", "x", "--quiet"):
        assert main.main(["takedown", str(job.path), "--host", HOST, *options]) == ExitCode.DONE
        lines.append([line for line in capsys.readouterr().out.splitlines() if "has another name" in line])
    assert lines[0] == [f"would {line.replace('cleaned', 'be cleaned')}" for line in lines[1]]
    assert len(lines[1]) == 1 and lines[1][0].startswith("NOT cleaned") and one.name in lines[1][0]


def test_a_snapshot_that_was_not_finished_kept_what_was_taken_down(
    copy: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was not cleaned; of an archive that it shares the takedown said that it had a name outside of the crawl."""
    job = copy("done")
    assert main.main(["snapshot", str(job.path), "kept"]) == ExitCode.DONE
    (job.snapshots / "kept").rename(job.snapshots / ".kept")
    work = takedown(job)
    assert work.records and not any(work.beyond)
    assert not (job.snapshots / ".kept").exists()


def test_indexes_kept_the_digests_of_what_was_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crawled(tmp_path / "first", monkeypatch, web(), [])
    job = crawled(tmp_path / "second", monkeypatch, web(changed=2), [tmp_path / "first"]).job()
    assert main.main(["export", "cdxj", str(job.path), "-o", str(tmp_path / "cdxj"), "--quiet"]) == ExitCode.DONE
    (index,) = job.indexes.glob("*.cdxj")
    shutil.copy(index, job.indexes / f"{index.name}.7.tmp")  # of an export that was killed
    (other := job.indexes / "another.cdxj").touch()
    takedown(job, kind="url", what=SITE)
    assert {path.name for path in job.indexes.iterdir()} == {other.name, LOCK}
    takedown(job, kind="url", what=SITE)
    assert other.exists()
