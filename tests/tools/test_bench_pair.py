"""`bench pair` on a tiny repository of two commits, whose benchmark is a stub that says when it ran."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import pair

STUB = """
import json, os, sys
with open(os.environ["ORDER"], "a") as order:
    print({side!r}, *sys.argv[1:], file=order)
from only_here import FIGURES  # of its own tree
{more}
for line in FIGURES:
    print(json.dumps(line))
"""
FAST = {"pages_per_cpu_s": 1500.0, "frontier_cpu_share": 0.5, "recall": 1.0, "peak_rss_bytes": 7, "new": 1}
SLOW = {"pages_per_cpu_s": 1000.0, "frontier_cpu_share": 0.25, "recall": 0, "seconds": 3}
FAIL = "sys.exit('no such option: --pages')"
SERVE = """
import subprocess
alive = open(os.environ["ALIVE"], "w")
server = subprocess.Popen(["sleep", "60"], stdout=alive, process_group=0)
try:
    print("from here on it is ended", file=alive, flush=True)
    alive.close()
    server.wait()
finally:
    server.terminate()
"""


class Repository:
    """`old`: its one commit; what is written later is this tree."""

    def __init__(self, path: Path) -> None:
        self.path, self.order, self.temporary = path / "repository", path / "order", path / "temporary"
        self.path.mkdir()
        self.temporary.mkdir()
        self.git("init", "-q")
        self.write("rev", [SLOW])
        self.commit()

    def git(self, *words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=n@test", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(self.path), *who, *words], check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "old")
        self.git("tag", "-f", "old")

    def write(self, side: str, figures: Sequence[dict[str, Any]], more: str = "") -> None:
        (self.path / "bench.py").write_text(STUB.format(side=side, more=more))
        (self.path / "only_here.py").write_text(f"FIGURES = {figures!r}\n")

    def ran(self) -> list[str]:
        return self.order.read_text().splitlines() if self.order.exists() else []

    def left(self) -> list[str]:
        return os.listdir(self.temporary)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path)
    monkeypatch.setattr(pair, "ROOT", made.path)
    monkeypatch.setattr("tempfile.tempdir", str(made.temporary))
    monkeypatch.setenv("ORDER", str(made.order))
    return made


def lines(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of --json: figures by name, and the last line."""
    *rows, last = map(json.loads, capsys.readouterr().out.splitlines())
    return {row["figure"]: row for row in rows}, last


