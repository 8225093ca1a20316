"""The keys of a crawl's URLs: what belongs together has keys that begin alike."""

from __future__ import annotations

from irlcrawl.base.keys import name_key, pair_key
from irlcrawl.base.names import Names


def test_all_that_belongs_to_a_site_is_in_its_range_of_keys() -> None:
    names = Names(seed=7)
    for url in (
        b"http://a.test/",
        b"https://www.a.test:8080/x?y",
        b"http://b.a.test/",
        b"http://192.0.2.1/",
        b"http://[::1]/",
    ):
        site, host = names.of(url)
        assert host >> 52 == site >> 52 == names.url_key(url) >> 52 == pair_key(1, site) >> 52
    assert names.of(b"http://www.a.test/x")[0] == names.of(b"https://a.test/")[0] == name_key(b"a.test")
    user = b"http://user.blogspot.com/"
    assert Names(7, private_suffixes=True).of(user)[0] == name_key(b"user.blogspot.com") != names.of(user)[0]
