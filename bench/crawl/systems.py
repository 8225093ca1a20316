"""The crawlers that are compared: how each is started, what it has switched on, and how to get it.

Every one follows the links of `a` and `area`, keeps robots.txt as far as it understands it, saves every body, and gets
the hosts by address, so that none but irlcrawl, which is given names, has anything to resolve.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SPIDERS = Path(__file__).parent / "spiders"
LEVELS_MAX = "inf"
THREADS = 16


@dataclass(frozen=True)
class System:
    """A peer. `command(directory, urls)`: what to run; everything it saves goes below the directory."""

    name: str
    features: str
    program: str  # "python:MODULE" or the name of a program
    install: str
    command: Callable[[Path, list[str]], list[str]]
    codes: tuple[int, ...] = (0,)  # of a crawl that went well

    @property
    def missing(self) -> bool:
        kind, _, module = self.program.partition(":")
        return importlib.util.find_spec(module) is None if module else shutil.which(kind) is None

    @property
    def version(self) -> str:
        kind, _, module = self.program.partition(":")
        if module:
            return importlib.metadata.version(module)
        said = subprocess.run([kind, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
        return next(word for word in said.split() if word[0].isdigit())


def _scrapy(how: str) -> Callable[[Path, list[str]], list[str]]:
    return lambda out, urls: [sys.executable, str(SPIDERS / "scrapy_docs.py"), how, str(out / "bodies"), *urls]


def _crawlee(out: Path, urls: list[str]) -> list[str]:
    return [sys.executable, str(SPIDERS / "crawlee_docs.py"), str(out / "bodies"), *urls]


def _wget(out: Path, urls: list[str]) -> list[str]:
    command = ["wget", "-nv", "-r", "-l", LEVELS_MAX, "--follow-tags=a,area", "-P", str(out), "-o", str(out / "log")]
    return [*command, f"--warc-file={out / 'archive'}", f"--warc-tempdir={out}", *urls]


def _wget2(out: Path, urls: list[str]) -> list[str]:
    command = [
        "wget2",
        "-nv",
        "-r",
        "-l",
        LEVELS_MAX,
        "--follow-tags=a/href,area/href",
        "--ignore-tags=img,link,script",
        f"--max-threads={THREADS}",
    ]
    return [*command, "-P", str(out), "-o", str(out / "log"), *urls]


_EXTRA = "make bench-venv"
_SERVER_SAID = 8  # exit code of both wgets when some answers were 404s, as in every documentation

PEERS = (
    System(
        "Scrapy, LinkExtractor", "robots, seen-check in memory, bodies in a file; 128 at once, no delay",
        "python:scrapy", _EXTRA, _scrapy("extractor"),
    ),
    System(
        "Scrapy, lxml by hand", "robots, seen-check in memory, bodies in a file; 128 at once, no delay",
        "python:scrapy", _EXTRA, _scrapy("lxml"),
    ),
    System(
        "Crawlee for Python", "robots, seen-check in memory, bodies in a file; up to 128 at once",
        "python:crawlee", _EXTRA, _crawlee,
    ),
    System(
        "wget --warc-file", "robots without wildcards, seen-check in memory, gzip WARC and files; one at a time",
        "wget", "apt-get install wget", _wget, (0, _SERVER_SAID),
    ),
    System(
        "wget2", f"robots without wildcards, seen-check in memory, files, no WARC; {THREADS} threads",
        "wget2", "apt-get install wget2", _wget2, (0, _SERVER_SAID),
    ),
)  # fmt: skip
