"""The sketch of a page against a model in plain Python, and what may change about a page before it does."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import drum  # noqa: F401 - before numpy is loaded: drum/processor.py

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.worker.page import sketch as module
from irlcrawl.worker.page.fingerprint import texts_of
from irlcrawl.worker.page.sketch import FEATURES, TEXT_BYTES_MAX, sketches, words_of

MASK = (1 << 64) - 1


def sketch(body: bytes, texts: list[bytes]) -> tuple[int, ...]:
    return sketches([words_of(body, texts)])[0]


def near(one: bytes, other: bytes) -> bool:
    ours, theirs = sketch(one, texts_of(one)), sketch(other, texts_of(other))
    return any((a ^ b).bit_count() <= 3 for a, b in zip(ours, theirs, strict=True))


def article(seed: int, words: int) -> list[str]:
    drawn = random.Random(seed)
    return ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(2, 9))) for _ in range(words)]


def page(words: list[str], frame: str = "") -> bytes:
    paragraphs = [" ".join(words[at : at + 20]) for at in range(0, len(words), 20)]
    return f"<html><body>{frame}{''.join(f'<p>{text} end of paragraph.</p>' for text in paragraphs)}".encode()


def modelled(body: bytes) -> tuple[int, ...]:
    """The same with a Python loop per word, feature and bit."""
    text = re.sub(rb"[0-9]", b"", b" ".join(texts_of(body))).lower()
    text = re.sub(rb"[\x00-`{-\x7f]", b"\0", text)[:TEXT_BYTES_MAX]
    words = []
    starts = [match.start() for match in re.finditer(rb"(?<=\0)[^\0]", text)]
    for start, following in pairwise(starts):
        value = sum(c * pow(module._BASE, at, 1 << 32) for at, c in enumerate(text[start:following], 1))
        words.append(value % (1 << 32))
    first, second, third = map(int, module._MIX)
    pairs = []
    for one, other in pairwise(words):
        mixed = (one * first + ((other * first & MASK) >> 29)) * second & MASK
        pairs.append((mixed ^ mixed >> 32) * third & MASK)
    share = (1 << ((len(pairs) - 1) // FEATURES).bit_length()) - 1 if len(pairs) > FEATURES else 0
    parts: list[list[int]] = [[], [], []]
    for pair in {pair for pair in pairs if pair & share == 0}:
        mixed = (pair ^ pair >> 32) * first & MASK
        parts[(pair > 0x5555555555555555 - 1) + (pair > 0xAAAAAAAAAAAAAAAA - 1)].append(mixed ^ mixed >> 29)
    numbers = []
    for part, apart in zip(parts, module._APART.tolist(), strict=True):
        bits = [sum(feature >> bit & 1 for feature in part) > len(part) // 2 for bit in range(64)]
        numbers.append(sum(bit << at for at, bit in enumerate(bits)) ^ apart)
    return tuple(numbers)


def unshuffled(number: int, apart: int) -> int:
    """A part's bits in the order of a feature's: ours has lane after lane, each from its highest bit."""
    packed = np.unpackbits(np.array([number ^ apart], np.uint64).view(np.uint8))
    bits = {(place % 8) * 8 + place // 8: int(bit) for place, bit in enumerate(packed)}
    return sum(bit << at for at, bit in bits.items()) ^ apart


@pytest.mark.parametrize("words", [60, 300, 700, 3000])
def test_as_the_model_says(words: int) -> None:
    body = page(article(words, words))
    ours = sketch(body, texts_of(body))
    assert [unshuffled(*pair) for pair in zip(ours, module._APART.tolist(), strict=True)] == list(modelled(body))


@settings(max_examples=200)
@given(st.lists(st.integers(0, 40) | st.integers(41, 3000), max_size=12), st.integers(0, 99))
def test_pages_together_have_the_sketches_that_each_has_alone(sizes: list[int], seed: int) -> None:
    """Also next to pages without a word, and where they are more than are read at a time."""
    bodies = [page(article(seed + at, words)) if words else b"<p>" for at, words in enumerate(sizes)]
    pages = [words_of(body, texts_of(body)) for body in bodies]
    assert sketches(pages) == [sketches([words])[0] for words in pages]


def test_a_changed_word_is_near_and_another_article_is_not() -> None:
    for seed in range(20):
        words = article(seed, 250)
        edited = [*words[:100], "changed", *words[101:]]
        assert near(page(words), page(edited))
        assert not near(page(words), page(article(seed + 100, 250)))
        assert not near(page(words), page([*words[:150], *article(seed + 100, 100)])), "three fifths are the same"


def test_digits_spacing_case_and_frame_do_not_count() -> None:
    words = article(1, 120)
    plain = page(words)
    frame = f"<nav class=top><p>{' '.join(article(7, 30))}</p></nav><script>{' '.join(article(8, 30))}</script>"
    footer = f"<footer>{' '.join(article(9, 30))}</footer>".encode()
    same = [
        page(words, frame), plain + footer, plain.replace(b" ", b"\n  "), plain.upper(),
        page([f"{word} 2031" for word in words]), page(words, "<p>12</p><a>next page</a>"),
    ]  # fmt: skip
    for other in same:
        assert sketch(other, texts_of(other)) == sketch(plain, texts_of(plain))


@pytest.mark.parametrize("body", [b"", b"<p>short", page(article(3, 40)), page(["same"] * 500), b"<nav>" * 9999])
def test_a_page_that_says_little_has_none(body: bytes) -> None:
    assert sketch(body, texts_of(body)) == ()


def test_what_is_cut_in_a_word_of_bytes() -> None:
    long = page(["x" * 5000, *article(4, 100), "\u00e9\u00e8" * 9000])
    assert len(sketch(long, texts_of(long))) == 3
