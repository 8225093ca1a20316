"""The documentation sets: which Debian package, which folder of it is the web's root, which rules its robots.txt has.

Packages are downloaded with `apt-get download` and unpacked with `dpkg-deb -x` into a cache folder; nothing is
installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "IRLCRAWL_DOCSWEB_CACHE"


class DocswebError(Exception):
    """Something docsweb needs is not there; the message says what and how to get it."""


@dataclass(frozen=True)
class DocSet:
    """One package as a web: `root` is the served folder, `robots` the lines for `User-agent: *` (None: no
    robots.txt)."""

    name: str
    package: str
    root: str
    robots: tuple[str, ...] | None


SETS = (
    DocSet(
        "postgresql", "postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html",
        ("Disallow: /ecpg-", "Allow: /ecpg-concept.html", "Disallow: /*-functions.html$"),
    ),
    DocSet(
        "django", "python-django-doc", "usr/share/doc/python-django-doc/html",
        ("Disallow: /_modules/django/contrib/", "Disallow: /releases/1.1", "Allow: /releases/1.11"),
    ),
    DocSet(
        "python", "python3.11-doc", "usr/share/doc/python3.11/html",
        ("Disallow: /whatsnew/", "Disallow: /genindex-*.html", "Allow: /genindex-all.html"),
    ),
    DocSet(
        "qt", "qtbase5-doc-html", "usr/share/qt5/doc",
        ("Disallow: /qtsql/*-members.html", "Disallow: /*/*-obsolete.html$"),
    ),
    DocSet("gtk", "libgtk-3-doc", "usr/share/gtk-doc/html", None),
    DocSet(
        "handbook", "debian-handbook", "usr/share/doc/debian-handbook/html",
        ("Disallow: /zh-TW/", "Disallow: /*/ix01.html", "Allow: /en-US/ix01.html"),
    ),
    DocSet(
        "eigen", "libeigen3-doc", "usr/share/doc/libeigen3-dev/html",
        ("Disallow: /search/", "Disallow: /unsupported/*source.html$"),
    ),
    DocSet("boost", "libboost1.81-doc", "usr/share/doc/libboost1.81-doc/doc/html", ("Disallow: /boost/proto/",)),
    DocSet("erlang", "erlang-doc", "usr/share/doc/erlang-doc", ("Disallow: /lib/wx-", "Disallow: /*/java/")),
)  # fmt: skip

GROUPS = {"p5": ("postgresql", "django", "python", "qt", "gtk"), "all": tuple(s.name for s in SETS)}

ROBOTS_HEAD = """\
# A group for somebody else comes first: taking it for ours leaves nothing to crawl.
User-agent: otherbot
Disallow: /

"""


def chosen(names: str) -> list[DocSet]:
    """The sets that a comma-separated list of set names and groups (`p5`, `all`) means. Raises DocswebError."""
    by_name = {s.name: s for s in SETS}
    wanted: list[str] = []
    for name in filter(None, names.split(",")):
        if name.lower() not in GROUPS and name not in by_name:
            raise DocswebError(f"no set is called {name!r}; there are {', '.join([*GROUPS, *by_name])}")
        wanted += GROUPS.get(name.lower(), (name,))
    return [by_name[name] for name in dict.fromkeys(wanted)]


def cache_dir() -> Path:
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "irlcrawl-docsweb").absolute()


def robots_text(docs: DocSet) -> str | None:
    if docs.robots is None:
        return None
    return ROBOTS_HEAD + "User-agent: *\n" + "\n".join(docs.robots) + "\n"


def unpacked(sets: Sequence[DocSet], cache: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Document roots of the sets by name, downloading what the cache lacks; and, of the missing ones, why."""
    for tool, package in (("apt-get", "apt"), ("dpkg-deb", "dpkg")):
        if shutil.which(tool) is None:
            raise DocswebError(f"the program {tool} (Debian package {package}) is missing, and docsweb needs it")
    packages, trees = cache / "packages", cache / "trees"
    packages.mkdir(parents=True, exist_ok=True)
    trees.mkdir(exist_ok=True)
    roots: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for docs in sets:
        tree = trees / docs.package
        if not tree.is_dir():
            reason = _unpack(docs.package, packages, tree)
            if reason:
                missing[docs.name] = f"{docs.package}: {reason}"
                continue
        if (tree / docs.root).is_dir():
            roots[docs.name] = tree / docs.root
        else:
            missing[docs.name] = f"{docs.package}: has no folder {docs.root}"
    return roots, missing


def _unpack(package: str, packages: Path, tree: Path) -> str | None:
    """Unpacks the package as `tree`, downloading it when it is not there. The reason when that cannot be done."""
    if not list(packages.glob(f"{package}_*.deb")) and (reason := _download(package, packages)):
        return reason
    deb = max(packages.glob(f"{package}_*.deb"), key=lambda p: p.stat().st_mtime)
    # Unpacked beside and renamed, so that a tree is whole or absent whoever else does the same meanwhile.
    temporary = Path(tempfile.mkdtemp(prefix=f"{package}.", dir=tree.parent))
    done = subprocess.run(["dpkg-deb", "-x", str(deb), str(temporary)], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(temporary)
        return f"dpkg-deb could not unpack {deb.name}: {done.stderr.strip()}"
    try:
        temporary.rename(tree)
    except OSError:
        shutil.rmtree(temporary)
        if not tree.is_dir():
            raise
    return None


def _download(package: str, packages: Path) -> str | None:
    """In a folder of its own: apt-get takes away what another one, begun at the same time, has just brought."""
    with tempfile.TemporaryDirectory(prefix=f"{package}.", dir=packages) as alone:
        done = subprocess.run(["apt-get", "download", package], cwd=alone, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines()[-1:]
            return f"apt-get download failed ({' '.join(said).strip()}); `apt-get update` may help"
        for deb in Path(alone).glob("*.deb"):
            deb.replace(packages / deb.name)
    return None


def entries(root: Path) -> list[str]:
    """Paths a visitor would start at: `/` where the root has an index, else the index pages one folder below."""
    if (root / "index.html").is_file():
        return ["/"]
    found: list[str] = []
    for folder in sorted(p for p in root.iterdir() if p.is_dir()):
        pages: Iterable[Path] = (folder / "index.html", folder / f"{folder.name}-index.html")
        for page in pages:
            if page.is_file():
                found.append(f"/{folder.name}/" if page.name == "index.html" else f"/{folder.name}/{page.name}")
                break
    return found
