"""`worker-node`: what it refuses before it touches anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ([], "only spoken to under TLS"),
        (["--cert", "nowhere.pem"], "no certificate"),
        (["--frontier", "10.0.0.1"], "takes HOST:PORT"),
        (["--frontier", "127.0.0.1:7117", "--name", "a b"], "takes letters"),
        (["--frontier", "127.0.0.1:7117", "--workers", "-1"], "takes a whole number"),
        (["--token-file", "nowhere"], "nowhere: No such file"),
    ],
)
def test_mistakes_are_told_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret").write_text("a secret of some length")
    Path("secret").chmod(0o600)
    words = ["worker-node", "m1", "--frontier", "10.0.0.1:7117", "--token-file", "secret", *more]
    assert main.main(words) == ExitCode.CONFIG
    assert what in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_the_directory_of_a_crawl_is_not_a_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "irlcrawl.toml").touch()
    (tmp_path / "secret").write_text("a secret of some length")
    (tmp_path / "secret").chmod(0o600)
    words = ["worker-node", str(tmp_path), "--frontier", "127.0.0.1:1", "--token-file", str(tmp_path / "secret")]
    assert main.main(words) == ExitCode.CONFIG
    assert "a directory of their own" in capsys.readouterr().err
