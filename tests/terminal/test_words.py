"""What strangers write cannot speak to a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.terminal import words


@given(
    st.text() | st.sampled_from(["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202ereversed", "\udcff", "a\rb", "\x7f"])
)
def test_what_is_shown_is_printable_line_by_line(text: str) -> None:
    shown = words.shown(text)
    assert all(line.isprintable() for line in shown.split("\n"))
    shown.encode()
    assert shown.count("\n") == text.count("\n")
    if text.replace("\n", "").isprintable():
        assert shown == text


def test_a_mean_that_is_shown_as_one_is_one() -> None:
    """`why --slow` spoke of `1 hosts in memory`, of which there were 0.96."""
    assert [words.plural(number, "host") for number in (0, 0.96, 1, 1.2, 2)] == [
        "0 hosts", "1 host", "1 host", "1 host", "2 hosts"
    ]  # fmt: skip
