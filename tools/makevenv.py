"""`python3 tools/makevenv.py DIRECTORY LOCKFILE`: a virtual environment with the locked dependencies and this project.

Runs before anything is installed, so it uses nothing but the standard library, and not all of that: Debian's python3
comes without ensurepip, in which case pip is borrowed from wherever there is one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OLDEST = (3, 11)
HINT = "install the package python3-venv (Debian: apt-get install python3-venv), then run make again"


def main(directory: str, lock: str) -> None:
    if sys.version_info < OLDEST:
        raise SystemExit(f"Python {sys.version.split()[0]} is too old: {'.'.join(map(str, OLDEST))} or later is needed")
    if importlib.util.find_spec("venv") is None:
        raise SystemExit(f"this Python cannot make virtual environments: {HINT}")
    venv = Path(directory)
    has_pip = importlib.util.find_spec("ensurepip") is not None
    _run([sys.executable, "-m", "venv", "--clear", *([] if has_pip else ["--without-pip"]), os.fspath(venv)])
    python = os.fspath(venv / "bin" / "python")
    with tempfile.TemporaryDirectory() as scratch:
        install = [python, "-m", "pip", "install"] if has_pip else _borrowed_pip(python, Path(scratch))
        quiet = ["--quiet", "--disable-pip-version-check"] if "uv" not in install[:1] else ["--quiet"]
        print(f"installing the locked dependencies into {venv} ...", flush=True)
        # Hashes of wheels only: nothing is compiled and nothing that was not locked gets in.
        _run([*install, *quiet, "--require-hashes", "--only-binary", ":all:", "-r", lock])
        _run([*install, *quiet, "--no-deps", "--no-build-isolation", "-e", "."])


def _borrowed_pip(python: str, scratch: Path) -> list[str]:
    """The beginning of an install command for an environment that has no pip of its own."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--python", python, "install"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", python]
    if wheel := _debian_wheel(scratch):
        return [python, f"{wheel}/pip", "install"]
    raise SystemExit(f"this Python has neither ensurepip nor pip: {HINT}")


def _debian_wheel(scratch: Path) -> Path | None:
    """pip's wheel out of Debian's package of it, downloaded and unpacked, not installed; None where there is no apt."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    command = ["apt-get", "download", "-q", "python3-pip-whl"]
    if subprocess.run(command, cwd=scratch, check=False).returncode != 0:
        if os.geteuid() != 0:
            return None
        print("apt knows no packages yet: updating its lists", flush=True)
        updated = subprocess.run(["apt-get", "update", "-q"], check=False).returncode == 0
        if not updated or subprocess.run(command, cwd=scratch, check=False).returncode != 0:
            return None
    for package in scratch.glob("*.deb"):
        _run(["dpkg-deb", "-x", os.fspath(package), os.fspath(scratch)])
    return next(scratch.glob("usr/share/python-wheels/pip-*.whl"), None)


def _run(command: list[str]) -> None:
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])
