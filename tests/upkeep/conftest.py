"""Crawls to check, damage and repair: made once, copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.config.toml import to_toml
from irlcrawl.worker.archive.warc import WarcWriter
from irlcrawl.worker.fetch import service
from tests.crawl.virtual_crawl import Crawl, Killed
from tests.upkeep import three_sites

Copy = Callable[[str], JobDir]


def save_config(crawl: Crawl) -> JobDir:
    job = JobDir(crawl.path)
    job.write_config(to_toml(crawl.config))
    return job


def rolling(crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    """With logs and archives so small that there are several."""
    crawl.config.archive.log_roll_bytes = 8000
    small = lambda *known, **more: WarcWriter(*known, **{**more, "roll_bytes": 30_000})  # noqa: E731
    monkeypatch.setattr(service, "WarcWriter", small)
    return crawl


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`killed` at its 90th request, `stopped` by a limit, `done`: crawls of one web, with small logs and archives."""
    base, jobs = tmp_path_factory.mktemp("crawls"), {}
    for name in ("killed", "stopped", "done"):
        with pytest.MonkeyPatch.context() as monkeypatch:
            crawl = three_sites.crawl_of(base / name, monkeypatch)
            rolling(crawl, monkeypatch)
            crawl.config.limits.pages = 90 if name == "stopped" else 0
            requests = iter(range(1, 10_000))
            if name == "killed":
                crawl.on_request = lambda _, crawl=crawl, requests=requests: (  # type: ignore[misc]
                    crawl.kill() if next(requests) == three_sites.KILLED_AT else None
                )
                with pytest.raises(Killed):
                    crawl.run()
            else:
                assert crawl.run() in (ExitCode.DONE, ExitCode.SIZE_LIMIT)
            save_config(crawl)
            jobs[name] = base / name
    return jobs


@pytest.fixture
def copy(made: dict[str, Path], tmp_path: Path) -> Copy:
    """copy(name) -> a JOB of that kind to do with as one likes."""

    def copy(name: str) -> JobDir:
        target = tmp_path / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made[name], target)
        return JobDir(target)

    return copy
