"""The distributions of this tree: what is in them, and (slow) that a stranger can install and use them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import irlcrawl
from tools import dist

NO_INDEX = re.compile(r"No matching distribution|Could not find a version|ConnectionError|Temporary failure|Errno")


def test_the_version_stands_in_one_place() -> None:
    assert dist.version() == irlcrawl.__version__
    project = tomllib.loads(dist.drum_project())["project"]
    assert project["version"] == irlcrawl.__version__
    assert sorted(re.split(r"[<>=]", need)[0] for need in project["dependencies"]) == ["numpy", "xxhash", "zstandard"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    for name in ("irlcrawl", "irlcrawl-drum"):
        dist.built(name, out)
    return out


def names_in(path: Path) -> set[str]:
    if path.suffix == ".whl":
        return set(zipfile.ZipFile(path).namelist())
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.mark.slow
def test_wheels_are_pure_typed_and_whole(wheels: Path) -> None:
    """Both wheels were made of their sdists, so these lack nothing."""
    version = irlcrawl.__version__
    assert {path.name for path in wheels.iterdir()} == {
        f"irlcrawl-{version}.tar.gz", f"irlcrawl-{version}-py3-none-any.whl",
        f"irlcrawl_drum-{version}.tar.gz", f"irlcrawl_drum-{version}-py3-none-any.whl",
    }  # fmt: skip
    crawler = names_in(wheels / f"irlcrawl-{version}-py3-none-any.whl")
    drum = names_in(wheels / f"irlcrawl_drum-{version}-py3-none-any.whl")
    sources = {str(path.relative_to(dist.ROOT)) for path in dist.ROOT.glob("drum/**/*.py")}
    assert sources <= drum and {"drum/py.typed", "drum/README.md", "drum/FORMAT.md"} <= drum
    assert not [name for name in drum if name.startswith(("irlcrawl/", "budgets/", "tests/"))]
    sources |= {str(path.relative_to(dist.ROOT)) for path in dist.ROOT.glob("irlcrawl/**/*.py")}
    assert sources | {"irlcrawl/py.typed", "drum/py.typed", "budgets/py.typed"} <= crawler
    assert not [name for name in crawler if name.startswith(("tests/", "bench/", "tools/"))]
    for name in (
        "man/man1/irlcrawl.1", "bash-completion/completions/irlcrawl.bash", "zsh/site-functions/_irlcrawl",
        "fish/vendor_completions.d/irlcrawl.fish",
    ):  # fmt: skip
        assert any(there.endswith(f"share/{name}") for there in crawler), name
    sdist = names_in(wheels / f"irlcrawl-{version}.tar.gz")
    shells = {"contrib/irlcrawl.bash", "contrib/_irlcrawl", "contrib/irlcrawl.fish"}
    assert {"contrib/irlcrawl@.service", "LICENSE", "CHANGELOG.md", *shells} <= sdist


def installed(directory: Path, wheel: Path) -> Path:
    """The bin directory of a new environment with a wheel and what it needs of the configured index; skips without."""
    venv.create(directory, with_pip=True)
    bin_ = directory / "bin"
    done = subprocess.run(
        [bin_ / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel],
        capture_output=True, text=True, cwd=directory,
    )  # fmt: skip
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip(f"no package index at hand: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return bin_


def run(directory: Path, *command: str | Path) -> str:
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(directory)}
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=directory, env=clean).stdout


@pytest.mark.slow
def test_drum_alone_works_without_the_crawlers_dependencies(tmp_path: Path, wheels: Path) -> None:
    version = irlcrawl.__version__
    bin_ = installed(tmp_path / "venv", wheels / f"irlcrawl_drum-{version}-py3-none-any.whl")
    readme = (dist.ROOT / "drum" / "README.md").read_text()
    example = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    (tmp_path / "example.py").write_text(example)
    python = bin_ / "python"
    assert run(tmp_path, python, "example.py").count("http://a.example/") == 1
    assert run(tmp_path, python, "example.py").count("http://a.example/") == 0, "it knows them now"
    there = run(tmp_path, python, "-m", "pip", "list", "--format", "freeze").split()
    names = {name.partition("==")[0] for name in there} - {"pip", "setuptools", "wheel"}
    assert names == {"irlcrawl-drum", "numpy", "xxhash", "zstandard"}
    assert run(tmp_path, python, "-c", "import drum; print(drum.__version__)").strip() == version


@pytest.mark.slow
def test_the_crawler_is_installed_by_pip_alone(tmp_path: Path, wheels: Path) -> None:
    version = irlcrawl.__version__
    bin_ = installed(tmp_path / "venv", wheels / f"irlcrawl-{version}-py3-none-any.whl")
    assert version in run(tmp_path, bin_ / "irlcrawl", "--version").splitlines()[0]
    assert "[politeness]" in run(tmp_path, bin_ / "irlcrawl", "config")
    assert "measured" in run(tmp_path, bin_ / "irlcrawl", "plan", "--measure", "--json")
    assert run(tmp_path, bin_ / "python", "-c", "import drum; print(drum.__version__)").strip() == version
    assert sys.prefix not in run(tmp_path, bin_ / "python", "-c", "import irlcrawl; print(irlcrawl.__file__)")
