"""The Public Suffix List's own test cases, with private suffixes (as the list's authors mean it) and without."""

from __future__ import annotations

from irlcrawl.base.url import SiteOf, canonical, host_of
from tests.conformance.conftest import Told
from tests.conformance.vectors import path_of


def vectors() -> list[tuple[str, str | None]]:
    lines = path_of("public-suffix-list/tests.txt").read_text("utf-8").splitlines()
    pairs = [line.split() for line in lines if line and not line.startswith("//")]
    return [(name, None if site == "null" else site) for name, site in pairs if name != "null"]


def host(name: str) -> str | None:
    """The name as a URL carries it."""
    url = canonical(f"http://{name}/")
    return None if url is None else host_of(url)


def test_registrable_domains(told: Told) -> None:
    site_of, seen = SiteOf(private_suffixes=True), 0
    for name, want in vectors():
        carried = host(name)
        if carried is None:
            assert name.startswith("."), name
            continue
        # a public suffix has no registrable domain; somebody has to pay for its pages, so it is its own site
        assert site_of(carried) == (carried if want is None else host(want)), name
        seen += 1
    assert seen > 60
    told("public-suffix-list/tests.txt", seen)


def test_the_icann_section_alone_gives_the_same_or_a_shorter_site() -> None:
    icann, private = SiteOf(), SiteOf(private_suffixes=True)
    for name, _ in vectors():
        carried = host(name)
        if carried is not None:
            assert private(carried).endswith(icann(carried))
    assert icann("user.github.io") == "github.io"
    assert private("user.github.io") == "user.github.io"
    assert icann("a.blog.co.uk") == "blog.co.uk"
