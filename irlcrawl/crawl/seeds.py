"""Seeds: where a crawl begins, out of files, standard input and the command line.

One URL per line; `#` begins a comment line; a bare host means `http://host/`; after a tab, `key=value` metadata as
Nutch's and StormCrawler's injectors take it (it is checked, and ignored). gzip and zstd are recognised by their
first bytes. Every malformed line is collected before anything is refused, so that a person sees all of them at once.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shlex
import sys
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any

import zstandard

from irlcrawl.base.url import SeedError, host_of, seed_url
from irlcrawl.terminal.progress import Bar

SHOWN_FROM_BYTES = 1 << 20
"""Of a smaller file no progress is shown: it is read in a moment."""
LINES_BETWEEN = 10_000

PROBLEMS_SHOWN_MAX = 20
LINE_BYTES_MAX = 1 << 20
"""No URL is that long: this bounds what a wrong file (a disk image, a bomb) can cost."""


class SeedsError(ValueError):
    """Seeds that cannot be used; the message has a line `file:line: reason` for each. Exit code 4."""

    def __init__(self, problems: list[str]) -> None:
        shown = problems[:PROBLEMS_SHOWN_MAX]
        if len(problems) > len(shown):
            shown.append(f"... and {len(problems) - len(shown)} more malformed lines")
        super().__init__("\n".join(shown))
        self.problems = problems


def read_seeds(
    files: Iterable[str] = (), urls: Iterable[str] = (), stdin: IO[bytes] | None = None, bar: Bar | None = None
) -> list[bytes]:
    """The URLs of all seeds, canonical: those of `urls`, then of `files` (`-` is standard input), in order. bar: shows
    how far large files are read. Raises SeedsError naming all bad lines."""
    seeds: list[bytes] = []
    problems: list[str] = []
    for number, text in enumerate(urls, 1):
        where = f"URL {number} of the command line"
        if "://" not in text and os.path.isfile(text):
            problems.append(f"{where}: {text[:200]} is a file; if it is a list of seeds: --seeds {shlex.quote(text)}")
        else:
            _parse(text, where, seeds, problems)
    for name in dict.fromkeys(files):  # named twice, standard input is at its end the second time
        where = "standard input" if name == "-" else name
        number = 0
        try:
            with _open(name, stdin) as stream:
                for number, line in enumerate(_shown(_lines(stream), stream, name, bar), 1):
                    _parse_line(line, f"{where}:{number}", seeds, problems)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError, _TooLong) as error:
            # What makes a compressed file unreadable shows at the line after the last good one.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            problems.append(f"{where}:{number + 1}: {reason}" if number else f"{where}: {reason}")
    if problems:
        raise SeedsError(problems)
    return seeds


def read_ranks(name: str, top: int, stdin: IO[bytes] | None = None) -> list[bytes]:
    """Home pages of the first `top` domains of a list of sites by rank: lines `rank,domain`, such as Tranco's. Lines
    after these are not read. Raises SeedsError naming all bad lines, and a file with none at all."""
    seeds: list[bytes] = []
    problems: list[str] = []
    where = "standard input" if name == "-" else name
    number = 0
    try:
        with _open(name, stdin) as stream:
            for number, line in enumerate(islice(_lines(stream), top), 1):
                _parse_rank(line, f"{where}:{number}", seeds, problems)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError, _TooLong) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        problems.append(f"{where}:{number + 1}: {reason}" if number else f"{where}: {reason}")
    if not number and not problems:
        problems.append(f"{where}: no line `rank,domain`")
    if problems:
        raise SeedsError(problems)
    return seeds


def _parse_rank(line: bytes, where: str, seeds: list[bytes], problems: list[str]) -> None:
    rank, comma, domain = line.decode("utf-8", "replace").strip().partition(",")
    if not comma or not _RANK(rank) or not int(rank) or not _DOMAIN(domain):
        problems.append(f"{where}: {line.decode('utf-8', 'backslashreplace').strip()[:100]!r} is not rank,domain")
        return
    _parse(domain, where, seeds, problems)


_RANK = re.compile(r"[0-9]{1,18}").fullmatch
_DOMAIN = re.compile(r"[^\s,/:@?#\[\]\\]+").fullmatch
"""A name without anything that makes a URL of it; whether a host may be called so is looked at as for any seed."""


class _TooLong(ValueError):
    pass


def _open(name: str, stdin: IO[bytes] | None) -> Any:
    raw = open(name, "rb", buffering=0) if name != "-" else stdin or sys.stdin.buffer  # noqa: SIM115 the caller closes
    stream: Any = io.BufferedReader(raw)
    magic = stream.peek(4)[:4]
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(stream, "rb")
    if magic == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(_WholeFrames(stream))
    return stream


class _WholeFrames(io.RawIOBase):
    """The bytes of zstd frames one after another. zstandard's own reader takes a cut file for a short one: not here."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._fed = False  # bytes of a frame that has not ended were given to the decoder
        self._input = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            self._input = self._input or self._source.read(1 << 12)
            if not self._input:
                if self._fed:
                    raise EOFError("the zstd file ends in the middle of a frame")
                return 0
            self._fed = True
            self._ready = memoryview(self._frame.decompress(self._input))
            self._input = b""
            if self._frame.eof:
                self._input = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._fed = False
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    first = True
    while line := stream.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise _TooLong(f"a line of more than {LINE_BYTES_MAX} bytes: not a list of URLs")
        yield line.removeprefix(b"\xef\xbb\xbf") if first else line
        first = False


