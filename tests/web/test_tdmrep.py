"""tdmrep.json as lines beside robots.txt. Examples: TDM Reservation Protocol, "TDM File on the Origin Server"."""

from __future__ import annotations

import json
from typing import Any

import pytest

from irlcrawl.web.robots import Rules
from irlcrawl.web.tdmrep import LINES_BYTES_MAX, RULES_MAX, lines

POLICY = "https://provider.com/policies/policy.json"
EXAMPLE = [
    {"location": "/directory-a/", "tdm-reservation": 0},
    {"location": "/directory-b/html/", "tdm-reservation": 1, "tdm-policy": POLICY},
    {"location": "/directory-b/images/*.jpg", "tdm-reservation": 1},
    {"location": "/this/path/exactly$", "tdm-reservation": 1},
    {"location": "/path/foo-%24", "tdm-reservation": 1},
    {"location": "/directory-a/x", "tdm-reservation": 1},
]


def rules(file: Any, robots: str = "") -> Rules:
    text = lines(file if isinstance(file, bytes) else json.dumps(file).encode())
    return Rules(f"{robots}\n{text}".encode(), "testbot")


@pytest.mark.parametrize(("path", "wishes"), [
    ("/directory-a/x", {"tdm-reservation=0"}),  # the first that matches, not the longest
    ("/directory-b/html/1?q", {"tdm-reservation=1", f"tdm-policy={POLICY}"}),
    ("/directory-b/images/a/b.jpg?x", {"tdm-reservation=1"}),
    ("/directory-b/images/a.png", set()),
    ("/this/path/exactly", {"tdm-reservation=1"}), ("/this/path/exactly/not", set()),
    ("/path/foo-$", {"tdm-reservation=1"}), ("/Directory-a/", set()), ("/", set()),
])  # fmt: skip
def test_the_first_rule_that_matches_a_path_counts(path: str, wishes: set[str]) -> None:
    assert rules(EXAMPLE).tdm_for(b"https://a.test" + path.encode()) == wishes


@pytest.mark.parametrize("robots", ["", "User-agent: testbot\nDisallow: /x", "User-agent: other\nDisallow: /"])
def test_it_speaks_to_all_agents_and_changes_nothing_of_the_robots_txt(robots: str) -> None:
    both, alone = rules([{"location": "/", "tdm-reservation": 1}], robots), Rules(robots.encode(), "testbot")
    assert both.tdm_for(b"/y") == {"tdm-reservation=1"}
    assert [both.allowed(path) for path in (b"/x", b"/y")] == [alone.allowed(path) for path in (b"/x", b"/y")]


@pytest.mark.parametrize("file", [
    b"", b"<html>", b"\xff", b"[" * 9000, b"{}", b"7", b'[7, null, {"location": 1}]', b'[{"location": "/"}]',
    b'[{"location": "x", "tdm-reservation": 1}]', b'[{"location": "/", "tdm-reservation": 2}]',
    b'[{"location": "/", "tdm-reservation": [1]}]',
])  # fmt: skip
def test_what_cannot_be_understood_says_nothing(file: bytes) -> None:
    assert lines(file) == ""


def test_no_rule_can_be_a_line_of_robots_txt() -> None:
    found = rules([{"location": "/a\nDisallow: /", "tdm-reservation": 1, "tdm-policy": "x\ry\nAllow: /"}])
    assert found.allowed(b"/a") and found.tdm_for(b"/a%0ADisallow:%20/x") == {
        "tdm-reservation=1", "tdm-policy=x%0Dy%0AAllow:%20/",
    }  # fmt: skip


def test_the_lines_are_bounded() -> None:
    many = [{"location": f"/{number}", "tdm-reservation": 1} for number in range(9000)]
    assert lines(json.dumps(many).encode()).count("\n") == RULES_MAX
    long = [{"location": "/" + "a" * 3000, "tdm-reservation": 1}] * 9
    assert 6000 < len(lines(json.dumps(long).encode())) <= LINES_BYTES_MAX


def test_a_reservation_behind_very_many_rules_was_not_known() -> None:
    policy = "https://provider.com/policies/tdm-policy-2026.json"
    free = [{"location": f"/volume-{n:03}/", "tdm-reservation": 0, "tdm-policy": policy} for n in range(110)]
    assert rules([*free, {"location": "/", "tdm-reservation": 1}]).tdm_for(b"/books/1") == {"tdm-reservation=1"}
    assert rules([*free, {"location": "/", "tdm-reservation": 0}]).tdm_for(b"/books/1") == set()
    assert "tdm-reservation=0" in rules([*free, {"location": "/", "tdm-reservation": 1}]).tdm_for(b"/volume-007/x")


def test_what_followed_a_hash_was_taken_for_a_comment_of_robots_txt() -> None:
    found = rules([{"location": "/a#b", "tdm-reservation": 1, "tdm-policy": f"{POLICY}#tdm"}])
    assert found.tdm_for(b"/a%23b") == {"tdm-reservation=1", f"tdm-policy={POLICY}#tdm"}
    assert found.tdm_for(b"/a") == set()
