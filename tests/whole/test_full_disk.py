"""Real crawls on a file system of four megabytes, which must be mounted (root): exit 3, words, on with more room."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Serve
from webcrawl import NO_GAPS, Crawl, Tree, check_warcs, outcomes, responses

from irlcrawl.crawl.disk_space import BALLAST_BYTES
from tools.sampleweb.server import Ask, Reply

HOSTS = {f"f{n}.test": f"127.64.0.{n + 1}" for n in range(3)}
PAGES = 150


class Counted(Tree):
    def __init__(self) -> None:
        super().__init__(PAGES)
        self.asked: Counter[str] = Counter()

    async def __call__(self, ask: Ask) -> Reply:
        self.asked[f"{ask.host}{ask.path}"] += ask.path != "/robots.txt"
        return await super().__call__(ask)


def mount(directory: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "irlcrawl-test", str(directory)], check=True, timeout=10)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A directory with 4 MB of room."""
    directory = tmp_path / "small"
    directory.mkdir()
    try:
        mount(directory, "size=4m")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("a tmpfs cannot be mounted here")
    yield directory
    subprocess.run(["umount", str(directory)], check=True, timeout=10)


def leave(directory: Path, free: int) -> None:
    """Fill the disk but for so many bytes."""
    filler = directory / "other-things"
    filler.unlink(missing_ok=True)
    filler.write_bytes(b"x" * (shutil.disk_usage(directory).free - free))


def status(job: Path) -> str:
    command = [sys.executable, "-m", "irlcrawl", "status", str(job), "--json"]
    return str(json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)["state"])


@pytest.mark.parametrize("reserve", [1, 2_000_000])
def test_a_full_disk_ends_the_crawl_with_words_and_more_room_lets_it_go_on(
    serve: Serve, small: Path, reserve: int
) -> None:
    """Cleanly with two megabytes to go, nothing asked for twice; or (1) by ENOSPC in the middle of a write, in flight
    pages again."""

    site = Counted()
    web = serve(site, HOSTS)
    settings = NO_GAPS | {"frontier.harvest_seconds": 0.5, "frontier.disk_reserve_bytes": reserve}
    crawl = Crawl(small / "job", web.resolver, [web.url(host) for host in HOSTS], settings)
    room = shutil.disk_usage(small).free
    (small / "other-things").write_bytes(b"x" * (room - int(1.1 * reserve) - BALLAST_BYTES - 250_000))
    ended = crawl.run()
    assert ended.code == 3, ended.output
    assert "MB are free on the disk of" in ended.output and "the crawl needs" in ended.output
    assert status(crawl.job) == "disk full"
    again = crawl.run()
    assert again.code == 3, again.output
    mount(small, "remount,size=64m")
    ended = crawl.run()
    assert ended.code == 0, ended.output
    expected = {web.url(host, target) for host in HOSTS for target in site.targets()}
    fetched = {url for url, outcome in outcomes(crawl.job).items() if outcome == "fetched"}
    assert fetched == expected and set(responses(crawl.job).values()) == {1}
    check_warcs(crawl.job)
    if reserve > 1:
        assert {times for path, times in site.asked.items() if not path.endswith("/robots.txt")} == {1}


def test_a_disk_that_is_mounted_read_only_is_no_matter_of_permissions(serve: Serve, small: Path, job: Path) -> None:
    """As a kernel remounts a disk with errors: `no permission` sent its reader to the rights of JOB."""
    web = serve(Counted(), HOSTS)
    job.symlink_to(small)
    crawl = Crawl(job, web.resolver, [web.url("f0.test")], NO_GAPS)
    mount(small, "remount,ro")
    ended = crawl.run()
    assert ended.code == 1 and f"its disk is mounted read-only: {job}" in ended.output, ended.output


def said(command: list[str]) -> tuple[int, str]:
    """Exit code and output of a command; with its output kept elsewhere than on the disk that is full."""
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("free", [0, 4 << 10, 12 << 10, 100 << 10])
def test_a_disk_that_is_full_before_a_crawl_begins(serve: Serve, small: Path, free: int) -> None:
    """Full at LOCK, at irlcrawl.toml, at the catalogue, or below the reserve: exit 3 with words each time, and the same
    command crawls when there is room. After the last of these `go on: irlcrawl resume` was advised, which had no seeds
    and said `done`."""
    site = Tree(3)
    web = serve(site, HOSTS)
    crawl = Crawl(small / "job", web.resolver, [web.url("f0.test")], NO_GAPS | {"frontier.disk_reserve_bytes": 1 << 20})
    command = crawl.command()
    leave(small, free)
    for _ in range(2):
        code, output = said(command)
        assert code == 3 and str(crawl.job) in output, output
        assert "resume" not in output and "Traceback" not in output
    (small / "other-things").unlink()
    code, output = said([sys.executable, "-m", "irlcrawl", "resume", str(crawl.job)])
    assert code == 4 and "seeds" in output, output
    code, output = said(command)
    assert code == 0, output
    assert set(outcomes(crawl.job)) >= {web.url("f0.test", target) for target in site.targets()}


def test_a_crawl_whose_words_nobody_reads_goes_on(serve: Serve, job: Path) -> None:
    """`irlcrawl crawl ... | tee` without its tee, words into a file on a full disk, and an output that was closed ended
    the crawl with code 1."""
    site = Tree(3)
    web = serve(site, HOSTS)
    crawl = Crawl(job, web.resolver, [web.url("f0.test")], NO_GAPS)
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    for number, (out, err) in enumerate([(writer, writer), (full, full), (None, None)]):
        crawl.job = job.with_name(f"job{number}")
        command = crawl.command() if out else ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *crawl.command()]
        assert subprocess.run(command, stdout=out, stderr=err, timeout=60).returncode == 0
        assert set(outcomes(crawl.job)) >= {web.url("f0.test", target) for target in site.targets()}
    os.close(writer)
    os.close(full)


def test_a_terminal_that_was_closed_took_the_crawl_with_it(serve: Serve, job: Path) -> None:
    """The hang-up killed frontier and workers, which is safe, and ends a crawl of weeks all the same."""
    site = Tree(20)
    web = serve(site, HOSTS)
    crawl = Crawl(job, web.resolver, [web.url("f0.test")], NO_GAPS | {"politeness.gap_host_seconds": 0.05})
    command = crawl.command()
    process, terminal = pty.fork()
    if not process:
        os.execv(command[0], command)
    assert os.read(terminal, 1), "it says how it goes"
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert set(outcomes(crawl.job)) >= {web.url("f0.test", target) for target in site.targets()}
