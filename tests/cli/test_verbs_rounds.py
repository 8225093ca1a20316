"""`generate`, `fetch` and `update`: what they refuse before they touch anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from tests.cli.conftest import Run


def job_of(tmp_path: Path) -> str:
    """A JOB that was configured and never begun."""
    path = tmp_path / "job"
    path.mkdir()
    (path / "irlcrawl.toml").write_text('[crawl]\nuser_agent = "test/1 (+http://contact.test/)"\n')
    return str(path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--urls", "0"], "--urls 0: takes a whole number, at least 1"),
        (["--urls", "5", "--lists", "0"], "--lists 0: takes a whole number, at least 1"),
        (["--urls", "5", "--per-host", "-1"], "--per-host -1: takes a whole number, at least 0"),
        (["--urls", "5", "--until", "0"], "--until 0: takes a number of hours above 0"),
        (["--urls", "5", "--until", "inf"], "--until inf: takes a number of hours above 0, at most 87,840"),
        (["--urls", "5", "--until", "nan"], "--until nan: takes a number of hours above 0"),
    ],
)
def test_generate_refuses_what_makes_no_list(tmp_path: Path, run: Run, words: list[str], told: str) -> None:
    code, _, err = run("generate", job_of(tmp_path), "-o", str(tmp_path / "lists"), *words)
    assert code == ExitCode.CONFIG and told in err and not (tmp_path / "lists").exists()


def test_a_crawl_without_a_state_has_no_rounds(tmp_path: Path, run: Run) -> None:
    job = job_of(tmp_path)
    for words in (["generate", job, "-o", str(tmp_path / "lists"), "--urls", "1"], ["update", job, str(tmp_path)]):
        code, _, err = run(*words)
        assert code == ExitCode.FAILED and "has taken no seeds yet" in err
    assert not (tmp_path / "job" / "state").exists() and not (tmp_path / "lists").exists()


def test_fetch_takes_a_list_and_a_directory_of_its_own(tmp_path: Path, run: Run) -> None:
    code, _, err = run("fetch", str(tmp_path / "none.seg"), "-o", str(tmp_path / "out"))
    assert code == ExitCode.FAILED and "none.seg" in err and not (tmp_path / "out").exists()
    (tmp_path / "text.seg").write_text("no segment" * 100)
    code, _, err = run("fetch", str(tmp_path / "text.seg"), "-o", str(tmp_path / "out"))
    assert code == ExitCode.DAMAGED and "text.seg" in err and not (tmp_path / "out").exists()
    code, _, err = run("fetch", str(tmp_path / "text.seg"), "-o", job_of(tmp_path))
    assert code == ExitCode.CONFIG and "the JOB of a crawl" in err
