"""The real command line as a subprocess, and what it left behind: shared by the end-to-end tests.

A crawl runs in a session of its own, so that a test can kill its whole process group and nothing else. Every wait has a
deadline, after which the group is killed and the test fails with what the crawl said.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from drum.files import Files

from warcio.archiveiterator import ArchiveIterator

from irlcrawl.base.job import JobDir
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.log_parts import read
from tools.sampleweb.server import Ask, Reply

AGENT = "irlcrawl-test/1.0 (+https://crawl.test/; crawl@crawl.test)"
WARCIO = "import sys; sys.modules['brotli'] = None; from warcio.cli import main; main()"
"""With Google's brotli at hand warcio ends with a traceback at a page in brotli."""
NO_GAPS = {
    "politeness.gap_host_seconds": 0,
    "politeness.gap_host_factor": 0,
    "politeness.gap_address_seconds": 0,
}


@dataclass
class Ended:
    """How a run of the command ended."""

    code: int
    seconds: float
    output: str


@dataclass
class Crawl:
    """A crawl in `job`: the same command every time it is run, as a person would repeat it."""

    job: Path
    resolver: str
    seeds: list[str]
    settings: dict[str, object] = field(default_factory=dict)
    allow: str = "127.0.0.0/8"

    def command(self) -> list[str]:
        seeds = self.job.with_suffix(".seeds")
        seeds.write_text("".join(seed + "\n" for seed in self.seeds))
        settings = {
            "crawl.user_agent": AGENT, "crawl.workers": 2,
            "network.resolvers": f'["{self.resolver}"]', "network.allow": f'["{self.allow}"]',
            "politeness.machine_clocks": "",  # tests run beside one another
        } | self.settings  # fmt: skip
        words = [sys.executable, "-m", "irlcrawl", "crawl", str(self.job), "--seeds", str(seeds)]
        return words + [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]

    def start_again(self) -> Running:
        """`resume JOB`: nothing is said but which crawl."""
        return self._start([sys.executable, "-m", "irlcrawl", "crawl", str(self.job)])

    def start(self) -> Running:
        return self._start(self.command())

    def _start(self, command: list[str]) -> Running:
        output = self.job.with_suffix(".out")
        with output.open("a") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )
        return Running(process, output)

    def run(self, timeout_s: float = 60) -> Ended:
        return self.start().wait(timeout_s)


class Running:
    """A crawl that was started."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self.output = output
        self.started = time.monotonic()

    def wait(self, timeout_s: float = 60) -> Ended:
        """How it ended; AssertionError, and the group killed, when it does not within the time."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end after {timeout_s} s; it said:\n{self.output.read_text()[-3000:]}") from None
        return Ended(code, time.monotonic() - self.started, self.output.read_text())

    def signal(self, number: signal.Signals) -> None:
        """To the crawl's first process alone, as `kill PID` does."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL to the whole process group, and wait for its first process."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def log_entries(job: Path) -> list[LogEntry]:
    return list(read(Files(), str(JobDir(job).crawl_log)))


def outcomes(job: Path) -> dict[str, str]:
    """URL -> `fetched`, or `outcome(reason)` of what was not; AssertionError for a URL that is done twice and was not
    put back in between."""
    final = [e for e in log_entries(job) if e.outcome in ("fetched", "failed", "excluded")]
    times = Counter(e.url.decode() for e in final)
    times.subtract(e.url.decode() for e in log_entries(job) if e.outcome == "returned")
    assert [url for url, n in times.items() if n > 1] == []
    return {e.url.decode(): "fetched" if e.outcome == "fetched" else f"{e.outcome}({e.reason})" for e in final}


def responses(job: Path) -> Counter[str]:
    """How many responses the archives hold of each URL, robots.txt aside: whole, or as a duplicate of another."""
    found: Counter[str] = Counter()
    for path in warcs(job):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type in ("response", "revisit"):
                    found[record.rec_headers.get_header("WARC-Target-URI")] += 1
    return Counter({url: n for url, n in found.items() if not url.endswith("/robots.txt")})


def warcs(job: Path) -> list[Path]:
    return sorted(JobDir(job).warcs.iterdir())


def check_warcs(job: Path) -> None:
    """Every archive is closed under its final name, and passes `warcio check`."""
    files = warcs(job)
    assert files and all(f.name.endswith(".warc.gz") for f in files), files
    checked = subprocess.run(
        [sys.executable, "-c", WARCIO, "check", *map(str, files)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr


def page(links: Iterable[str], text: str = "") -> Reply:
    """An HTML page with links."""
    anchors = "".join(f'<p><a href="{link}">{link}</a></p>\n' for link in links)
    return Reply(200, f"<!DOCTYPE html><title>A page</title><p>{text}\n{anchors}".encode())


@dataclass
class Tree:
    """A site's handler: pages /p/0 ... as a binary tree below `/`, every page also linking home, to its parent twice,
    to itself and to a page that robots.txt forbids. What of it must be requested is known: see `targets`."""

    pages: int
    padding: int = 0

    async def __call__(self, ask: Ask) -> Reply:
        if ask.path == "/robots.txt":
            return Reply(200, b"User-agent: *\nDisallow: /secret/\n", "text/plain")
        number = -1 if ask.path == "/" else int(ask.path.removeprefix("/p/"))
        below = [f"/p/{n}" for n in (2 * number + 3, 2 * number + 4) if n < self.pages] if number >= 0 else []
        start = [f"/p/{n}" for n in range(min(3, self.pages))] if number < 0 else []
        above = [f"/p/{(number - 3) // 2}", f"/p/{(number - 3) // 2}#again"] if number >= 3 else []
        return page(["/", *start, *below, *above, f"/secret/{number % 5}"], "x" * self.padding)

    def targets(self) -> set[str]:
        return {"/"} | {f"/p/{n}" for n in range(self.pages)}
