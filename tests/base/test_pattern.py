"""Patterns of URLs: letters outside of ASCII, and quotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.pattern import any_of, compiled, octets
from irlcrawl.base.url import canonical


@pytest.mark.parametrize(
    ("pattern", "reference", "finds"),
    [
        ("/privé/", "/privé/a", True), ("/privé/", "/priv%c3%a9/a", True), ("/privé/", "/prive/a", False),
        ("^http://a.test/öö?$", "/ö", True), ("^http://a.test/öö?$", "/öö", True),
        ("^http://a.test/(ö|ü)+$", "/öüö", True), ("[?]größe=\\d", "/?größe=4", True),
        ("\\Q/a.é?\\E", "/a.é%3F", False), ("\\Q/a.é\\E+", "/a.éé", True), ("\\Q/a.é", "/axé", False),
        ("日本", "/x/日本.html", True), ("\\[é", "/%5Bé", False), ("[[:alpha:]]é", "/xé", True), ("é", "/É", False),
    ],
)  # fmt: skip
def test_letters_outside_of_ascii_were_found_in_no_url(pattern: str, reference: str, finds: bool) -> None:
    """`match /privé/` of an opt-out list named no page, and nobody was told."""
    url = canonical(reference.encode(), b"http://a.test/")
    assert url is not None and url.isascii()
    assert (compiled(pattern).search(url) is not None) is finds


@pytest.mark.parametrize(
    ("pattern", "reference", "finds"),
    [
        ("/[é]$", "/é", True), ("/[xé]$", "/x", True), ("/[xé]$", "/é", True), ("/[xé]$", "/y", False),
        ("/[а-я]+/private", "/привет/private", True), ("/[а-я]+/private", "/hello/private", False),
        ("/[a-zà-ü]+$", "/größe", False), ("/[a-zà-üß]+$", "/größe", True), ("/[^é/]+$", "/ab", True),
        ("/[^é]$", "/a", True), ("/[]é]$", "/]", True), ("/[[:digit:]é]$", "/7", True), ("/[\\]é]$", "/é", True),
    ],
)  # fmt: skip
def test_letters_in_brackets(pattern: str, reference: str, finds: bool) -> None:
    url = canonical(reference.encode(), b"http://a.test/")
    assert url is not None and (compiled(pattern).search(url) is not None) is finds


@pytest.mark.parametrize("pattern", ["[a-é]", "[\u0400-\uffff]"])
def test_a_range_of_too_many_letters_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="in brackets; write two ranges, of at most 512 letters"):
        compiled(pattern)


@given(st.text(alphabet="é日a", min_size=1))
def test_a_word_is_found_in_the_url_that_has_it(word: str) -> None:
    url = canonical(f"/{word}".encode(), b"http://a.test/")
    assert url is not None and compiled(f"test/{word}$").search(url) is not None
    assert compiled(f"test/\\Q{word}\\E$").search(url) is not None


@given(st.text(alphabet="\\\\QE[]^:aé|()", max_size=12))
def test_a_pattern_is_one_or_says_why_it_is_none(pattern: str) -> None:
    try:
        compiled(pattern).search(b"http://a.test/%C3%A9")
    except ValueError as error:
        assert str(error)
    if pattern.isascii():
        assert octets(pattern) == pattern.encode()


_PATTERNS = st.lists(
    st.sampled_from([r"\Q", r"\E", "\\\\", r"\.", "a", "b", "Q", "E", "(", ")", "|", "[", "é"]), min_size=1
).map("".join)


def _finds(pattern: str, text: str) -> bool | None:
    try:
        return compiled(pattern).search(text.encode()) is not None
    except ValueError:
        return None


@given(
    st.lists(_PATTERNS, min_size=1, max_size=3), st.sampled_from(["a", "Q", "E", "(", ")", "ab", "\\", "%C3%A9", ""])
)
def test_a_pattern_that_left_a_quotation_open_swallowed_the_next_one(patterns: list[str], text: str) -> None:
    """`\\Qa.b` is a pattern; a list that had it ended a start by a traceback of RE2."""
    found = {pattern: _finds(pattern, text) for pattern in patterns}
    good = [pattern for pattern in patterns if found[pattern] is not None]
    if good:
        assert _finds(any_of(good), text) is any(found[pattern] for pattern in good)


def test_the_matcher_says_no_more_than_we_do(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="missing"):
        compiled("(")
    assert capfd.readouterr() == ("", "")


def test_a_letter_behind_a_backslash_in_brackets_ended_a_start_by_a_traceback() -> None:
    with pytest.raises(ValueError, match="takes no backslash"):
        compiled(r"[\é]")
