"""The container file: built and run where podman or buildah is at hand; what can be said without one is said always."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import irlcrawl

ROOT = Path(__file__).parents[2]
FILE = (ROOT / "Containerfile").read_text()


def test_it_runs_without_rights_and_has_one_volume() -> None:
    last = FILE.rpartition("\nFROM ")[2]
    assert re.findall(r"^VOLUME (.+)$", FILE, re.MULTILINE) == ["/crawls"]
    assert re.search(r"^USER (?!root|0)\w+$", last, re.MULTILINE)
    assert last.index("\nUSER ") < last.index("\nENTRYPOINT ")
    ignored = (ROOT / ".containerignore").read_text().split()
    assert {".git", ".venv"} <= set(ignored)


@pytest.mark.slow
def test_it_is_built_and_crawls_into_its_volume(tmp_path: Path) -> None:
    """IRLCRAWL_CONTAINER_BASE names a base image that is here already. BUILDAH_ISOLATION=chroot, which is buildah's own
    variable, is for machines that let nobody make containers."""
    base = os.environ.get("IRLCRAWL_CONTAINER_BASE")
    arguments = ["--build-arg", f"BASE={base}"] if base else []
    build = ["build", "-q", "-f", str(ROOT / "Containerfile"), "-t", "irlcrawl-test", *arguments, str(ROOT)]
    if os.environ.get("BUILDAH_ISOLATION") and (buildah := shutil.which("buildah")):
        subprocess.run([buildah, *build], check=True)
        made = [buildah, "from", "irlcrawl-test"]
        container = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
        run, end = [buildah, "run", container, "--", "/opt/irlcrawl/bin/irlcrawl"], [buildah, "rm", container]
    elif (builder := next(filter(_runs, ("podman", "docker")), None)) is not None:
        subprocess.run([builder, *build], check=True)
        run = [builder, "run", "--rm", "-v", "irlcrawl-test:/crawls", "irlcrawl-test"]
        end = [builder, "volume", "rm", "irlcrawl-test"]
    else:
        pytest.skip("no podman, docker with its daemon, or buildah is at hand: the container file is not built")
    told = subprocess.run([*run, "--version"], check=True, capture_output=True, text=True).stdout
    assert irlcrawl.__version__ in told
    crawled = subprocess.run([*run, "crawl", "job", "http://127.0.0.1/", "--user-agent", "T/1 (+http://t.example/)"])
    assert crawled.returncode == 16, "its one host is private, so no page could be had"
    assert subprocess.run([*run, "status", "job"]).returncode == 0, "the volume has it still"
    subprocess.run(end, check=True)


def _runs(builder: str) -> bool:
    """Whether it is installed; of docker, whether its daemon answers, too."""
    return shutil.which(builder) is not None and not subprocess.run([builder, "info"], capture_output=True).returncode
