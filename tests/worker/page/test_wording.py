"""What is another wording of the same, and what is a change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.worker.page.wording import FRAMES_MAX, wording

ARTICLE = b"<h1>The bridge is open</h1><p>The bridge over the river was opened by the mayor, who cut a red ribbon."


def page(article: bytes = ARTICLE, frame: bytes = b"<nav><a>Home of the town</a></nav>", end: bytes = b"") -> bytes:
    return b"<html><head><title>Town</title></head><body>" + frame + article + end + b"</body></html>"


SAME = {
    "digits": page(ARTICLE + b"<p>read 17 times so far"), "more digits": page(ARTICLE + b"<p>read 204 times so far"),
}  # fmt: skip


def test_digits_say_nothing() -> None:
    assert wording(SAME["digits"]) == wording(SAME["more digits"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"Updated: Monday, 3 October 2026, 10:22 am", b"Updated: Tuesday, 24 November 2026, 4:01 pm"),
        (b"Stand: 3. M\xc3\xa4rz 2026, 10:22 Uhr", b"Stand: 24. Oktober 2026, 9:00 Uhr"),
        (b"posted 3 hours ago by the editor", b"posted 12 days ago by the editor"),
        (b"le 3 janvier 2026 \xc3\xa0 Paris", b"le 14 juillet 2026 \xc3\xa0 Paris"),
    ],
)
def test_dates_say_nothing(one: bytes, other: bytes) -> None:
    assert wording(page(end=b"<p>" + one + b"</p>")) == wording(page(end=b"<p>" + other + b"</p>"))


@pytest.mark.parametrize("name", [b"nav", b"ASIDE", b"footer", b"script", b"style"])
def test_the_frame_says_nothing(name: bytes) -> None:
    frames = [b"<%s class=x><div><p>%s</p></div></%s>" % (name, text, name) for text in (b"one text", b"another one")]
    frames.append(b"<%s><%s>a frame in a frame</%s> of the page</%s>" % (name, name, name, name))
    assert len({wording(page(frame=frame)) for frame in frames}) == 1


@pytest.mark.parametrize(
    "changed",
    [
        page(ARTICLE.replace(b"red", b"blue")), page(ARTICLE.replace(b"open<", b"shut<")),
        page(ARTICLE + b"<p>One more paragraph."), page(b"<p>" + ARTICLE[-60:]),
        page(ARTICLE, frame=b"<nav>" + ARTICLE[:20]), page(end=b"<p>Monday is the day of the market"),
    ],
)  # fmt: skip
def test_a_word_a_headline_or_a_paragraph_is_a_change(changed: bytes) -> None:
    """So is what stands behind an element that never ends, and the name of a day that is no date."""
    assert wording(changed) != wording(page())


def test_what_says_little_is_told_by_its_bytes() -> None:
    assert wording(b"<p>short 1") == wording(b"<p>short 2") != wording(b"<b>short 2")
    assert wording(b'{"price": 1}', html=False) == wording(b'{"price": 2}', html=False)
    assert wording(b'{"price": 1}', html=False) != wording(b'{"prize": 1}', html=False)


def test_only_so_many_tags_are_looked_at() -> None:
    many = b"<nav>x</nav>" * (FRAMES_MAX // 2)
    assert wording(page(frame=many)) == wording(page())
    assert wording(page(frame=many, end=b"<nav>a text that changes</nav>")) != wording(page(frame=many))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.lists(st.sampled_from([b"<nav>", b"</nav>", b"<", b"a text of a page", b">"])).map(
    b"".join
), st.booleans())  # fmt: skip
def test_it_is_never_0_whatever_came(body: bytes, html: bool) -> None:
    assert 0 < wording(body, html) < 2**64
