"""Each place where an owner speaks of use: what is understood of it, and what is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.web import wishes
from irlcrawl.web.robots import Rules
from irlcrawl.web.wishes import (
    DATES_MAX,
    POLICY_CHARS,
    WORDS_MAX,
    combined,
    directives,
    joined,
    of_header,
    of_metas,
    of_robots,
    of_signal,
    of_tdm,
    of_usage,
    superseding,
    withheld,
    words_of,
)

US = frozenset(("robots", "testbot"))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("noai, noimageai", "noai+noimageai"),
        ("NoArchive", "noarchive"),
        ("none", "nofollow+noindex"),
        ("index, follow, max-snippet:-1, max-image-preview:large", ""),
        ("otherbot: noindex, nofollow", ""),
        ("otherbot: noindex, testbot: noarchive", "noarchive"),
        ("TestBot: noai", "noai"),
        ("*: nosnippet", "nosnippet"),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST", "unavailable_after=2010-06-25T23:00:00Z"),
        ("unavailable_after: Friday, 25-Jun-10 15:00:00 GMT", "unavailable_after=2010-06-25T15:00:00Z"),
        ("noai, unavailable_after: 2027-01-31, noarchive", "noai+noarchive+unavailable_after=2027-01-31T00:00:00Z"),
        ("unavailable_after: 2024-01-01 noai", "noai+unavailable_after=2024-01-01T00:00:00Z"),
        ("unavailable_after: 25 Jun 2010", "unavailable_after=2010-06-25T00:00:00Z"),
        ("unavailable_after: June 25, 2010, noai", "noai+unavailable_after=2010-06-25T00:00:00Z"),
        ("unavailable_after: Friday, 25-Jun-10 noarchive", "noarchive+unavailable_after=2010-06-25T00:00:00Z"),
        ("unavailable_after: 2024-01-01T10:00:00+02:00 noai", "noai+unavailable_after=2024-01-01T08:00:00Z"),
        ("otherbot: unavailable_after: 1 Jan 2020, testbot: unavailable_after: 1 Jan 2040",
         "unavailable_after=2040-01-01T00:00:00Z"),
        ("unavailable_after: soon", "unavailable_after=?"),
        ("otherbot: unavailable_after: 2010-06-25", ""),
        ("noarchive; nofollow;", "noarchive+nofollow"),
        ("unavailable_after: 2027-01-31T00:00:00Z;noai", "noai+unavailable_after=2027-01-31T00:00:00Z"),
        ("unavailable_after: 0001-01-01", "unavailable_after=0001-01-01T00:00:00Z"),
        ("index, revisit-after: 7 days, noai", "noai"),
        ('"noindex, nofollow"', "nofollow+noindex"),
        ("'noai', unavailable_after: '2027-01-31'", "noai+unavailable_after=2027-01-31T00:00:00Z"),
    ],
)  # fmt: skip
def test_robots_directives(value: str, want: str) -> None:
    assert joined(of_robots([value], US)) == want


def test_directives_of_another_agent_end_at_the_next_name() -> None:
    assert directives(["otherbot: noindex, testbot: nofollow, noarchive"], US) == {"nofollow", "noarchive"}


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("train-ai=n", "train-ai=n"),
        ("train-ai=y, search=n", "search=n+train-ai=y"),
        ("  train-ai=n;why=\"a, b\";x ,\tsearch=y ", "search=y+train-ai=n"),
        ("train-ai=n, train-ai=y", "train-ai=y"),  # RFC 9651: the last one counts
        ("train-ai=y, train-ai, search=n, search=\"n\"", ""),  # the draft's own example: both unknown
        ("train-ai;has;parameters=\"?\";", ""),  # no dictionary: a parameter without a name
        ("train-ai=n, other=(a \"b\";q=0.5 1.25), x=?1, y=:YWJj:, z=@1659578233", "train-ai=n"),
        ("Train-AI=n", ""),  # keys are lower case, or it is no dictionary
        ("train-ai=n,", ""),
        ("train-ai=n search=n", ""),
        ("train-ai=no", ""),
        ("new-use=n", "new-use=n"),
        ("x" * 65 + "=n, train-ai=n", "train-ai=n"),
        (", ".join(f"x{number}=n" for number in range(33)), ""),
        ("", ""),
    ],
)  # fmt: skip
def test_content_usage_is_a_dictionary_of_rfc_9651(value: str, want: str) -> None:
    assert joined(of_usage(value)) == want


@pytest.mark.parametrize(
    "value", ['a="' + '\\"' * 30_000, "a=(" + "b " * 30_000, "a" + ";b" * 30_000 + ";", "a=n," * 9_999]
)
def test_a_hostile_dictionary_is_read_in_linear_time(value: str) -> None:
    assert of_usage(value) == set()


@given(st.text(), st.sampled_from(["", "unavailable_after:", "testbot: ", "a=", "tdm"]))
def test_nothing_that_a_server_says_raises(text: str, before: str) -> None:
    value = before + text
    found = of_robots([value], US) | of_usage(value) | of_signal(value) | of_tdm("tdm-policy", value)
    assert all(wish.isascii() and wish.isprintable() and not set(" ,+") & set(wish) for wish in found)


def test_content_signal() -> None:
    assert (
        joined(of_signal("search=yes, ai-train=no,AI-Input = No, other, x=maybe")) == "ai-input=n+ai-train=n+search=y"
    )


def test_tdmrep() -> None:
    assert of_tdm("tdm-reservation", " 1 ") == {"tdm-reservation=1"} and of_tdm("tdm-reservation", "yes") == set()
    assert of_tdm("tdm-policy", '"https://a.test/p?a=1,2+3 é"') == {"tdm-policy=https://a.test/p?a=1%2C2%2B3%20%C3%A9"}


def test_a_header_speaks_by_five_fields_and_a_page_by_three_names() -> None:
    fields = [
        (b"x-robots-tag", b"noai"), (b"x-robots-tag", b"otherbot: noindex"), (b"content-usage", b"train-ai=n"),
        (b"content-usage", b"search=y"), (b"tdm-reservation", b"1"), (b"tdm-policy", b"https://a.test/p"),
        (b"content-signal", b"ai-input=no, search=yes"), (b"server", b"x"),
    ]  # fmt: skip
    assert words_of(joined(of_header(fields, US))) == [
        "ai-input=n", "noai", "search=y", "tdm-policy=https://a.test/p", "tdm-reservation=1", "train-ai=n",
    ]  # fmt: skip
    assert of_header([(b"server", b"x")], US) == set() and words_of("") == []
    metas = [("testbot", "noarchive"), ("tdm-reservation", "1"), ("robots", "noai")]
    assert of_metas(metas, US) == {"noarchive", "tdm-reservation=1", "noai"}


def test_of_two_that_contradict_the_more_restrictive_holds() -> None:
    assert combined(["train-ai=y", "train-ai=n", "search=y", "tdm-reservation=0", "tdm-reservation=1"]) == {
        "train-ai=n", "search=y", "tdm-reservation=1",
    }  # fmt: skip


def test_what_a_page_says_of_tdm_takes_the_place_of_what_its_header_says() -> None:
    header = ["tdm-reservation=1", "tdm-policy=https://a.test/site", "noai"]
    assert superseding(["tdm-reservation=0", "noindex"], header) == {
        "tdm-reservation=0", "tdm-policy=https://a.test/site", "noai", "noindex",
    }  # fmt: skip
    assert superseding(["noindex"], header) == {*header, "noindex"}


def test_unreadable_dates_of_one_header_held_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were all the same wish, so the bound on wishes did not bound them."""
    read: list[str] = []
    monkeypatch.setattr(wishes, "_date", lambda text: read.append(text) or "?")
    assert of_robots(["unavailable_after," * 14_000, "noai"], US) == {"unavailable_after=?"}
    assert len(read) == DATES_MAX
    assert of_robots(["a," * (WORDS_MAX - 1) + "noai,noindex"], US) == {"noai"}


