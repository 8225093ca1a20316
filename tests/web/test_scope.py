"""Scope: what each kind of seed opens, limits, patterns; look-ups agree with a plain reading of the rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.url import SiteOf, host_of, split
from irlcrawl.config import keys as config
from irlcrawl.web.scope import RECENT_MAX, KeySet, Scope, repeats


def scope(*seeds: bytes, sites: dict[str, config.Site] | None = None, **params: object) -> Scope:
    made = Scope(config.Scope(**params), sites)  # type: ignore[arg-type]
    made.add(entry for seed in seeds for entry in made.entries_of_seed(seed, seed))
    return made


@pytest.mark.parametrize(
    ("kind", "seed", "entry", "inside", "outside"),
    [
        ("host", b"http://www.a.com/x", b"host www.a.com", [b"https://www.a.com/y", b"http://www.a.com/"],
         [b"http://a.com/", b"http://www.a.com:81/", b"http://www.a.com./"]),
        ("host", b"http://127.0.0.1:8080/", b"host 127.0.0.1:8080", [b"http://127.0.0.1:8080/x"], [b"http://127.0.0.1/"]),
        ("site", b"http://www.a.co.uk/x", b"site a.co.uk", [b"https://b.a.co.uk:81/", b"http://a.co.uk/"],
         [b"http://b.co.uk/", b"http://ba.co.uk/"]),
        ("site", b"http://[::1]:81/", b"site ::1", [b"http://[::1]/"], [b"http://[::2]/"]),
        ("prefix", b"http://a.com/docs/i.html?x/y", b"prefix a.com/docs/",
         [b"http://a.com/docs/", b"https://a.com/docs/b/c?d", b"http://a.com/docs/b"],
         [b"http://a.com/doc", b"http://a.com/docs", b"http://a.com/x/docs/", b"http://b.com/docs/", b"http://a.com/?/docs/"]),
        ("prefix", b"http://a.com/", b"prefix a.com/", [b"http://a.com/x", b"http://a.com/?y"], [b"http://b.a.com/"]),
        ("any", b"http://a.com/", b"any", [b"http://b.org/", b"https://[::1]:9/x"], []),
    ],
)  # fmt: skip
def test_kinds(kind: str, seed: bytes, entry: bytes, inside: list[bytes], outside: list[bytes]) -> None:
    made = scope(seed, kind=kind)
    assert made.entries() == [entry]
    assert made.contains(seed)
    assert all(made.contains(url) for url in inside)
    assert {made.why_not(url) for url in outside} <= {"scope.kind"}
    again = Scope(config.Scope(kind=kind), entries=made.entries())
    assert again.entries() == [entry]
    assert all(again.contains(url) for url in inside)
    assert not any(again.contains(url) for url in outside)


def test_entries_of_other_kinds_stay_open() -> None:
    """A resumed crawl whose kind was changed keeps what its earlier seeds opened."""
    made = Scope(config.Scope(kind="host"), entries=[b"site a.com", b"prefix b.com/x/"])
    made.add(made.entries_of_seed(b"http://c.com/", b"http://c.com/"))
    assert made.contains(b"http://www.a.com/")
    assert made.contains(b"http://b.com/x/y")
    assert made.contains(b"http://c.com/")
    assert not made.contains(b"http://b.com/y")
    assert made.version == 3


def test_a_redirect_of_a_seed_opens_more_at_once() -> None:
    made = scope(b"http://a.com/", kind="host")
    url = b"https://www.a.com/"
    assert not made.contains(url)
    assert made.add(made.entries_of_seed(url, url)) == 1
    assert made.add(made.entries_of_seed(url, url)) == 0
    assert made.contains(url)
    assert (made.version, made.entries()) == (2, [b"host a.com", b"host www.a.com"])


def test_limits() -> None:
    made = scope(b"http://a.com/", depth_max=3, hops_max=2, url_bytes_max=64)
    assert made.contains(b"http://a.com/", depth=3, hop=2)
    assert made.why_not(b"http://a.com/", depth=4) == "scope.depth_max"
    assert made.why_not(b"http://a.com/", hop=3) == "scope.hops_max"
    assert made.contains(b"http://a.com/" + b"x" * 51)
    assert made.why_not(b"http://a.com/" + b"x" * 52) == "scope.url_bytes_max"


def test_overrides_hold_for_a_name_and_what_is_under_it() -> None:
    sites = {
        "a.com": config.Site(depth_max=1),
        "deep.a.com": config.Site(depth_max=9),
        "b.com": config.Site(block=True),
        "::1": config.Site(depth_max=0),
    }
    made = scope(b"http://x/", kind="any", depth_max=5, sites=sites)
    for url, depth in [
        (b"http://a.com/", 1), (b"http://www.a.com:81/", 1), (b"https://deep.a.com/", 9), (b"http://y.deep.a.com/", 9),
        (b"http://b.com/", 5), (b"http://aa.com/", 5), (b"http://[::1]/", 0), (b"http://com/", 5),
    ]:  # fmt: skip
        assert made.contains(url, depth=depth), url
        assert made.why_not(url, depth=depth + 1) == "scope.depth_max", url


def test_patterns() -> None:
    made = scope(b"http://a.com/", include=[r"/docs/", r"(?i)\.PDF$"], exclude=[r"[?&]sort="])
    assert made.contains(b"http://a.com/docs/x")
    assert made.contains(b"http://a.com/x.pdf")
    assert made.why_not(b"http://a.com/x.html") == "scope.include"
    assert made.why_not(b"http://a.com/docs/?a&sort=up") == "scope.exclude"
    assert scope(b"http://a.com/", exclude=["a|b", "^https:"]).why_not(b"https://a.com/") == "scope.exclude"


@pytest.mark.parametrize("pattern", ["(", "a**", r"(?<=x)y", r"(a)\1"])
def test_a_pattern_that_is_none_is_named(pattern: str) -> None:
    for key in ("include", "exclude"):
        with pytest.raises(config.ConfigError, match=f"scope.{key}"):
            scope(**{key: ["fine", pattern]})


def test_a_spelling_of_a_seed_opened_the_directory_above_it() -> None:
    """With `trailing_slash` merged, a seed /blog/ brought the whole host into scope."""
    made = scope(kind="prefix")
    made.add(made.entries_of_seed(b"http://a.com/blog/", b"http://a.com/blog"))
    assert made.contains(b"http://a.com/blog/x") and not made.contains(b"http://a.com/about")


def test_patterns_take_linear_time() -> None:
    made = scope(b"http://a.com/", url_bytes_max=65_535, exclude=["(a*)*b", "(x+x+)+y"])
    assert made.contains(b"http://a.com/" + b"a" * 30_000 + b"x" * 30_000)


@pytest.mark.parametrize(
    "entry", [b"", b"host", b"host ", b"hosts a.com", b"any\nhost a", b"prefix a.com", b"site a/b"]
)
def test_a_damaged_entry_is_refused(entry: bytes) -> None:
    made = Scope(config.Scope())
    with pytest.raises(ValueError, match="scope entry"):
        made.add([b"host a.com", entry])
    assert made.version == 0


def test_many_seeds() -> None:
    made = Scope(config.Scope(kind="host"))
    assert made.add(b"host h%d.example" % i for i in range(30_000)) == 30_000
    assert made.add(b"host h%d.example" % i for i in range(29_990, 30_010)) == 10
    assert made.contains(b"http://h29999.example/")
    assert made.contains(b"http://h0.example/")
    assert not made.contains(b"http://h30010.example/")
    assert len(made.entries()) == made.version == 30_010


HOSTS = st.sampled_from(
    ["a.com", "www.a.com", "b.a.com", "a.com:81", "b.org", "c.co.uk", "x.c.co.uk", "[::1]", "10.0.0.1"]
)
PATHS = st.lists(st.sampled_from(["", "d", "e", "f.html"]), max_size=4).map("/".join)
URLS = st.tuples(st.sampled_from(["http", "https"]), HOSTS, PATHS, st.sampled_from(["", "?q", "?/d/"])).map(
    lambda parts: f"{parts[0]}://{parts[1]}/{parts[2]}{parts[3]}".encode()
)


@given(
    st.sampled_from(["host", "site", "prefix", "any"]),
    st.lists(URLS, min_size=1, max_size=4),
    st.lists(URLS, max_size=6),
)
def test_look_ups_agree_with_a_plain_reading(kind: str, seeds: list[bytes], urls: list[bytes]) -> None:
    site_of = SiteOf()

    def authority(url: bytes) -> bytes:
        return url.split(b"/")[2]

    def opens(seed: bytes, url: bytes) -> bool:
        if kind == "host":
            return authority(seed) == authority(url)
        if kind == "site":
            return site_of(host_of(seed)) == site_of(host_of(url))
        if kind == "prefix":
            folder = split(seed)[3].partition("?")[0].rpartition("/")[0] + "/"
            return authority(seed) == authority(url) and split(url)[3].partition("?")[0].startswith(folder)
        return True

    made = scope(*seeds, kind=kind)
    for url in urls + seeds:
        assert made.contains(url) == any(opens(seed, url) for seed in seeds), url


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=20), max_size=5))
def test_key_set_is_a_set(batches: list[list[int]]) -> None:
    ours, model = KeySet(), set()
    for batch in batches:
        want = []
        for key in batch:
            want.append(key not in model)
            model.add(key)
        assert ours.add(batch) == want
    assert len(ours) == len(model)
    assert all(key in ours for key in model)


def test_key_set_sorts_what_is_recent() -> None:
    keys = KeySet()
    keys.add(range(0, 4 * RECENT_MAX, 2))
    assert all((key in keys) == (key % 2 == 0) for key in range(100))
    assert len(keys) == 2 * RECENT_MAX


TRAPS = [
    b"http://a.com/de/de/de/de/index.html",  # a relative link to its own directory
    b"http://a.com/shop/cart/shop/cart/shop/cart/shop/cart/",
    b"http://a.com/x/www.a.com/www.a.com/www.a.com/www.a.com/y?z=/1/2/",
    b"http://a.com/" + b"/".join(b"%d" % n for n in range(25)),
    b"http://a.com" + b"//" * 5,
]
INNOCENT = [
    b"http://a.com/2024/11/11/",
    b"http://tiles.a.com/0/0/0.png",
    b"http://a.com/1/1/1/1.html",
    b"http://a.com/de/a/de/b/de/c/de/d/",
    b"http://a.com/login?next=/a/a/a/a/a/a/a/",
    b"http://a.com/pool/main/l/linux/linux-6.1/Documentation/admin-guide/hw-vuln/index.html",
    b"https://web.archive.org/web/2020/https://a.com/b/c/d/e/f/g",
    b"http://a.com//x//y",
]


def test_paths_of_traps_are_out_of_scope_and_innocent_ones_in() -> None:
    made = scope(b"http://x/", kind="any")
    guards = {"scope.path_segments_max", "scope.path_repeats_max"}
    assert {made.why_not(url) for url in TRAPS} == guards
    assert [made.why_not(url) for url in INNOCENT] == [None] * len(INNOCENT)
    free = scope(b"http://x/", kind="any", path_segments_max=256, path_repeats_max=10_000)
    assert all(free.contains(url) for url in TRAPS)
    assert not scope(b"http://x/", kind="any", path_segments_max=1).contains(b"http://a.com/b/c/d")


@given(st.lists(st.sampled_from([b"a", b"b"]), max_size=14))
def test_repeats_is_what_reading_every_stretch_finds(segments: list[bytes]) -> None:
    most = 1
    for start in range(len(segments)):
        for size in range(1, len(segments)):
            group, times = segments[start : start + size], 1
            while segments[start + times * size : start + (times + 1) * size] == group and len(group) == size:
                times += 1
            most = max(most, times)
    assert repeats(segments) == most
