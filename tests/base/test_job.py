"""JOB: created only when it can be used, held by one crawl at a time, and freed by the kernel alone."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drum import Files

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError, JobFull, JobLocked
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import load, to_toml

HOLD = """
import os, subprocess, sys
from irlcrawl.base.job import JobDir
job = JobDir(sys.argv[1])
job.acquire()
child = [sys.executable, "-c", "import sys; print('child', flush=True); sys.stdin.read()"]
if len(sys.argv) > 2:
    subprocess.Popen(child, pass_fds=job.lock_fds).wait()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds JOB until its standard input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline().strip() in ("held", "child")
        yield process
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()


def test_two_jobs_that_lead_to_the_same_archives_do_not_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a JOB whose warcs are on another disk: each recovered what the other was writing."""
    monkeypatch.setattr("irlcrawl.base.job.LOCK_WAIT_SECONDS", 0.0)
    first, copied = JobDir(tmp_path / "first"), JobDir(tmp_path / "copied")
    (tmp_path / "disk").mkdir()
    for job in (first, copied):
        job.path.mkdir()
        job.warcs.symlink_to(tmp_path / "disk")
        job.lock_file.touch()
    with first:
        with pytest.raises(JobLocked, match="another crawl"):
            copied.acquire()
        with pytest.raises(JobLocked, match="another crawl"):
            copied.acquire_to_look()
        assert not copied.is_locked() and not copied.lock_fds
    with copied:
        pass


def test_a_new_job_has_its_places_and_its_lock(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "deep" / "job")
    assert not job.exists() and not job.is_locked()
    with job:
        assert sorted(entry.name for entry in job.path.iterdir()) == ["LOCK", "logs", "state", "warcs"]
        assert len(job.lock_fds) == 2 and all(map(os.get_inheritable, job.lock_fds))
        assert job.is_locked()
        assert not job.exists(), "a crawl is there once it has a configuration"
        job.write_config("# first\n")
        job.write_config("# second\n")
        assert job.exists() and job.config_file.read_text() == "# second\n"
    assert not job.lock_fds and not job.is_locked()
    assert "irlcrawl.toml.tmp" not in os.listdir(job.path)
    with job:
        assert job.is_locked(), "it can be taken again"


def test_a_second_crawl_is_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "job"
    with holder(path) as process:
        with pytest.raises(JobLocked, match=f"in use by process {process.pid}") as caught:
            JobDir(path).acquire(wait_seconds=0.1)
        assert caught.value.code == ExitCode.LOCKED
        assert not JobDir(path).wait_unlocked(0.1)
    JobDir(path).acquire(wait_seconds=0.0)


def test_whoever_only_looks_is_not_said_to_be_the_crawl_before(tmp_path: Path) -> None:
    """While fsck had the lock, a start named the process of the last crawl, which was gone, or another's by now."""
    with JobDir(tmp_path / "job") as job:
        pass
    job.lock_file.write_text("99999999\n")  # more than there can be
    job.acquire_to_look()
    with pytest.raises(JobLocked, match="in use by a crawl, or a check of it"):
        JobDir(job.path).acquire(wait_seconds=0.0)
    job.release()


def test_a_lock_that_is_freed_meanwhile_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "job"
    with holder(path) as process:
        process.send_signal(signal.SIGKILL)
        JobDir(path).acquire(wait_seconds=30.0)


def test_a_worker_that_inherited_the_lock_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "job"
    with holder(path, "child") as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert JobDir(path).is_locked(), "the child still holds it"
    assert JobDir(path).wait_unlocked(30.0)


@pytest.mark.parametrize("path", ["file", "file/job", "file/a/b", "link"])
def test_what_cannot_be_a_directory(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "else")
    for use in (JobDir.check_usable, JobDir.acquire):
        with pytest.raises(JobError, match=str(tmp_path)) as caught:
            use(JobDir(tmp_path / path))
        assert caught.value.code == ExitCode.FAILED
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_somebodys_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(JobError, match="other things in it"):
        JobDir(tmp_path).acquire()
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_start_cut_short_does_not_spoil_the_directory(tmp_path: Path) -> None:
    with JobDir(tmp_path):
        pass  # killed before the configuration was written
    with JobDir(tmp_path) as job:
        assert not job.exists()


