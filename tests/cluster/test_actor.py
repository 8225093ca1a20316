"""The actor of a machine: its node runs, is started again, ends with the crawl; real processes, a played program."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from irlcrawl.cluster import actor

NODE = """#!{python}
import os, sys
lives = {path!r}
with open(lives, "a") as stream:
    print(*sys.argv[1:], file=stream)
print("life", n := len(open(lives).readlines()), flush=True)
sys.exit(0 if n == {ends_after} else 4)
"""


@pytest.fixture
def lives(tmp_path: Path) -> Path:
    return tmp_path / "lives"


def played(tmp_path: Path, lives: Path, monkeypatch: pytest.MonkeyPatch, ends_after: int) -> actor.Spec:
    program = tmp_path / "python"
    program.write_text(NODE.format(python=sys.executable, path=str(lives), ends_after=ends_after))
    program.chmod(0o700)
    monkeypatch.setattr(actor.sys, "executable", str(program))
    monkeypatch.setattr(actor, "AGAIN_S", 0.0)
    return actor.Spec("m1", str(tmp_path / "disk" / "m1"), "10.0.0.1:7117", b"secret", b"cert", 2)


def test_a_node_that_fails_is_started_again_and_the_actor_goes_home_with_the_crawl(
    tmp_path: Path, lives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = threading.Event()
    machine = actor.Machine(played(tmp_path, lives, monkeypatch, 3), home.set)
    assert home.wait(30)
    words = lives.read_text().splitlines()
    assert len(words) == 3 and machine.look()["started"] == 3 and machine.look()["said"][-1] == "life 3"
    disk = tmp_path / "disk"
    assert words[0].split()[:5] == ["-m", "irlcrawl", "worker-node", str(disk / "m1"), "--frontier"]
    assert words[0].endswith(f"--name m1 --workers 2 --parent {os.getpid()}")
    assert (disk / "m1.secret").read_bytes() == b"secret" and (disk / "m1.secret").stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(machine._spec), "no log of Ray's shows it"


def test_an_actor_that_is_told_to_end_starts_nothing_more(
    tmp_path: Path, lives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = played(tmp_path, lives, monkeypatch, 99)
    monkeypatch.setattr(actor, "AGAIN_S", 3600.0)
    home = threading.Event()
    machine = actor.Machine(spec, home.set)
    while machine.look()["status"] is None:
        pass
    assert machine.end()
    machine._keeper.join(30)
    assert not machine._keeper.is_alive() and not home.is_set() and len(lives.read_text().splitlines()) == 1
