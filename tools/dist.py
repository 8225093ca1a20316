"""`python -m tools.dist DIR`: the two distributions of this tree, each as an sdist and as a wheel made of that sdist.

* `irlcrawl`: the crawler, with `drum` and `budgets`.
* `irlcrawl-drum`: `drum` alone, for programs that want no crawler; numpy, xxhash and zstandard are all it needs.

Both have the version that stands in irlcrawl/__init__.py. Needs setuptools, and no compiler: both are pure Python.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from tools.manpage import page

ROOT = Path(__file__).parent.parent
DRUM_NEEDS = ("numpy", "xxhash", "zstandard")
BOTH = ("LICENSE",)
CRAWLER = ("README.md", "CHANGELOG.md", "pyproject.toml", "contrib", "drum", "budgets", "irlcrawl")
_BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def version() -> str:
    """The version of this tree."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "irlcrawl" / "__init__.py").read_text(), re.MULTILINE)
    assert found is not None, "irlcrawl/__init__.py says no version"
    return found[1]


def drum_project() -> str:
    """pyproject.toml of drum alone: what it needs stands in that of the crawler."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needs = [need for need in project["project"]["dependencies"] if re.split(r"[<>=]", need)[0] in DRUM_NEEDS]
    return f"""\
[build-system]
requires = {project["build-system"]["requires"]}
build-backend = "setuptools.build_meta"

[project]
name = "irlcrawl-drum"
version = "{version()}"
description = "Check, update and merge billions of keys on disk, in sequential passes"
readme = "drum/README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = "{project["project"]["requires-python"]}"
dependencies = {needs}

[tool.setuptools.packages.find]
include = ["drum*"]

[tool.setuptools.package-data]
drum = ["py.typed", "*.md"]
"""


def stage(name: str, directory: Path) -> None:
    """The files of one distribution, by its name."""
    for part in BOTH + (CRAWLER if name == "irlcrawl" else ("drum",)):
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, directory / part)
    if name != "irlcrawl":
        (directory / "pyproject.toml").write_text(drum_project())
    if name == "irlcrawl":
        (directory / "contrib" / "irlcrawl.1").write_text("\n".join(page()) + "\n")
    (directory / "MANIFEST.in").write_text("recursive-include contrib *\ninclude CHANGELOG.md\n")


def built(name: str, out: Path) -> list[Path]:
    """The sdist and the wheel of a distribution, in `out`. CalledProcessError."""
    with tempfile.TemporaryDirectory() as room:
        tree = Path(room) / "tree"
        tree.mkdir()
        stage(name, tree)
        sdist = out / _called("build_sdist", tree, out)
        with tarfile.open(sdist) as archive:
            archive.extractall(room, filter="data")
        return [sdist, out / _called("build_wheel", Path(room) / sdist.name.removesuffix(".tar.gz"), out)]


def _called(hook: str, tree: Path, out: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, hook, str(out)], cwd=tree, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.dist", description=__doc__)
    parser.add_argument("directory", type=Path, help="where they go")
    out = parser.parse_args().directory.absolute()
    out.mkdir(parents=True, exist_ok=True)
    for name in ("irlcrawl", "irlcrawl-drum"):
        for path in built(name, out):
            print(path)


if __name__ == "__main__":
    main()
