"""Document sets are fetched and unpacked once, however many ask. Nothing is downloaded: apt-get is a stand-in."""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools.docsweb import sets

WAIT_S = 30.0


def test_two_apt_gets_at_once_took_each_others_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """apt-get begins by taking away a file of the name that it is about to write: two benchmarks that began together on
    a new machine, and the one that was done first ended with a traceback."""
    docs = sets.SETS[0]
    first_wrote, second_began, one_over = threading.Event(), threading.Event(), threading.Event()
    both = threading.Barrier(2, timeout=WAIT_S)

    def run(command: list[str], cwd: Path | None = None, **_: Any) -> subprocess.CompletedProcess[str]:
        if command[0] == "dpkg-deb":
            (Path(command[-1]) / docs.root).mkdir(parents=True)
            return subprocess.CompletedProcess(command, 0, "", "")
        assert command[:2] == ["apt-get", "download"]
        assert cwd is not None
        deb = Path(cwd) / f"{docs.package}_1_all.deb"
        if both.wait() == 0:
            deb.write_bytes(b"deb")
            first_wrote.set()
            assert second_began.wait(WAIT_S)
        else:
            assert first_wrote.wait(WAIT_S)
            deb.unlink(missing_ok=True)
            second_began.set()
            assert one_over.wait(WAIT_S)
            deb.write_bytes(b"deb")
        return subprocess.CompletedProcess(command, 0, "", "")

    def ask() -> tuple[dict[str, Path], dict[str, str]]:
        try:
            return sets.unpacked([docs], tmp_path)
        finally:
            one_over.set()

    monkeypatch.setattr(sets.subprocess, "run", run)
    monkeypatch.setattr(sets.shutil, "which", lambda _: "/bin/true")
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask) for _ in range(2)]
        for one in asked:
            roots, missing = one.result()
            assert not missing
            assert roots[docs.name].is_dir()
    assert [p.name for p in (tmp_path / "packages").iterdir()] == [f"{docs.package}_1_all.deb"]