def _shown(lines: Iterator[bytes], stream: Any, name: str, bar: Bar | None) -> Iterator[bytes]:
    """The lines, while a bar shows how much of a large file they were, in bytes of the file, compressed or not."""
    size = os.path.getsize(name) if bar is not None and os.path.isfile(name) else 0
    if bar is None or size < SHOWN_FROM_BYTES:
        yield from lines
        return
    raw, done = _raw(stream), 0
    bar.stage(os.path.basename(name), size)
    for number, line in enumerate(lines, 1):
        yield line
        if number % LINES_BETWEEN == 0:
            at = raw.tell()
            bar.read(at - done)
            done = at
    bar.read(size - done)


def _raw(stream: Any) -> Any:
    """The file itself, below what decodes it."""
    if isinstance(stream, gzip.GzipFile):
        return stream.fileobj
    return stream.raw._source if isinstance(stream.raw, _WholeFrames) else stream.raw


def _parse_line(line: bytes, where: str, seeds: list[bytes], problems: list[str]) -> None:
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        problems.append(f"{where}: not UTF-8")
        return
    if text.strip() and not text.lstrip().startswith("#"):
        _parse(text, where, seeds, problems)


def _parse(text: str, where: str, seeds: list[bytes], problems: list[str]) -> None:
    address, *fields = text.split("\t")
    for item in fields:
        name, equals, _ = item.partition("=")
        if not equals or not name.strip():
            problems.append(f"{where}: {item!r} after a tab is not key=value")
            return
    if address.strip().lower() in ("true", "false"):
        problems.append(f"{where}: no host; a switch takes no value, but is --page-nofollow or --no-page-nofollow, say")
        return
    try:
        url = seed_url(address.strip())
    except SeedError as error:
        problems.append(f"{where}: {error}")
        return
    if not _HOST(host_of(url)):  # a URL all the same: in a list of "rank,name", say, or of quoted ones
        problems.append(f"{where}: no host is called {host_of(url)[:100]!r}")
        return
    if (mangled := _mangled(address.strip())) is not None:
        problems.append(f"{where}: {mangled}")
        return
    seeds.append(url)


_NO_COLON = re.compile(r"https?/{1,2}(?=[^/])", re.IGNORECASE)
_SECOND = re.compile(r"[\s,;|]\s*https?://", re.IGNORECASE)
_USER = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//[^/?#\\]*@", re.IGNORECASE)


def _mangled(text: str) -> str | None:
    """What is wrong with a line of which a URL could be made, but hardly the one that is meant."""
    if (found := _NO_COLON.match(text)) is not None:
        scheme = found[0].rstrip("/")
        return f"{text[:100]!r}: a colon is missing; did you mean {scheme}://{text[found.end() :][:100]}?"
    if _SECOND.search(text):
        return f"{text[:100]!r}: two URLs; each takes a line of its own"
    if _USER.match(text) or (_USER.match("//" + text) and "://" not in text):
        return "it has a user name or a password, which are never sent: leave out what stands before the @"
    return None


_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+").fullmatch
"""What names of hosts are made of (RFC 1123, and the `_` that some have), and IPv6 addresses."""
