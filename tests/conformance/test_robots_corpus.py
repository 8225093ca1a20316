"""4,231 robots.txt files as sites really write them: all are read, and read as Protego reads them but where we know
better (a byte order mark, agent lines with a version, whole product tokens, octets of the longest match)."""

from __future__ import annotations

import re
import tarfile

import zstandard
from protego import Protego

from irlcrawl.web.robots import Rules
from tests.conformance.conftest import Told
from tests.conformance.vectors import path_of

TOKENS = ("irlcrawl", "Googlebot", "bingbot")
_PATH = re.compile(rb"disallow:[ \t]*(/[!-\"$-~]*)", re.IGNORECASE)


def corpus() -> list[tuple[str, bytes]]:
    path = path_of("robots-corpus-protego/protego-robots-4231.tar.zst")
    files = []
    with (
        path.open("rb") as raw,
        zstandard.ZstdDecompressor().stream_reader(raw) as reader,
        tarfile.open(fileobj=reader, mode="r|") as tar,
    ):
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                files.append((member.name, content.read()))
    return files


def test_every_file_is_read_and_means_what_it_says(told: Told) -> None:
    files = corpus()
    assert len(files) == 4231
    differ, asked, delays = set(), 0, 0
    for number, (name, text) in enumerate(files):
        token = TOKENS[number % len(TOKENS)]
        rules = Rules(text, token)
        assert rules.allowed(b"/robots.txt")
        delays += rules.crawl_delay is not None
        if text.startswith(b"\xef\xbb\xbf") or len(text) > 20_000:
            continue
        theirs = Protego.parse(text.decode("utf-8", "replace"))
        for path in [b"/", b"/search?q=1", *_PATH.findall(text)[:4]]:
            path = path.replace(b"*", b"zz").replace(b"$", b"")
            asked += 1
            if rules.allowed(path) != theirs.can_fetch("http://host" + path.decode(), token):
                differ.add(name)
    told("robots-corpus-protego (files)", len(files))
    told("robots-corpus-protego (verdicts)", asked)
    assert asked > 15_000
    assert delays > 400
    # Agent lines with a version or a wildcard, other records between two agents, and `?`, which Protego counts as three
    # octets.
    assert len(differ) <= 14, differ
