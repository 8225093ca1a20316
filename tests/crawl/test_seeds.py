"""Seeds: every form they come in, and every way they can be wrong."""

from __future__ import annotations

import gzip
import io
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.crawl.seeding import NewSeeds
from irlcrawl.crawl.seeds import LINE_BYTES_MAX, PROBLEMS_SHOWN_MAX, SeedsError, read_ranks, read_seeds

TEXT = """\ufeff# the seeds of a crawl
https://a.example/x y
  b.example:8080
\tc.example
# c

http://d.example/?q#f\tnutch.score=2.5\tkind = news\r
http://e.example/#not a comment
"""
SEEDS = [
    b"https://a.example/x%20y",
    b"http://b.example:8080/",
    b"http://d.example/?q",
    b"http://e.example/",
]


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def many(count: int) -> bytes:
    return b"".join(b"http://h%d.example/\n" % number for number in range(count))


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        zstandard.compress,
        lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]),
        lambda data: zstandard.compress(data[:50]) + zstandard.compress(data[50:]),
    ],
)
def test_plain_gzip_and_zstd_files(tmp_path: Path, pack: object) -> None:
    text = TEXT.replace("\tc.example\n", "")
    file = write(tmp_path / "seeds", pack(text.encode()))  # type: ignore[operator]
    assert read_seeds([file]) == SEEDS
    big = write(tmp_path / "big", pack(many(20_000)))  # type: ignore[operator]
    assert len(set(read_seeds([big]))) == 20_000


def test_standard_input_files_and_the_command_line_add_up(tmp_path: Path) -> None:
    file = write(tmp_path / "seeds", b"f.example")
    found = read_seeds([file, "-"], ["https://u.example"], stdin=io.BytesIO(b"s.example\n"))
    assert found == [b"https://u.example/", b"http://f.example/", b"http://s.example/"]
    packed = read_seeds(["-"], stdin=io.BytesIO(gzip.compress(b"s.example\n")))
    assert packed == [b"http://s.example/"]
    assert read_seeds([write(tmp_path / "none", b"")]) == []
    # A second `-` was a traceback: the first had closed it.
    twice = read_seeds([file, "-", file, "-"], stdin=io.BytesIO(b"s.example\n"))
    assert twice == [b"http://f.example/", b"http://s.example/"]


def test_every_malformed_line_is_named(tmp_path: Path) -> None:
    lines = [b"a.example", b"ftp://b.example/", b"http://", b"http://c.example/\tnot metadata", b"d\xff.example",
             b"http://e.example:99999/", b"mailto:x@example.org", b"\t=x", b"http://[::1/"]  # fmt: skip
    file = write(tmp_path / "seeds.txt", b"\n".join(lines))
    with pytest.raises(SeedsError) as caught:
        read_seeds([file], ["javascript:x"])
    problems = caught.value.problems
    assert problems[0].startswith("URL 1 of the command line: ")
    assert [problem.split(": ")[0] for problem in problems[1:]] == [f"{file}:{number}" for number in range(2, 10)]
    assert all(problem.split(": ", 1)[1] for problem in problems)
    assert str(caught.value).splitlines() == problems


@pytest.mark.parametrize(
    "line", ["1,google.com", '"https://a.example/"', "*.a.example", "a.example,b.example", "http://a.example,http://b/"]
)
def test_a_list_of_something_else_was_a_list_of_hosts_that_nobody_has(line: str) -> None:
    with pytest.raises(SeedsError, match="no host is called"):
        read_seeds([], [line])
    good = ["my_host.a-b.example", "[2001:db8::1]:81", "127.0.0.1", "xn--bcher-kva.example", "b\u00fccher.example."]
    assert len(read_seeds([], good)) == len(good)


