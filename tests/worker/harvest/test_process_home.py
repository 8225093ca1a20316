"""Home pages of hosts go first there, whoever links to them."""

from __future__ import annotations

import pytest

from irlcrawl.base.keys import is_home, level_of, priority_of
from irlcrawl.base.rows import Source


@pytest.mark.parametrize(
    ("url", "home"),
    [
        (b"https://a.test/", True), (b"http://a.test:8080/", True), (b"https://a.test/x", False),
        (b"https://a.test/x/", False), (b"https://a.test/?q=1", False), (b"https://a.test/?q=/", False),
    ],
)  # fmt: skip
def test_a_home_page_is_a_host_without_a_path_and_has_the_level_of_a_seed(url: bytes, home: bool) -> None:
    assert is_home(url) == home
    assert (level_of(priority_of(9, Source.LINK, is_home(url))) == level_of(priority_of(0, Source.SEED))) == home
