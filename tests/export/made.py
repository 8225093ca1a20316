"""JOBs made for a test: archives with the captures that it names, and nothing else of a crawl."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from drum.files import Files

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import NO_SEGMENT, Carried, Source
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.archive.warc import WarcWriter, warcinfo_values
from irlcrawl.worker.archive.window import Window

START = 1_700_000_000.0


@dataclass
class Page:
    """A response; with reason other than OK an outcome without one."""

    url: str
    body: bytes = b""
    header: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})
    status: int = 200
    raw: bytes | None = None  # the header as it came
    reason: Reason = Reason.OK
    robots: bool = False
    depth: int = 1
    truncated: str | None = None
    wishes: str = ""
    source: Source = Source.LINK


def make_job(
    path: Path, pages: Iterable[Page] = (), *, stream: int = 1, roll_bytes: int = 1 << 30, dedupe_bytes_min: int = 0
) -> JobDir:
    """A JOB whose archives have these pages, a second each; or more archives for one that is there."""
    job = JobDir(path)
    with job:
        if not job.exists():
            job.write_config(to_toml(Config()))
    add(job, pages, stream=stream, roll_bytes=roll_bytes, dedupe_bytes_min=dedupe_bytes_min)
    return job


def add(
    job: JobDir, pages: Iterable[Page], *, stream: int, roll_bytes: int = 1 << 30, close: bool = True,
    dedupe_bytes_min: int = 0,
) -> None:  # fmt: skip
    """Archives of another stream."""
    clock = VirtualClock(START + stream * 1000)
    info = warcinfo_values(software="irlcrawl/0", user_agent="test", operator="", is_part_of="")
    writer = WarcWriter(
        Files(), job.warcs, "test", stream, info=info, roll_bytes=roll_bytes, gzip_level=1, clock=clock,
        dedupe_bytes_min=dedupe_bytes_min,
        window=Window(Files(), str(job.path / "window"), 1000, "test") if dedupe_bytes_min else None,
    )  # fmt: skip
    for number, page in enumerate(pages):
        writer.append(*unit_of(page, clock.now() + number + number / 8))
    if close:
        writer.close()


def unit_of(page: Page, at: float) -> tuple[Unit, Exchange | None]:
    url, fetched = page.url.encode(), page.reason == Reason.OK
    segment = NO_SEGMENT if page.robots else 0
    cls = Class.FETCHED if fetched else Class.FAILED
    unit = Unit(url, segment, 0, 0, 0, Carried(page.depth, 0, page.source, 0), cls, page.reason, page.status, at, 12)
    unit.wishes = page.wishes
    if not fetched:
        return unit, None
    lines = [f"HTTP/1.1 {page.status} Said", *(f"{name}: {value}" for name, value in page.header.items()), "", ""]
    header = page.raw if page.raw is not None else "\r\n".join(lines).encode()
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    return unit, Exchange(url, "127.0.0.1", request, header, page.body, page.truncated)
