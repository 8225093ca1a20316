"""`python -m tools.dedupe FILE`: the lines of a text that were not there before, in their order, in constant RAM.

What `awk '!seen[$0]++'` does, for more lines than fit in memory: it reads the text twice. The first time every line
goes through a drum as 64 bits of hash with its number, and the numbers of first occurrences come back as bits in a
temporary file; the second time the lines with a bit are written. A line takes at most some 16 bytes of disk while it is
worked on, and RAM is the setting, the longest line, a bit a line, and less than 100 MiB.

Two different lines with one hash would lose one of them: expected are n²/2⁶⁵ such lines of n different ones, that is
0.0003 of a hundred million. The hash is seeded by chance, so nobody can prepare such lines.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import IO

from drum import Batch, Drum, keys_of  # isort: skip # before numpy: drum/processor.py

import numpy as np
from numpy.typing import NDArray

from tools.options import whole

CHUNK_BYTES = 1 << 20


def lines_of(text: IO[bytes], size: int) -> Iterator[list[bytes]]:
    """The lines of the first `size` bytes, some megabytes at a time, without their newlines; the last one may have
    none."""
    parts: list[bytes] = []  # of a line that goes on
    while size and (data := text.read(min(CHUNK_BYTES, size))):
        size -= len(data)
        lines = data.split(b"\n")
        if len(lines) > 1:
            lines[0] = b"".join([*parts, lines[0]])
            parts = []
        parts.append(lines.pop())
        if lines:
            yield lines
    if rest := b"".join(parts):
        yield [rest]


def first_occurrences(text: IO[bytes], size: int, scratch: Path, ram_bytes: int) -> tuple[NDArray[np.uint8], int]:
    """(a bit for every line, set where none before it was equal; number of lines). Bits are as np.packbits has them."""
    with open(scratch / "bits", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size // 8 + 1)  # in a mapped file with holes, a full disk kills
    bits = np.memmap(scratch / "bits", dtype=np.uint8, mode="r+")

    def emit(batch: Batch) -> None:
        at = batch["line"]
        np.bitwise_or.at(bits, at >> 3, (128 >> (at & 7)).astype(np.uint8))

    seed, count = secrets.randbits(64), 0
    with Drum(scratch / "seen", emit=emit, ram_bytes=ram_bytes) as drum:
        for lines in lines_of(text, size):
            drum.add(keys_of(lines, seed), line=np.arange(count, count + len(lines), dtype=np.int64))
            count += len(lines)
    return bits, count


def dedupe(text: IO[bytes], out: IO[bytes], scratch: Path, ram_bytes: int) -> tuple[int, int]:
    """Write the distinct lines of a seekable text, each with a newline. Returns (lines, distinct lines). What is added
    to the text meanwhile is left out."""
    size = os.fstat(text.fileno()).st_size
    bits, count = first_occurrences(text, size, scratch, ram_bytes)
    text.seek(0)
    start = distinct = 0
    for lines in lines_of(text, size):
        end = start + len(lines)
        wanted = np.unpackbits(bits[start // 8 : (end + 7) // 8])[start % 8 :][: len(lines)]
        kept = list(compress(lines, wanted.tolist()))
        if kept:
            out.write(b"\n".join(kept) + b"\n")
        distinct += len(kept)
        start = end
    return count, distinct


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 done, 1 a file cannot be read or written (stderr says which), 2 wrong usage, 130 Ctrl-C, 141 who
    reads the lines has enough."""
    parser = argparse.ArgumentParser(prog="python -m tools.dedupe", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", metavar="FILE", help="the text; a pipe or - (standard input) is copied to disk first")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="default: standard output")
    parser.add_argument("--ram-mib", type=whole(1), default=256, help="default %(default)s")
    parser.add_argument("--tmp", metavar="DIR", help="for temporary files, 16 bytes a line (default: the system's)")
    parser.add_argument("-v", "--verbose", action="store_true", help="say how many lines there were")
    options = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="dedupe-", dir=options.tmp) as scratch:
            count, distinct = _run(options, Path(scratch))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would flush there once more
        return 141
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"dedupe: {error}", file=sys.stderr)
        return 1
    if options.verbose:
        print(f"{count:,} lines, {distinct:,} of them distinct", file=sys.stderr)
    return 0


def _run(options: argparse.Namespace, scratch: Path) -> tuple[int, int]:
    for name, stream, given in (("input", sys.stdin, options.file), ("output", sys.stdout, options.output)):
        if stream is None and given == "-":
            raise OSError(f"standard {name} is closed")
    source = Path(options.file)
    if options.file == "-" or source.stat().st_size == 0:  # a pipe, or one of /proc, and it is read twice
        given = sys.stdin.buffer if options.file == "-" else source.open("rb")
        source = scratch / "given"
        with given, source.open("wb") as copy:
            shutil.copyfileobj(given, copy, CHUNK_BYTES)
    with source.open("rb", buffering=0) as text:
        if options.output == "-":
            counts = dedupe(text, sys.stdout.buffer, scratch, options.ram_mib << 20)
            sys.stdout.buffer.flush()
            return counts
        if os.path.exists(options.output) and os.path.samefile(options.output, source):
            raise FileExistsError(f"{options.output} is the text itself: write to another file")
        with open(options.output, "wb") as out:
            return dedupe(text, out, scratch, options.ram_mib << 20)


if __name__ == "__main__":
    sys.exit(main())
