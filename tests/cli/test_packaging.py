"""The lock files hold what pyproject.toml asks for, with hashes, and no address to get it from."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def locked(name: str) -> dict[str, set[str]]:
    """package -> its pins (several where they depend on the Python version)."""
    text = (REPOSITORY / "requirements" / name).read_text()
    assert "://" not in text and "--index" not in text
    pins: dict[str, set[str]] = {}
    for entry in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in entry, entry
        package, version = re.match(r"([a-z0-9-]+)==([^ ;]+)", entry).groups()  # type: ignore[union-attr]
        pins.setdefault(package, set()).add(version)
    return pins


def test_locks_cover_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    run, dev = locked("run.txt"), locked("dev.txt")
    asked = [re.split(r"[>=<]", requirement)[0] for requirement in project["dependencies"]]
    asked_dev = [re.split(r"[>=<]", requirement)[0] for requirement in project["optional-dependencies"]["dev"]]
    assert set(asked) <= set(run)
    assert set(asked_dev) <= set(dev)
    assert not set(asked_dev) & set(run), "a crawl needs nothing that only development needs"
    assert {package: dev.get(package) for package in run} == run, "both environments run the same code"


def test_the_lock_of_the_benchmarks_is_that_of_the_tests_and_their_peers() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    dev, bench = locked("dev.txt"), locked("bench.txt")
    asked = [re.split(r"[>=<\[]", requirement)[0] for requirement in project["optional-dependencies"]["bench"]]
    assert set(asked) <= set(bench)
    assert {package: bench.get(package) for package in dev} == dev


def test_shell_scripts_parse() -> None:
    subprocess.run(["bash", "-n", ".ci/run"], cwd=REPOSITORY, check=True)


def test_make_explains_itself() -> None:
    told = subprocess.run(["make", "-s", "help"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert all(f"make {target}" in told for target in phony[1].split() if target != "help")
