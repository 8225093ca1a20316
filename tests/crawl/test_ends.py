"""How a crawl ends when workers come late or cannot work at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.suspects import DEATHS_MAX
from irlcrawl.worker.archive.log_parts import read
from irlcrawl.worker.fetch import service
from tests.crawl.virtual_crawl import Answer, Crawl, Web, star


class Early(Crawl):
    """Told to stop before its first worker came."""

    tell: Callable[[CrawlLoop], None]

    async def _add_worker(self) -> None:
        assert self.loop is not None
        self.tell(self.loop)
        await super()._add_worker()


def stop(loop: CrawlLoop) -> None:
    loop.stop(ExitCode.INTERRUPTED)


def stop_twice(loop: CrawlLoop) -> None:
    loop.stop(ExitCode.INTERRUPTED)
    loop.abort(ExitCode.FORCED)


@pytest.mark.parametrize(("tell", "code"), [(stop, ExitCode.INTERRUPTED), (stop_twice, ExitCode.FORCED)])
def test_a_worker_that_comes_after_the_stop_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[CrawlLoop], None], code: ExitCode
) -> None:
    """Stop and abort went to the workers there were. One that came a moment later waited for ever, and so did the
    crawl: after two signals while it was opening, only SIGKILL ended it."""
    crawl = Early(tmp_path / "job", Web(star("a.test", 3)), ["http://a.test/"], monkeypatch)
    crawl.tell = tell
    assert crawl.run(hours=0.01) == code
    assert crawl.web.pages_asked.total() == 0


async def linger(crawl: Crawl) -> None:
    """Something for `run` to clean up when no worker is left."""
    crawl.tasks.append(asyncio.ensure_future(asyncio.sleep(1e9)))


def test_workers_that_cannot_work_are_not_replaced_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that could not create its archive died and was replaced, three times a second, and each one asked the
    same host for the same page first."""
    crawl = Crawl(tmp_path / "job", Web(star("a.test", 3)), ["http://a.test/"], monkeypatch)

    def keep(worker: service.Worker, *unit: object) -> None:
        raise PermissionError(13, "Permission denied", "warcs")

    monkeypatch.setattr(service.Worker, "keep", keep)
    assert crawl.run(linger, hours=1) == ExitCode.FAILED
    assert 0 < len(crawl.web.log) <= DEATHS_MAX


@pytest.mark.parametrize("delay", [b"1e308", b"1e9", b"inf", b"nan", b"-1", b"9" * 400, b"0x1p9"])
def test_a_crawl_delay_without_end_kept_a_crawl_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: bytes
) -> None:
    """It was kept, thirty years a page. No valid one is ignored."""
    web = Web(star("a.test", 3) | star("b.test", 3))
    rules = b"User-agent: *\nCrawl-delay: " + delay
    web.answers["http://a.test/robots.txt"] = Answer(200, {"content-type": "text/plain"}, rules)
    crawl = Crawl(tmp_path / "job", web, ["http://a.test/", "http://b.test/"], monkeypatch)
    assert crawl.run(hours=5) == ExitCode.DONE
    asked = [at for at, url in web.log if url.startswith("http://a.test/")]
    gaps = [later - at for at, later in pairwise(asked)]
    log = read(crawl.files, str(crawl.job().crawl_log))
    (robots,) = [entry for entry in log if entry.url == b"http://a.test/robots.txt"]
    if delay.startswith(b"1e"):  # others are no numbers of seconds
        assert len(asked) == 5 and min(gaps) >= 3600
        assert (robots.notes["crawl_delay"], robots.notes["crawl_delay_asked"]) == ("3600", f"{float(delay):g}")
    else:
        assert len(asked) == 5 and max(gaps) < 60
        assert "crawl_delay" not in robots.notes