def test_a_long_list_of_problems_is_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "seeds", b"ftp://x/\n" * 100)
    with pytest.raises(SeedsError) as caught:
        read_seeds([file])
    told = str(caught.value).splitlines()
    assert len(told) == PROBLEMS_SHOWN_MAX + 1
    assert told[-1] == f"... and {100 - PROBLEMS_SHOWN_MAX} more malformed lines"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_cut_or_damaged_file_is_no_short_one(tmp_path: Path, pack: object) -> None:
    whole = pack(many(5_000))  # type: ignore[operator]
    for content in (whole[:-9], whole[: len(whole) // 2], whole[:40] + b"\0" * 40 + whole[80:], whole[:5]):
        with pytest.raises(SeedsError, match="seeds"):
            read_seeds([write(tmp_path / "seeds", content)])


def test_what_is_no_list_of_urls(tmp_path: Path) -> None:
    with pytest.raises(SeedsError, match="No such file"):
        read_seeds([str(tmp_path / "none")])
    with pytest.raises(SeedsError, match="Is a directory"):
        read_seeds([str(tmp_path)])
    with pytest.raises(SeedsError, match="not a list of URLs"):
        read_seeds([write(tmp_path / "image", b"a" * (LINE_BYTES_MAX + 1))])


@given(st.binary(max_size=200))
def test_any_bytes_are_seeds_or_an_error_that_names_lines(data: bytes) -> None:
    try:
        seeds = read_seeds(["-"], stdin=io.BytesIO(data))
    except SeedsError as error:
        assert all(problem.startswith("standard input") for problem in error.problems)
    else:
        assert all(seed.startswith((b"http://", b"https://")) and seed.isascii() for seed in seeds)


def test_the_first_domains_of_a_list_of_ranks_are_seeds(tmp_path: Path) -> None:
    """As Tranco has it: rank,domain, with CRLF; what comes after the first N is not read, be it what it may."""
    file = tmp_path / "top-1m.csv.gz"
    file.write_bytes(gzip.compress(b"1,google.com\r\n2,B\xc3\xbccher.example\r\n3,www.b.test.\r\n4;no\n"))
    urls = [b"http://google.com/", b"http://xn--bcher-kva.example/", b"http://www.b.test./"]
    assert read_ranks(str(file), 2) == urls[:2]
    assert [url.rstrip(b"/").rstrip(b".") for url in read_ranks(str(file), 3)] == [
        url.rstrip(b"/").rstrip(b".") for url in urls
    ]
    with pytest.raises(SeedsError, match=r"top-1m\.csv\.gz:4: '4;no' is not rank,domain"):
        read_ranks(str(file), 4)


@pytest.mark.parametrize(
    "line",
    ["google.com", "x,google.com", "0,google.com", "1,", "1,a b.test", "1,http://a.test/", "1,a,b", "1,a.test:8", ""],
)
def test_a_wrong_line_of_a_list_of_ranks_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "ranks.csv"
    file.write_text(f"1,a.test\n{line}\n2,b.test\n")
    with pytest.raises(SeedsError, match=r"ranks\.csv:2: "):
        read_ranks(str(file), 10)


def test_an_empty_list_of_ranks_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "ranks.csv").touch()
    with pytest.raises(SeedsError, match="no line"):
        read_ranks(str(tmp_path / "ranks.csv"), 10)
    with pytest.raises(SeedsError, match="No such file"):
        read_ranks(str(tmp_path / "none.csv"), 10)


@pytest.mark.parametrize(
    ("seed", "told"),
    [
        ("http//foo.test/a", "a colon is missing; did you mean http://foo.test/a?"),
        ("https/foo.test", "did you mean https://foo.test?"),
        ("http://a.test/ http://b.test/", "two URLs; each takes a line of its own"),
        ("http://a.test/,http://b.test/", "two URLs"),
        ("http://me:secret@a.test/", "a user name or a password, which are never sent"),
        ("me@a.test", "a user name or a password"),
    ],
)
def test_a_mangled_seed_is_no_other_seed(seed: str, told: str) -> None:
    """Each was crawled as something else: the host `http`, one URL with %20, the page without its password."""
    with pytest.raises(SeedsError) as refused:
        read_seeds(urls=[seed])
    assert told in str(refused.value) and "secret" not in str(refused.value)
    assert read_seeds(urls=["http://a.test/@me", "a.test/?u=b@c", "http://a.test/http//x"])


def test_a_file_in_the_place_of_a_url_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_text("http://a.test/\n")
    for name in ("list.txt", "./list.txt", str(tmp_path / "list.txt")):
        with pytest.raises(SeedsError, match=r"is a file; if it is a list of seeds: --seeds \S*list.txt"):
            read_seeds(urls=[name])


@pytest.mark.parametrize("word", ["false", "true", "False"])
def test_the_value_of_a_switch_was_taken_for_a_seed(word: str) -> None:
    """`--page-nofollow false` switched it on, and asked for http://false/."""
    with pytest.raises(SeedsError, match="a switch takes no value, but is --page-nofollow or --no-page-nofollow"):
        read_seeds(urls=[word])


def test_how_many_seeds_were_new_is_said_when_they_were_looked_up() -> None:
    """It was said at the end of the crawl, which may be weeks later."""
    counted, merges, said = [(50, 50)], deque([{}], maxlen=1), []
    gauges: Any = SimpleNamespace(seeds=lambda: counted[-1], merges=merges, unchecked=9)
    told = NewSeeds(gauges, said.append)
    told.look()
    counted.append((100, 53))
    told.look()
    assert not said, "no merge of them began: 3 of them were called new, and 47 known"
    merges.append({"seen": {"buckets_done": 3, "buckets": 16, "rows_waiting": 20}})
    told.look()
    assert said == [], "some wait for the merge"
    counted.append((100, 60))
    merges.append({})
    for _ in range(3):
        told.look()
    told.look(over=True)
    assert said[0].startswith("irlcrawl: 10 of 50 seeds were new; `irlcrawl why JOB URL` says where one stands")
    stopped = NewSeeds(gauges, said.append)
    stopped.look(over=True)
    assert said[1:] == ["irlcrawl: 0 of 0 seeds were new"]