def test_a_place_without_permission(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        target = Path("/proc/irlcrawl-job")  # not even root may create one there
    else:
        target = tmp_path / "closed" / "job"
        target.parent.mkdir(mode=0o500)
    with pytest.raises(JobError, match=r"cannot be (written|created)"):
        JobDir(target).acquire()


def test_a_directory_of_the_job_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl whose warcs/ it could not write began all the same, and lost one worker after another."""
    with JobDir(tmp_path / "job") as job:
        pass
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != job.warcs and access(path, mode))
    with pytest.raises(JobError, match=r"no permission for .*warcs"):
        job.check_usable()


def test_a_directory_of_the_job_that_leads_nowhere(tmp_path: Path) -> None:
    """With JOB/warcs a link to a disk that is not mounted all that was said was `cannot be written: File exists`."""
    with JobDir(tmp_path / "job") as job:
        pass
    job.warcs.rmdir()
    job.warcs.symlink_to("/nowhere/archives")
    with pytest.raises(JobError, match="warcs: leads to /nowhere/archives, which is not there"):
        job.acquire()


def test_a_full_disk_has_its_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JobDir(tmp_path / "job") as job:
        job.write_config("before")

        def full(fd: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(JobFull, match="no room") as caught:
            job.write_config("after")
        assert caught.value.code == ExitCode.DISK_FULL
        assert job.config_file.read_text() == "before"


def test_asking_a_directory_without_a_crawl(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no crawl here"):
        JobDir(tmp_path).require()
    assert os.listdir(tmp_path) == []


def test_a_configuration_that_is_there_already_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that was full to the last byte a resumed crawl ended over its configuration, which it had written with
    one zero otherwise, before it could say how much room it needs."""
    with JobDir(tmp_path / "job") as job:
        job.write_config(to_toml(Config()))

        def full(self: Files, path: Path) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

        monkeypatch.setattr(Files, "create", full)
        job.write_config(to_toml(load(job.config_file)))
        with pytest.raises(JobFull, match="no room on its disk; make some"):
            job.write_config("[crawl]\n")


@pytest.mark.parametrize(
    "file", ["LOCK", "irlcrawl.toml", "ballast", "state/leases.log", "state/catalog-000001.log", "logs/crawl.log",
             "logs/irlcrawl.log", "warcs/x-20200101000000000-00000-s0001.warc.gz.open"],
)  # fmt: skip
def test_the_lock_of_a_strangers_job_led_to_a_file_of_ours_which_was_cut(tmp_path: Path, file: str) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    with JobDir(tmp_path / "job"):
        pass
    (tmp_path / "job" / "irlcrawl.toml").touch()
    (tmp_path / "job" / file).unlink(missing_ok=True)
    (tmp_path / "job" / file).symlink_to(mine)
    with pytest.raises(JobError, match="a link to"):
        JobDir(tmp_path / "job").acquire()
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("name", ["state", "logs"])
def test_the_lock_of_a_crawl_was_not_asked_where_state_or_logs_led_into_it(tmp_path: Path, name: str) -> None:
    for job in ("one", "other"):
        with JobDir(tmp_path / job):
            pass
    there = tmp_path / "one" / name
    there.rmdir()
    there.symlink_to(tmp_path / "other" / name)
    with pytest.raises(JobError, match=f"{name}: a link into .*/other, which is another crawl"):
        JobDir(tmp_path / "one").acquire()
    there.unlink()
    (tmp_path / "disk").mkdir()
    there.symlink_to(tmp_path / "disk")
    with JobDir(tmp_path / "one"):
        pass


def test_directories_and_closed_archives_may_be_links(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with JobDir(tmp_path / "job"):
        pass
    (tmp_path / "job" / "warcs").rmdir()
    (tmp_path / "job" / "warcs").symlink_to(elsewhere)
    (elsewhere / "x-20200101000000000-00000-s0001.warc.gz").symlink_to(tmp_path / "moved.warc.gz")
    with JobDir(tmp_path / "job"):
        pass
