"""Every file of a crawl that does not run, damaged in every way that is told apart: fsck, start and repair agree.

    .venv/bin/python -m tests.upkeep.damages [--every K]

Of each damage: where fsck finds nothing, a start goes on; where a start refuses, it says file and fix, and fsck finds
damage; after --repair a start goes on, and fsck finds nothing but what is broken inside archives, which nobody can make
again. Whoever goes on ends with every URL done once, and with a unit for each that counts as fetched.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drum import Damaged

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDamaged, JobDir
from irlcrawl.cli import main
from irlcrawl.config.toml import load_stored, to_toml
from irlcrawl.crawl import schedule
from irlcrawl.terminal.progress import Bar
from irlcrawl.upkeep.findings import Finding
from irlcrawl.upkeep.fsck import Fsck
from tests.crawl.virtual_crawl import Killed
from tests.upkeep import three_sites
from tests.upkeep.conftest import rolling
from tests.upkeep.test_snapshot import everything

QUIET_FROM, KILLED_AT = 100, 220
"""Requests of the killed crawl: from when on no turn takes a harvest, and which one is its last."""
LATER_S = 86_400.0
JUNK = b"junk behind the end, of 37 bytes, see"
SECTOR = 512
SKIPPED = ("LOCK", "irlcrawl.log", "ballast")


@dataclass(frozen=True)
class Damage:
    """How a file is changed."""

    file: str  # in JOB
    how: str  # cut, junk, zeros, deleted
    at: int = 0

    def do(self, job: Path) -> None:
        path = job / self.file
        if self.how == "deleted":
            path.unlink()
            return
        data = path.read_bytes()
        made = {
            "cut": data[: self.at],
            "junk": data + JUNK,
            "zeros": data[: self.at] + bytes(min(SECTOR, len(data) - self.at)) + data[self.at + SECTOR :],
        }
        path.write_bytes(made[self.how])


def make(path: Path, kind: str) -> Path:
    """JOB of a crawl that was `stopped` by a limit, `killed` with harvests that no commit names and units that no
    harvest covers, or killed with a part of its crawl log `rolled` and not compressed yet. Logs and archives are small,
    and its configuration is in the catalogue."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = rolling(three_sites.crawl_of(path, monkeypatch), monkeypatch)
        requests = iter(range(1, 10_000))

        def on_request(_: str) -> None:
            number = next(requests)
            assert crawl.loop is not None
            if kind == "rolled" and "rolled_crc" in crawl.loop.state.catalog.get("log", {}):
                crawl.kill()
            elif kind == "killed" and number == QUIET_FROM:
                monkeypatch.setattr(schedule.Schedule, "should_turn", lambda *_: False)
            elif kind == "killed" and number == KILLED_AT:
                crawl.kill()

        if kind == "killed":
            monkeypatch.setattr(schedule, "ROWS_WANTED_MIN", 1000)  # enough to crawl on without a turn
            crawl.config.frontier.harvest_seconds = 1.0
        crawl.on_request = on_request
        crawl.config.limits.pages = 90 if kind == "stopped" else 0
        path.mkdir()
        JobDir(path).write_config(to_toml(crawl.config))
        with contextlib.suppress(Killed):
            assert crawl.run() == ExitCode.SIZE_LIMIT
    return path


def damages(job: Path) -> Iterator[Damage]:
    for path in sorted(path for path in job.rglob("*") if path.is_file() and path.name not in SKIPPED):
        name, size = str(path.relative_to(job)), path.stat().st_size
        yield Damage(name, "deleted")
        yield Damage(name, "junk")
        for at in sorted({size * part // 8 for part in range(8)} | {max(size - 1, 0)} if size else ()):
            yield Damage(name, "cut", at)
        for at in sorted({size * part // 4 // SECTOR * SECTOR for part in range(5)} if size else ()):
            if at < size:
                yield Damage(name, "zeros", at)


def findings(job: Path) -> list[Finding]:
    return [found for found in Fsck(JobDir(job), Bar(io.StringIO())).run() if found.damage]


def command(*parts: object) -> tuple[int, str]:
    """Exit code and all that a command said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main.main([str(part) for part in parts])
    return code, said.getvalue()


def refusal(job: Path, whole: bool = True) -> str | None:
    """What a start says that does not go on; None for a crawl that ended as it should. whole: its log can be read."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        crawl = rolling(three_sites.crawl_of(job, monkeypatch), monkeypatch)
        crawl.clock.advance(LATER_S)
        try:
            JobDir(job).check_configured()
            assert load_stored(JobDir(job).config_file).network == crawl.config.network
            code = crawl.run()
        except (Damaged, JobDamaged) as error:
            return str(error)
        assert code == ExitCode.DONE
        assert not whole or set(crawl.outcomes()) == everything(crawl)
    return None


def in_archives(found: list[Finding], job: Path) -> bool:
    """Whether all of it is of archives, which nobody can make again."""
    return all(one.file.startswith(str(job / "warcs")) for one in found)


def check(job: Path, damage: Damage, scratch: Path) -> str:
    """How it went: `clean`, `told` (fsck found it, and a start needs it not) or `refused`. AssertionError."""
    harmed, started, mended = (scratch / name for name in ("harmed", "started", "mended"))
    for target in (harmed, started, mended):
        shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(job, harmed)
    damage.do(harmed)
    shutil.copytree(harmed, started)
    shutil.copytree(harmed, mended)
    code, said = command("fsck", harmed, "--quiet")
    assert code in (ExitCode.DONE, ExitCode.DAMAGED), (code, said)
    refused = refusal(started, whole=code == ExitCode.DONE)
    if refused is not None:
        assert code == ExitCode.DAMAGED, f"a start says {refused!r}, and fsck finds nothing"
    elif code == ExitCode.DONE:
        after = findings(started)
        assert not after, f"fsck found nothing before the start, and then {after[:3]}"
    if code == ExitCode.DONE:
        return "clean"
    again, said = command("fsck", mended, "--quiet", "--repair")
    assert again in (ExitCode.DONE, ExitCode.DAMAGED), (again, said)
    left = findings(mended)
    assert (again == ExitCode.DONE) == (not left), (again, left)
    assert in_archives(left, mended), left
    still = refusal(mended)
    assert still is None, f"a start still says {still!r}"
    after = findings(mended)
    assert in_archives(after, mended), after
    return "told" if refused is None else "refused"


def sample(base: Path, every: int, first: int) -> Iterator[tuple[Path, Damage]]:
    for kind in ("killed", "rolled", "stopped"):
        job = make(base / kind, kind)
        for damage in list(damages(job))[first::every]:
            yield job, damage


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    words = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        for job, damage in sample(Path(directory), words.every, words.first):
            if words.only not in f"{job.name} {damage.file} {damage.how}":
                continue
            try:
                told = check(job, damage, Path(directory))
            except Exception as error:
                wrong += 1
                told = f"WRONG {type(error).__name__} {str(error)[:600]}"
            print(job.name, damage, told, flush=True)
    sys.exit(wrong > 0)
