"""`worker-node`: what it refuses before it touches anything; and a crawl without machines, which loads none of them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main

SCRIPT = """
import sys
from irlcrawl.cli import main
code = main.main(["crawl", *sys.argv[1:]])
loaded = [name for name in sys.modules if name.split(".")[0] == "ray" or name.startswith("irlcrawl.cluster.")]
print("loaded:", *loaded)
assert "irlcrawl.crawl.supervisor" in sys.modules, "it did crawl"
"""


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


def test_a_crawl_on_one_machine_loads_nothing_of_the_others(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://127.0.0.1:9/\n")
    words = [str(tmp_path / "job"), "--seeds", str(seeds), "--quiet"]
    for setting in ("crawl.user_agent=test/1 (+http://contact.test/)", "crawl.workers=1", "limits.seconds=0.1"):
        words += ["-s", setting]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:", done.stdout


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret of some length")
    (tmp_path / "secret").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        words = ["crawl", str(tmp_path / "job"), "http://127.0.0.1:9/", "--quiet"]
        for setting in (
            "crawl.user_agent=test/1 (+http://contact.test/)", f"cluster.listen={place}",
            f"cluster.token_file={tmp_path / 'secret'}",
        ):  # fmt: skip
            words += ["-s", setting]
        ended = subprocess.run([sys.executable, "-m", "irlcrawl", *words], capture_output=True, text=True)
    assert ended.returncode == ExitCode.CONFIG
    assert f"cluster.listen = {place}: Address already in use" in ended.stderr
