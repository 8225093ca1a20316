"""Commands that files name run only where the operator said so; what was said is remembered outside JOB."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli import main
from irlcrawl.config import commands
from irlcrawl.config.keys import ConfigError
from irlcrawl.config.toml import load_stored
from irlcrawl.crawl.steering import steer, steer_at_rest
from tests.cli.test_main import AGENT, FakeCrawl, crawl

__all__ = ["crawl"]  # the fixture

KEYS = ("archive.on_warc_closed", "hooks.command", "cluster.ray")


@pytest.fixture
def ran(crawl: FakeCrawl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCrawl:
    """What stands in for a crawl; what is allowed is remembered in `tmp_path`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("irlcrawl.cluster.on_ray.beside", lambda action, job, keys: 0)
    return crawl


def file_of(tmp_path: Path, key: str, text: str = "mine") -> str:
    section, name = key.split(".")
    path = tmp_path / "crawl.toml"
    path.write_text(f'[crawl]\nuser_agent = "{AGENT}"\n[{section}]\n{name} = "{text}"\n')
    return str(path)


def begun(job: Path, *arguments: str) -> int:
    return main.main(["crawl", str(job), "a.test", "--quiet", *arguments])


@pytest.mark.parametrize("key", KEYS)
def test_a_strangers_command_does_not_run_before_it_was_allowed(
    tmp_path: Path, ran: FakeCrawl, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    job, config = tmp_path / "job", file_of(tmp_path, key)
    for more in ([], ["--dry-run"]):
        assert begun(job, "--config", config, *more) == ExitCode.CONFIG
        told = capsys.readouterr().err
        assert key in told and "'mine'" in told and "--allow-commands" in told
    assert begun(job, "--config", config, "--dry-run", "--allow-commands") == ExitCode.DONE
    assert not (tmp_path / "state").exists() and not job.exists(), "a dry run remembers nothing"
    assert begun(job, "--config", config, "--allow-commands") == ExitCode.DONE
    assert begun(job) == ExitCode.DONE and begun(job, "--config", config) == ExitCode.DONE, "it was said once"
    assert len(ran.calls) == 3


def test_a_crawl_that_is_handed_over_asks_again_and_so_does_another_command(tmp_path: Path, ran: FakeCrawl) -> None:
    job = tmp_path / "job"
    assert begun(job, "-s", f"crawl.user_agent={AGENT}", "--hooks-command", "mine") == ExitCode.DONE, "it was typed"
    assert begun(job) == ExitCode.DONE
    job.rename(tmp_path / "handed")
    assert begun(tmp_path / "handed") == ExitCode.CONFIG
    (tmp_path / "handed").rename(job)
    assert begun(job) == ExitCode.DONE
    text = (job / "irlcrawl.toml").read_text()
    (job / "irlcrawl.toml").write_text(text.replace('command = "mine"', 'command = "mine too"'))
    assert begun(job) == ExitCode.CONFIG
    assert begun(job, "-s", "hooks.command=mine three") == ExitCode.DONE


def test_what_is_set_may_run_and_what_the_file_of_a_running_crawl_says_may_not(tmp_path: Path, ran: FakeCrawl) -> None:
    job = tmp_path / "job"
    assert begun(job, "-s", f"crawl.user_agent={AGENT}") == ExitCode.DONE
    at = JobDir(job)
    with at:
        steer_at_rest(at, "set", ["hooks.command=mine"], time.time())
    running = load_stored(at.config_file)
    commands.check(job, commands.named(running))
    text = at.config_file.read_text()
    at.config_file.write_text(text.replace('command = "mine"', 'command = "theirs"'))
    with pytest.raises(ConfigError, match="theirs"):
        steer(at, "reload", [], "x", 0.0, running=running)
    with pytest.raises(ConfigError, match="theirs"):
        steer(at, "set", ["limits.pages=7"], "x", 0.0, running=running)
    at.config_file.write_text(text)
    steer(at, "reload", [], "x", 0.0, running=running)
    steer(at, "set", ["hooks.command=another"], "x", 0.0, running=running)
    commands.check(job, {"hooks.command": "another"})


def test_what_others_could_have_written_allows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    said = {"hooks.command": "mine"}
    commands.allow(tmp_path / "job", said)
    file = tmp_path / commands.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    commands.check(tmp_path / "job", said)
    file.chmod(0o622)
    with pytest.raises(ConfigError, match="--allow-commands"):
        commands.check(tmp_path / "job", said)
    file.chmod(0o600)
    for job, key, text in (("job2", "hooks.command", "mine"), ("job", "archive.on_warc_closed", "mine"),
                           ("job", "hooks.command", "mine ")):  # fmt: skip
        with pytest.raises(ConfigError, match="--allow-commands"):
            commands.check(tmp_path / job, {key: text})


def test_where_it_cannot_be_remembered_the_crawl_runs_and_stderr_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    commands.allow(tmp_path / "job", {"hooks.command": "mine"})
    assert "needed again" in capsys.readouterr().err
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    commands.allow(tmp_path / "job", {"hooks.command": "mine"})
    assert (tmp_path / ".local" / "state" / commands.FILE).stat().st_uid == os.geteuid()
