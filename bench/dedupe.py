"""`python -m bench dedupe`: distinct lines of a text, by tools/dedupe.py and by GNU `sort -u` with as much RAM.

The text is made first: lines of `--line-bytes`, URLs, a share of them repeats of an earlier one chosen evenly. Each
program writes a file; both must have as many lines as there are different ones. dedupe keeps the order of the text,
`sort -u` (in the C locale) gives the order of the bytes. Seconds are CPU time of the program and wall time; disk is the
most that its temporary files took, looked at twenty times a second. A program that never held as much memory as this
one did when it started it, as `sort` of a few lines, is told as that (so ru_maxrss counts). `taskset -c 1` gives either
one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.seen.stream import stream
from tools.options import directory, share, whole


def make_text(path: Path, lines: int, duplicates: float, line_bytes: int) -> int:
    """Write the text; how many of its lines are distinct."""
    distinct = 0
    with path.open("wb") as out:
        for batch in stream(lines, 0, 1, duplicates=duplicates, uniform=True, aux_bytes=line_bytes - 1):
            assert batch.urls is not None
            rows = batch.urls.blob.reshape(len(batch.keys), line_bytes - 1)
            out.write(b"".join(row + b"\n" for row in map(bytes, rows)))
            distinct += batch.new
    return distinct


class Disk:
    """The most that the files below a directory took, while `with` it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.bytes_max = directory, 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Disk:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.05):
            files = (os.path.join(root, name) for root, _, names in os.walk(self.directory) for name in names)
            self.bytes_max = max(self.bytes_max, sum(map(_taken, files)))


def _taken(file: str) -> int:
    try:
        return os.stat(file).st_blocks * 512
    except FileNotFoundError:  # deleted since it was listed
        return 0


def run(command: list[str], out: Path, tmp: Path, distinct: int) -> dict[str, Any]:
    """What a command that writes `out` and works in `tmp` took. RuntimeError: it failed, or wrote a wrong number of
    lines."""
    began = time.perf_counter()
    with Disk(tmp) as disk:
        process = subprocess.Popen(command, env={**os.environ, "LC_ALL": "C"})
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with exit code {process.returncode}")
    with out.open("rb") as written:
        lines = sum(block.count(b"\n") for block in iter(lambda: written.read(1 << 20), b""))
    if lines != distinct:
        raise RuntimeError(f"{' '.join(command)} wrote {lines:,} lines, there are {distinct:,} different ones")
    out.unlink()
    return {
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1), "wall_s": round(wall_s, 1),
        "peak_rss_bytes": usage.ru_maxrss * 1024, "disk_bytes_max": disk.bytes_max,
    }  # fmt: skip


def measure(directory: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    text, out, tmp = directory / "text", directory / "out", directory / "tmp"
    tmp.mkdir()
    lines = options.lines
    distinct = make_text(text, lines, options.duplicates, options.line_bytes)
    commands = {
        "dedupe": [
            sys.executable, "-m", "tools.dedupe", str(text), "-o", str(out), "--ram-mib", str(options.ram_mib),
            "--tmp", str(tmp),
        ],
        "sort -u": ["sort", "-u", f"-S{options.ram_mib}M", f"-T{tmp}", f"-o{out}", str(text)],
    }  # fmt: skip
    return [
        {"bench": "dedupe", "program": name, "lines": lines, "distinct": distinct, **run(command, out, tmp, distinct)}
        for name, command in commands.items()
    ]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench dedupe", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=whole(1), default=5_000_000, help="default %(default)g")
    parser.add_argument("--duplicates", type=share(), default=0.5, help="share of repeats (default %(default)s)")
    parser.add_argument("--line-bytes", type=whole(20), default=70, help="with the newline (default %(default)s)")
    parser.add_argument("--ram-mib", type=whole(1), default=256, help="of either (default %(default)s)")
    parser.add_argument("--dir", type=directory, help="for the text and temporary files (default: the system's)")
    parser.add_argument("--json", action="store_true", help="a JSON line for each program")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-dedupe-", dir=options.dir) as scratch:
        rows = measure(Path(scratch), options)
    print("\n".join(json.dumps(row) if options.json else "  ".join(f"{k}={v}" for k, v in row.items()) for row in rows))
    return 0
