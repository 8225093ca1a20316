"""Two pages have one fingerprint if they say the same, numbers apart."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.worker.page.fingerprint import BODY_BYTES_MAX, fingerprint, texts_of

STORY = "Once upon a time there was a page with a good deal of text in it, and"
PAGE = f"<title>A story</title><p>{STORY} so on.<p>The second paragraph has 12 words, digits among them."

LINES = st.text("abcdefgh ", min_size=40, max_size=60).filter(lambda line: len(line.replace(" ", "")) > 30)
LABELS = st.sampled_from(["more", "12 March 2025", "Next &raquo;", "", " \n ", "1,234 views"])
TAGS = st.sampled_from(["<p>", "</div>", '<a href="/x/7">', "<br/>", "<img src=y.png alt='z'>", "<script>var nonce = "
    "'b4f6dd0e38aa'; send(nonce);</script>", "<style>.x { color: #ffeedd; margin: 0 }</style>"])  # fmt: skip


def of(page: str) -> int:
    return fingerprint(page.encode())


def plain(line: str) -> str:
    return line.replace(" ", "")


@given(st.lists(LINES, min_size=3, max_size=6, unique_by=plain), st.data())
def test_markup_labels_and_repeated_texts_change_nothing(lines: list[str], data: st.DataObject) -> None:
    def written() -> str:
        between = st.lists(st.tuples(TAGS, LABELS), max_size=4)
        parts: list[str] = []
        for at, line in enumerate(lines):
            filling = "".join(tag + label for tag, label in data.draw(between))
            again = data.draw(st.sampled_from(["", f"<p>{lines[0]}</p>"])) if at else ""
            parts.append(f"{filling}<p>{line}</p>{again}")
        return "".join(parts)

    assert of(written()) == of(written())


@given(st.lists(LINES, min_size=3, max_size=6, unique_by=plain), st.data())
def test_another_text_is_another_page(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(LINES.filter(lambda line: plain(line) not in map(plain, lines)))
    changed = [*lines[:at], other, *lines[at + 1 :]]
    assert of("".join(f"<p>{line}</p>" for line in lines)) != of("".join(f"<p>{line}</p>" for line in changed))


def test_what_near_duplicates_differ_in() -> None:
    same = [
        PAGE.replace("12", "345"),
        PAGE.replace("<p>", "<p class=x3f>"),
        PAGE + "<a href='/visit/7?sid=4fe01'>more</a><a href='/visit/9?sid=11'>more</a>",
        PAGE.replace("<p>", "<p>3 February 2031<p>", 1),
        PAGE + "<script>page.made_at = 'Mon, 23 Nov 2026 16:09:04 +0000 by server fra7'</script>",
    ]
    assert {of(page) for page in same} == {of(PAGE)}
    others = [
        PAGE.replace("A story", "Another"),
        PAGE.replace("Once upon", "Twice upon"),
        PAGE + "<p>And a third paragraph, which is new.",
    ]
    assert len({of(PAGE), *map(of, others)}) == 4


def test_a_title_that_says_which_month_or_page_it_is_says_nothing() -> None:
    titled = [
        f"<title>{title}</title>{PAGE}" for title in ("May 2031", "June 2031", "Page 7 of 9", "No title", "Other")
    ]
    assert len({of(page) for page in titled[:3]}) == 1
    assert len({of(page) for page in titled}) == 3


def test_pages_without_text_are_told_by_their_markup() -> None:
    gallery = "<title>Photos of us</title><h1>Our photos</h1><img src=/{}.jpg>"
    assert of(gallery.format("beach")) != of(gallery.format("dog"))
    assert of(gallery.format("beach-1")) == of(gallery.format("beach-2"))


def test_other_bodies_are_told_by_all_their_bytes() -> None:
    mail = b"> quoted\n" + STORY.encode() * 3
    assert fingerprint(mail, html=False) != fingerprint(b"Before " + mail, html=False)
    assert fingerprint(b"", html=False) == fingerprint(b"12", html=False) != 0
    assert of("") == fingerprint(b"", html=False)


def test_a_giant_page_is_told_by_its_first_megabyte() -> None:
    giant = PAGE + "<p>x" * (BODY_BYTES_MAX // 4)
    assert of(giant + f"<p>{STORY}") == of(giant)


_REFUSED = re.compile(rb">[^<]{20,}+(?!</(?:script|style))")
"""What is read of a page, as fingerprints of stored pages have it."""


@given(
    st.lists(st.sampled_from([
        b"<", b">", b"</script", b"</style", b"</scrip", b"</", b"a" * 7, b"x" * 19, b"b" * 20, b"> c", b"s", b"\n",
    ]), max_size=14).map(b"".join)
)  # fmt: skip
def test_texts_are_all_but_scripts_and_styles(page: bytes) -> None:
    assert texts_of(page) == list(dict.fromkeys(_REFUSED.findall(page)))


def test_a_page_of_gt_kept_a_worker_for_minutes() -> None:
    """From each `>` the end of the script was looked for again. The suite's timeout is the assertion."""
    assert texts_of(b">" * (BODY_BYTES_MAX - 64) + b"</script") == []
