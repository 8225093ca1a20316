"""Lines once, in their order: what awk '!seen[$0]++' prints, whatever the RAM, the last newline, or the lengths."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bench.dedupe
from tools import dedupe

LINE = st.one_of(st.sampled_from([b"", b"a", b"b", b"a ", b"\r", b"\x00"]), st.binary(max_size=9))
LINES = st.lists(LINE, max_size=60)


def once(text: bytes) -> bytes:
    """Brute force."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return b"".join(line + b"\n" for line in dict.fromkeys(lines))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, ends=st.booleans(), chunk_bytes=st.sampled_from([1, 7, 64, 1 << 20]))
def test_every_line_is_kept_once_in_order(
    lines: list[bytes], ends: bool, chunk_bytes: int, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    text = b"\n".join(lines) + b"\n" * ends
    directory = tmp_path_factory.mktemp("dedupe")
    (directory / "text").write_bytes(text)
    monkeypatch.setattr(dedupe, "CHUNK_BYTES", chunk_bytes)
    with (directory / "text").open("rb", buffering=0) as file:
        out = io.BytesIO()
        count, distinct = dedupe.dedupe(file, out, directory, ram_bytes=1 << 20)
    assert out.getvalue() == once(text)
    assert distinct == once(text).count(b"\n")
    assert count == text.count(b"\n") + (not text.endswith(b"\n") and bool(text))


def test_more_lines_than_ram_holds(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 60_000, 200_000)
    text = b"".join(b"line %d\n" % n for n in numbers.tolist())
    (tmp_path / "text").write_bytes(text)
    assert dedupe.main([str(tmp_path / "text"), "-o", str(tmp_path / "out"), "--ram-mib", "1"]) == 0
    assert (tmp_path / "out").read_bytes() == once(text)


def test_as_a_command_in_a_pipe() -> None:
    command = [sys.executable, "-m", "tools.dedupe", "-", "-v"]
    ended = subprocess.run(command, input=b"b\na\nb\nc", capture_output=True, check=True)
    assert ended.stdout == b"b\na\nc\n"
    assert ended.stderr == b"4 lines, 3 of them distinct\n"


def test_who_has_enough_lines_gets_no_complaint(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"".join(b"%099d\n" % n for n in range(50_000)))  # more than a pipe holds
    command = [sys.executable, "-m", "tools.dedupe", str(tmp_path / "text")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0" * 99 + b"\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("arguments", "closed", "code", "said"),
    [
        (["-"], 0, 1, b"dedupe: standard input is closed"),
        (["TEXT"], 1, 1, b"dedupe: standard output is closed"),
        (["TEXT", "--ram-mib", "0"], None, 2, b"argument --ram-mib: a whole number of at least 1, not 0"),
        (["TEXT", "--ram-mib", "-3"], None, 2, b"argument --ram-mib: a whole number of at least 1, not -3"),
        (["TEXT", "-o", "/dev/full"], None, 1, b"dedupe: [Errno 28] No space left on device"),
    ],
)
def test_wrong_use_was_a_traceback(
    tmp_path: Path, arguments: list[str], closed: int | None, code: int, said: bytes
) -> None:
    (tmp_path / "TEXT").write_bytes(b"a\n")
    ended = subprocess.run(
        [sys.executable, "-m", "tools.dedupe", *(str(tmp_path / a) if a == "TEXT" else a for a in arguments)],
        stderr=subprocess.PIPE, preexec_fn=None if closed is None else lambda: os.close(closed), check=False,
    )  # fmt: skip
    assert ended.stderr.splitlines()[-1].endswith(said)
    assert ended.returncode == code


def test_ctrl_c_was_a_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "text").write_bytes(b"a\n")
    monkeypatch.setattr(dedupe, "first_occurrences", interrupted)
    assert dedupe.main([str(tmp_path / "text"), "-o", str(tmp_path / "out")]) == 130


def test_a_text_that_grows_meanwhile_had_lines_without_a_bit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, out, first = tmp_path / "text", tmp_path / "out", dedupe.lines_of
    text.write_bytes(b"a\nb\na\n")

    def growing(file: io.RawIOBase, size: int) -> Any:
        with text.open("ab") as more:
            more.write(b"c\n" * 1000)
        return first(file, size)  # type: ignore[arg-type]

    monkeypatch.setattr(dedupe, "lines_of", growing)
    assert dedupe.main([str(text), "-o", str(out)]) == 0
    assert out.read_bytes() == b"a\nb\n"


def test_a_line_of_many_chunks_was_copied_once_for_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dedupe, "CHUNK_BYTES", 64)
    line = bytes(range(11, 256)) * 2000
    (tmp_path / "text").write_bytes(line + b"\n" + line + b"\n" + line + b"!")
    assert dedupe.main([str(tmp_path / "text"), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_bytes() == line + b"\n" + line + b"!\n"


def test_a_file_that_says_it_is_empty_is_read_all_the_same(tmp_path: Path) -> None:
    assert dedupe.main(["/proc/self/status", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_bytes().count(b"\n") > 20
    (tmp_path / "none").touch()
    assert dedupe.main([str(tmp_path / "none"), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_what_it_cannot_do_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dedupe.main([str(tmp_path / "none")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
    (tmp_path / "text").write_bytes(b"a\na\n")
    assert dedupe.main([str(tmp_path / "text"), "-o", str(tmp_path / "text")]) == 1
    assert "is the text itself: write to another file" in capsys.readouterr().err
    assert (tmp_path / "text").read_bytes() == b"a\na\n"


def test_the_benchmark_compares_it_with_sort(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.dedupe.main(["--json", "--lines", "30000", "--ram-mib", "4", "--dir", str(tmp_path)]) == 0
    ours, sorts = map(json.loads, capsys.readouterr().out.splitlines())
    assert (ours["program"], sorts["program"]) == ("dedupe", "sort -u")
    assert ours["distinct"] == sorts["distinct"] == pytest.approx(15_000, rel=0.1)
    with pytest.raises(RuntimeError, match="wrote 0 lines, there are 5 different ones"):
        bench.dedupe.run(["cp", "/dev/null", str(tmp_path / "out")], tmp_path / "out", tmp_path, 5)


def test_the_readme_s_program_writes_every_line_once_and_knows_them_the_next_time(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (program,) = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    text = b"".join(b"line %d\n" % (n % 3000) for n in range(10_000)) + b"\nno newline"
    for said, expected in ((text, set(once(text).splitlines())), (text + b"\nmore", {b"more"})):
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        ended = subprocess.run(command, input=said, capture_output=True, check=True, cwd=tmp_path, env=environment)
        lines = ended.stdout.splitlines()
        assert len(lines) == len(expected)
        assert set(lines) == expected


def test_a_pipe_by_its_name_has_no_length(tmp_path: Path) -> None:
    text, fifo = b"b\na\nb\n" * 20 + b"".join(b"%d\n" % n for n in range(50)), tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "tools.dedupe", str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        fifo.write_bytes(text)
        assert process.communicate()[0] == once(text)
    assert process.returncode == 0


def test_bits_in_a_file_with_holes_died_of_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\n" * 1_000_000)
    with (tmp_path / "text").open("rb", buffering=0) as text:
        dedupe.first_occurrences(text, 1_000_000, tmp_path, 1 << 20)
    assert (tmp_path / "bits").stat().st_blocks * 512 >= 125_000
