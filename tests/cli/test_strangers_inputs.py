"""What an operator is handed by strangers (seeds, configurations, names, whole JOBs) executes nothing, leaves JOB by no
path, and says nothing to the terminal but text."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path
from typing import Any

from drum import Catalog

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, command
from irlcrawl.cli import main, verbs_ask, verbs_crawl
from irlcrawl.config.keys import Config
from irlcrawl.config.toml import to_toml
from tests.cli.conftest import Run
from tests.cli.test_main import AGENT

EVIL = "\x1b[2J\x1b]0;mine\x07\u202e\x9b31m"


def said(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    text = out + err
    assert all(line.isprintable() for line in text.replace("\t", "").split("\n")), repr(text)  # a tab parts fields
    return text


def tree(at: Path) -> set[str]:
    return {str(path.relative_to(at)) for path in at.rglob("*")}


def arguments(tmp_path: Path, *more: str) -> list[str]:
    return ["crawl", str(tmp_path / "job"), "-s", f"crawl.user_agent={AGENT}", "--dry-run", *more]


def test_names_of_files_move_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status", str(tmp_path / f"no{EVIL}")]) == ExitCode.FAILED
    assert main.main(arguments(tmp_path, "--seeds", str(tmp_path / f"no{EVIL}"))) != ExitCode.DONE
    assert main.main(arguments(tmp_path, "--config", str(tmp_path / f"no{EVIL}"))) != ExitCode.DONE
    assert "\\x1b" in said(capsys)


def test_a_name_of_job_moves_no_cursor_whatever_the_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config`, `doctor`, the journal and each `go on:` printed it as it was."""
    monkeypatch.chdir(tmp_path)
    job = JobDir(EVIL.replace("/", ""))
    with job:
        config = Config()
        config.crawl.user_agent, config.limits.pages = AGENT, 3
        job.write_config(to_toml(config))
        Catalog.open(job.state).close()
        job.steering_log.write_text(f"2026-01-01T00:00:00Z\t{EVIL}\tset\t{EVIL}\tb\n")
    verbs = [["config"], ["doctor"], ["report", "--steering"], ["set", "limits.pages=4"], ["block", "a.test"],
             ["unblock", "a.test"], ["pause"], ["status"], ["inspect"], ["crawl", "--dry-run"], ["snapshot", "s"],
             ["snapshots"], ["seeds", "http://a.test/"], ["fsck"], ["generate", "-o", EVIL, "--urls", "3"]]  # fmt: skip
    for verb, *more in verbs:
        main.main([verb, str(job.path), *more])
    assert "\\x1b" in said(capsys)


def test_a_command_to_be_pasted_is_what_bash_reads() -> None:
    for name in ("plain", "with blank", "it's", EVIL, "a\nb", "\udcff", "bücher", "back\\slash\x01"):
        printed = command("status", name)
        assert printed.isprintable()
        words = subprocess.run(["bash", "-c", f"printf '%s\\0' {printed}"], capture_output=True, check=True).stdout
        assert words.split(b"\0")[:-1] == [b"irlcrawl", b"status", os.fsencode(name)]


@pytest.mark.parametrize("config", [
    f'["{"x"}\\u001b[2J"]\na = 1\n', '[crawl]\noperator = "\\u001b[2J"\n', '[archive]\nprefix = "../../evil"\n',
    '[archive]\nprefix = "/tmp/evil"\n', '[crawl]\nuser_agent = "a\\r\\nX: y"\n', "\x1b",
    "[crawl]\nworkers = '$(id)'\n",
])  # fmt: skip
def test_a_strangers_configuration_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str
) -> None:
    (tmp_path / "config.toml").write_text(config)
    before = tree(tmp_path)
    assert main.main(arguments(tmp_path, "--config", str(tmp_path / "config.toml"), "a.test")) == ExitCode.CONFIG
    assert said(capsys) and tree(tmp_path) == before


@pytest.mark.parametrize("seed", [
    "file:///etc/passwd", "javascript:alert(1)", "$(touch evil)", "; touch evil", "../../evil", "|id", EVIL, "\x00",
    "http://", "http://a.test:0/", "http://[::1", "@/etc/passwd",
])  # fmt: skip
def test_a_strangers_seeds_are_urls_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: str) -> None:
    (tmp_path / "seeds").write_text(f"{seed}\n", encoding="utf-8")
    before = tree(tmp_path)
    main.main(arguments(tmp_path, "--seeds", str(tmp_path / "seeds")))
    said(capsys)
    assert tree(tmp_path) == before


def test_urls_of_a_strangers_crawl_move_no_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "irlcrawl.toml").touch()
    monkeypatch.setattr(verbs_ask, "_outcomes", lambda *_: iter([("200", "ok", f"http://a.test/{EVIL}")]))
    assert main.main(["urls", str(tmp_path)]) == ExitCode.DONE
    assert "http://a.test/\\x1b" in said(capsys)


def test_a_line_of_the_log_is_a_line(tmp_path: Path) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    told: list[Any] = []
    try:
        verbs_crawl._log_to(tmp_path / "own.log", told.append)
        logging.getLogger("x").warning("from %s", f"a{EVIL}b")
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
        logging.raiseExceptions = True
    assert all(line.isprintable() for line in (tmp_path / "own.log").read_text().split("\n"))
    assert told and told[0].isprintable()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[limits]\npages = 0x" + "f" * 5000, "limits.pages = a number of thousands of digits: takes"),
        ("[limits]\npages = 99999999999999999999", "limits.pages = 99999999999999999999: takes"),
        ('[politeness]\nhours = "' + "9" * 40_000 + '"', "politeness.hours = '999"),
    ],
)
def test_a_value_without_end_in_a_configuration(run: Run, tmp_path: Path, text: str, says: str) -> None:
    """A traceback, or a message of screens."""
    (tmp_path / "c.toml").write_text(text)
    code, _, err = run("crawl", tmp_path / "job", "http://a.test/", "--config", tmp_path / "c.toml", "--dry-run")
    assert code == ExitCode.CONFIG and says in err and len(err) < 10_000
