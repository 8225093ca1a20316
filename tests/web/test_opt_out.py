"""The opt-out list: what a line names, what a file may hold, and what happens when it changes."""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path

import pytest

from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.lists import opt_out, opt_outs
from irlcrawl.web.opt_out import GROUP_LINES, OptOutFile, OptOuts

LIST = """\
# what our owners asked for

host   Shop.Example.com        2026-11-02  asked by mail, ticket 12
host   example.com:8080        2026-11-02
site   example.org             2026-11-02\trobots.txt cannot be changed there
host   bücher.example          2026-11-02
host   dotted.example.         2026-11-02
host   [2001:db8::1]           2026-11-02
url    http://example.net/me#x 2026-11-03  her page
match  [?&]patient=            2026-11-03  records # of persons
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "opt-out.txt"
    path.write_text(LIST, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (b"http://shop.example.com/x", "host"),
        (b"https://shop.example.com:444/x", "host"),
        (b"https://shop.example.com./x", "host"),
        (b"https://example.com.:8080/", "host"),
        (b"http://dotted.example/", "host"),
        (b"https://a.shop.example.com/", None),
        (b"https://example.com:8080/", "host"),
        (b"https://example.com/", None),
        (b"http://example.org/x?y", "site"),
        (b"http://a.b.example.org/", "site"),
        (b"http://notexample.org/", None),
        (b"http://xn--bcher-kva.example/", "host"),
        (b"http://[2001:db8::1]:81/", "host"),
        (b"http://example.net/me", "url"),
        (b"http://example.net/me/", None),
        (b"http://any.test/?a=b&patient=7", "match"),
        (b"http://any.test/patient", None),
    ],
)
def test_what_a_line_names(file: Path, url: bytes, kind: str | None) -> None:
    found = OptOuts(opt_outs(str(file))).of(url)
    assert (found and found.kind) == kind


def test_a_page_that_a_crawl_spells_in_another_way_was_not_named_by_its_url(tmp_path: Path) -> None:
    """The list is of many crawls, and has URLs as their owners know them."""
    (tmp_path / "list").write_text("url http://a.test/me?utm_source=x&id=1 2026-11-02 by mail\n")
    config = Config()
    config.scope.opt_out_file = str(tmp_path / "list")
    outs = OptOutFile.of_crawl(config).latest()
    assert outs is not None
    assert outs.of(b"http://a.test/me?id=1") and outs.of(b"http://a.test/me?utm_source=x&id=1")
    assert outs.of(b"http://a.test/me?id=1&gclid=7"), "a seed, which is asked as it came"
    assert not outs.of(b"http://a.test/me")


def test_a_line_says_since_when_and_why(file: Path) -> None:
    outs = OptOuts(opt_outs(str(file)))
    assert str(outs.of(b"http://shop.example.com/")) == "host shop.example.com (2026-11-02: asked by mail, ticket 12)"
    assert str(outs.of(b"http://a.test/?patient=")) == "match [?&]patient= (2026-11-03: records # of persons)"
    assert str(outs.of(b"http://example.com:8080/")) == "host example.com:8080 (2026-11-02)"
    assert outs.of_urls and not OptOuts(opt_outs(str(file))[:3]).of_urls


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("example.com", "line 1: 'example.com' is not"),
        ("host example.com", "is not `host"),
        ("domain example.com 2026-11-02", "begins with one of host, site"),
        ("host example.com 2.11.2026", "is no date"),
        ("host http://a/b 2026-11-02", "takes a host's name"),
        ("site a.test:80 2026-11-02", "a site has no port"),
        ("match (a 2026-11-02", "not an RE2 pattern"),
        ("url ftp://a.test/ 2026-11-02", "ftp"),
        ("host *.example.com 2026-11-02", "is no name of a host"),
        ("site *.example.com 2026-11-02", "is no name of a site"),
        ("site example.com,example.org 2026-11-02", "is no name of a site"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    (path := tmp_path / "list").write_text(line)
    with pytest.raises(ConfigError) as error:
        opt_outs(str(path))
    assert str(path) in str(error.value) and "line 1" in str(error.value) and told in str(error.value)


PERSON = "match ^https?://([a-z0-9-]+[.])*person-{}[.]example[.]org/(profile|photos)/ 2026-11-02\n"


def test_thousands_of_patterns_took_a_second_a_url(tmp_path: Path) -> None:
    """One expression of them all left RE2 no room to work. A filter looks for their letters first."""
    (path := tmp_path / "list").write_text("match [?]both 2026-11-01\n" + "".join(map(PERSON.format, range(5000))))
    outs = OptOuts(lines := opt_outs(str(path)))
    for number in (0, 249, 2500, 4999):
        assert outs.of(b"http://www.person-%d.example.org/photos/" % number) == lines[number + 1]
        assert outs.of(b"http://person-%d.example.org/photos/?both" % number) == lines[0], "the first in the list"
    assert outs.of(b"http://person-5000.example.org/photos/") is None
    assert outs.of(b"http://person-7.example.org/") is None
    assert all(len(group) <= GROUP_LINES for _, group in outs._matches)


def test_patterns_of_many_letters_have_room_in_smaller_groups(tmp_path: Path) -> None:
    words = ["".join(random.Random(number).choices("abcdefgh", k=3900)) for number in range(60)]
    (path := tmp_path / "list").write_text("".join(f"match {word} 2026-11-02\n" for word in words))
    outs = OptOuts(lines := opt_outs(str(path)))
    assert len(outs._matches) > 1
    assert [outs.of(b"http://a.test/" + word.encode()) for word in words] == lines


def test_patterns_without_a_letter_are_found_too() -> None:
    outs = OptOuts([opt_out("match", what, "2026-11-02") for what in ("[0-9]{9}", "(?i)PatIent", "[.](?:zip|7z)$")])
    for url, what in ((b"//a/123456789", 0), (b"//a/patIENT", 1), (b"//a/b.7z", 2), (b"//a/b.7zz", None)):
        found = outs.of(b"http:" + url)
        assert (found and found.what) == (None if what is None else ("[0-9]{9}", "(?i)PatIent", "[.](?:zip|7z)$")[what])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        # 40 of these took 570 MiB and 33 CPU-seconds; 60,000 of the next a traceback
        ("match x(\\pL{999}) 2026-11-02\n" * 40, "line 1: 'x(\\\\pL{999})' is not an RE2 pattern: pattern too large"),
        (PERSON * 60_000, "the patterns so far are too many, or too long together; name pages and hosts by"),
        ("match x(\\pL{9}) 2026-11-02\n" * 400, "the patterns so far are too many, or too long together"),
    ],
)
def test_patterns_had_no_bound(tmp_path: Path, lines: str, told: str) -> None:
    (path := tmp_path / "list").write_text(lines)
    with pytest.raises(ConfigError) as error:
        opt_outs(str(path))
    assert f"{path}, line " in str(error.value) and told in str(error.value)


def test_a_list_that_begins_with_a_mark_of_its_coding_was_refused(tmp_path: Path) -> None:
    (path := tmp_path / "list").write_bytes(b"\xef\xbb\xbfhost a.test 2026-11-02\n")
    assert [line.what for line in opt_outs(str(path))] == ["a.test"]


def test_a_list_is_read_again_when_it_changes(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = b"http://late.test/"
    outs = OptOutFile(str(file))
    first = outs.latest()
    assert first is not None and first.of(url) is None and outs.latest() is first
    file.write_text(LIST + "host late.test 2026-11-04\n")
    assert (second := outs.latest()) is not None and second.of(url) is not None
    with caplog.at_level(logging.ERROR):
        file.write_text("nonsense")
        assert outs.latest() is second and outs.latest() is second
        os.unlink(file)
        assert outs.latest() is second
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the opt-out list counts as it was"
    ] * 2


def test_no_file_is_no_list(tmp_path: Path) -> None:
    assert OptOutFile("").latest() is None
    with pytest.raises(ConfigError, match="cannot be read"):
        OptOutFile(str(tmp_path / "none"))