def test_the_ratio_is_this_tree_over_the_other_commit(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write("this", [FAST])
    assert pair.main(["old", "crawl", "--rounds", "3", "--json"]) == 0
    rows, last = lines(capsys)
    told = rows["pages_per_cpu_s"]
    assert (told["this"], told["rev"], told["ratio"], told["least"], told["most"]) == (1500, 1000, 1.5, 1.5, 1.5)
    assert len(told["rounds"]) == 3
    assert rows["frontier_us"]["ratio"] == pytest.approx((1e6 / 1500 / 3) / (1e6 / 1000 / 5), abs=1e-4)
    assert rows["workers_us"]["ratio"] == pytest.approx((1e6 / 1500 * 2 / 3) / (1e6 / 1000 * 4 / 5), abs=1e-4)
    assert "all_cpu_s" in rows
    assert last["left_out"] == ["peak_rss_bytes", "recall"]  # one that REV has not, one whose ratio is none
    assert repository.left() == []


def test_ratios_are_taken_within_a_round(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    growing = "FIGURES[0]['pages_per_cpu_s'] *= 1 + len(open(os.environ['ORDER']).readlines())"
    repository.write("rev", [{"pages_per_cpu_s": 100, "frontier_cpu_share": 0.5}], growing)
    repository.commit()
    repository.write("this", [{"pages_per_cpu_s": 100, "frontier_cpu_share": 0.5}], growing)
    assert pair.main(["old", "crawl", "--rounds", "3", "--json"]) == 0
    told = lines(capsys)[0]["pages_per_cpu_s"]
    assert told["rounds"] == [pytest.approx(ratio, abs=1e-4) for ratio in (2 / 3, 5 / 4, 6 / 7)]
    assert (told["ratio"], told["least"], told["most"]) == (0.8571, 0.6667, 1.25)


def test_every_other_round_begins_with_the_other_commit(repository: Repository) -> None:
    repository.write("this", [FAST])
    assert pair.main(["old", "crawl", "--rounds", "2", "--warm-up", "--size", "70", "--", "--cores", "1"]) == 0
    words = "crawl --sets p5 --pages 70 --cores 1 --json"
    assert repository.ran() == [f"{side} {words}" for side in ("rev", "this", "this", "rev", "rev", "this")]


def test_lines_of_one_run_are_told_apart(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    def shapes(*means: tuple[int, float]) -> list[dict[str, Any]]:
        return [{"hosts_per_address": hosts, "waited_for": "workers", "pick_us_mean": mean} for hosts, mean in means]

    repository.write("rev", shapes((1, 4.0), (20, 8.0)))
    repository.commit()
    repository.write("this", shapes((20, 4.0), (1, 4.0)))
    assert pair.main(["old", "politeness", "--rounds", "1", "--json"]) == 0
    ratios = {name: row["ratio"] for name, row in lines(capsys)[0].items() if name != "all_cpu_s"}
    assert ratios == {
        "hosts_per_address=1 waited_for=workers pick_us_mean": 1.0,
        "hosts_per_address=20 waited_for=workers pick_us_mean": 0.5,
    }


def test_people_get_a_table(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write("this", [FAST])
    assert pair.main(["old", "crawl", "--rounds", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("crawl: this tree (") and "-dirty) / old (" in said
    assert "pages_per_cpu_s 1500 1000 1.500 1.500 to 1.500" in " ".join(said.split())
    assert "left out, for a side has none, or REV has 0: peak_rss_bytes, recall" in said


def test_without_a_name_all_short_ones_run(repository: Repository) -> None:
    repository.write("this", [FAST])
    assert pair.main(["old", "--rounds", "1"]) == 0
    asked = [line.split()[1] for line in repository.ran() if line.startswith("this")]
    assert asked == ["crawl", "worker", "seen", "budgets", "politeness", "resume"]
    assert not any("50000" in line for line in repository.ran())


@pytest.mark.parametrize("failing", ["this tree", "old"])
def test_a_side_that_fails_is_named_and_nothing_is_left(
    failing: str, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write("rev", [SLOW], FAIL if failing == "old" else "")
    repository.commit()
    repository.write("this", [FAST], FAIL if failing == "this tree" else "")
    assert pair.main(["old", "crawl"]) == 1
    said = capsys.readouterr().err
    assert f"bench pair: {failing} (" in said
    assert "failed at `bench crawl --sets p5 --pages 1`: exit code 1" in said and "no such option: --pages" in said
    assert ("name another commit" if failing == "old" else "`python -m bench crawl") in said
    assert repository.left() == []


def test_a_side_without_figures_failed(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write("this", [FAST], "print('for people')")
    assert pair.main(["old", "crawl"]) == 1
    assert "no figures in its --json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["never"], "git knows no commit 'never'"),
        (["old", "never"], "no comparison is called 'never'; there are: crawl, crawl-long, worker"),
        (["old", "--size", "5"], "name it after REV"),
        (["old", "--", "--cores", "1"], "name it after REV"),
    ],
)
def test_wrong_usage(words: list[str], said: str, repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    assert pair.main(words) == 4
    assert said in capsys.readouterr().err
    assert repository.left() == [] and repository.ran() == []


def test_not_a_checkout(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repository.temporary))
    (plain := repository.temporary / "plain").mkdir()
    monkeypatch.setattr(pair, "ROOT", plain)
    assert pair.main(["old"]) == 4
    assert f"{plain} is no git checkout" in capsys.readouterr().err
    assert repository.left() == ["plain"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_it_ends_what_a_side_started(number: signal.Signals, repository: Repository, tmp_path: Path) -> None:
    os.mkfifo(alive := tmp_path / "alive")  # open for writing as long as the server of a side lives
    repository.write("this", [FAST], SERVE)
    code = (
        "import signal, sys, tempfile\n"
        "from pathlib import Path\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from bench import __main__, pair\n"
        f"pair.ROOT, tempfile.tempdir = Path({str(repository.path)!r}), {str(repository.temporary)!r}\n"
        "sys.exit(__main__.main(['pair', 'old', 'crawl']))\n"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, env={**os.environ, "ALIVE": str(alive)}, process_group=0)
    try:
        with alive.open("rb", buffering=0) as still:
            assert still.read(1000)
            process.send_signal(number)
            assert process.wait(30) == (-2 if number == signal.SIGINT else 143)
            assert select.select([still], [], [], 30)[0] and still.read() == b""
    finally:
        process.kill()
        process.wait()
    assert repository.left() == []