def test_all_of_a_long_policy_was_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    escaped: list[str] = []
    percent = wishes._percent
    monkeypatch.setattr(wishes, "_percent", lambda found: escaped.append(found[0]) or percent(found))
    (policy,) = of_tdm("tdm-policy", "é" * 120_000)
    assert len(policy) == len("tdm-policy=") + POLICY_CHARS and len(escaped) == POLICY_CHARS


@pytest.mark.parametrize(
    ("wish", "obeyed", "mime", "want"),
    [
        ("noarchive", "noarchive", "text/html", True),
        ("noarchive", "noai", "text/html", False),
        ("train-ai=n", "train-ai", "text/html", True),
        ("train-ai=y", "train-ai", "text/html", False),
        ("tdm-reservation=1", "tdm-reservation", "text/html", True),
        ("tdm-reservation=0", "tdm-reservation", "text/html", False),
        ("noimageai", "noimageai", "text/html", False),
        ("noimageai", "noimageai", "image/png", True),
        ("unavailable_after=2001-09-09T01:46:40Z", "unavailable_after", "text/html", True),
        ("unavailable_after=2001-09-09T01:46:41Z", "unavailable_after", "text/html", False),
        ("unavailable_after=?", "unavailable_after", "text/html", False),
        ("unavailable_after=0001-01-01T00:00:00Z", "unavailable_after", "text/html", True),
    ],
)
def test_what_is_obeyed_is_withheld(wish: str, obeyed: str, mime: str, want: bool) -> None:
    assert withheld([wish], [obeyed], mime, now=1_000_000_000.0) == want


ROBOTS = b"""User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y
Content-Usage: /a*z$ search=n
Content-Usage: /a*z$\ttrain-ai=y
content-signal: ai-train=no
Content-Usage: Train-AI=broken

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
"""
"""The example of draft-ietf-aipref-attach-05, and a little more."""


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (b"/test", "ai-train=n+train-ai=n"),
        (b"/ai-ok/test", "ai-train=n+train-ai=y"),
        (b"/a/z", "ai-train=n+search=n+train-ai=y"),
        (b"/a/zy", "ai-train=n+train-ai=n"),
    ],
)
def test_lines_of_a_robots_txt(path: bytes, want: str) -> None:
    assert joined(Rules(ROBOTS, "TestBot").wishes_for(b"http://a.test" + path)) == want
    assert joined(Rules(ROBOTS, "ExampleBot").wishes_for(path)) == "train-ai=y"


def test_lines_about_use_between_two_agents_do_not_end_their_list() -> None:
    rules = Rules(
        b"User-agent: a\nContent-Usage: search=n\nContent-Signal: ai-train=no\nUser-agent: b\nDisallow: /x", "a"
    )
    assert not rules.allowed(b"/x") and joined(rules.wishes_for(b"/y")) == "ai-train=n+search=n"


def test_a_file_without_such_lines_says_nothing() -> None:
    assert Rules(b"User-agent: *\nDisallow: /x", "a").wishes_for(b"/y") == frozenset()


def test_thousands_of_such_lines_take_little_time_to_read() -> None:
    """A group's signals were put together anew for each line, quadratic in the lines."""
    text = b"User-agent: *\n" + b"".join(
        b"Content-Signal: s%d=no\nContent-Usage: /%d u=n\n" % (n, n) for n in range(9_000)
    )
    rules = Rules(text, "a")
    assert len(rules.wishes_for(b"/y")) == 32 and rules.nbytes > 1_000_000
    assert "u=n" in rules.wishes_for(b"/77")
