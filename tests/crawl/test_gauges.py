"""The status record is counted beside workers that rename files and end as they like."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drum import Files
from irlcrawl.crawl import gauges


def test_an_archive_file_that_gets_its_final_name_while_files_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that closed a file just then ended the crawl with FileNotFoundError."""
    (tmp_path / "kept.warc.gz").write_bytes(b"x" * 10)
    (tmp_path / "full.warc.gz.open").write_bytes(b"x" * 10)
    scandir = os.scandir

    @contextmanager
    def then_renamed(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            found = list(entries)
        (tmp_path / "full.warc.gz.open").rename(tmp_path / "full.warc.gz")
        yield found

    monkeypatch.setattr(os, "scandir", then_renamed)
    assert Files().total(tmp_path) == 10


def test_a_worker_that_ends_while_its_memory_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:

        def then_reaped(*args: Any, **kwargs: Any) -> Any:
            stream = builtins.open(*args, **kwargs)  # noqa: SIM115 - the caller closes it
            process.kill()
            process.wait()
            return stream

        monkeypatch.setattr(gauges, "open", then_reaped, raising=False)
        assert gauges._resident([process.pid]) == 0
        assert gauges._resident([process.pid]) == 0
