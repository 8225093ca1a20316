"""Many hosts on one address, end to end under virtual time: the address is busy and nobody is asked too soon."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from irlcrawl.base.exit_codes import ExitCode
from tests.crawl.virtual_crawl import Crawl, Web, star

GAP_ADDRESS_S = 0.1


@pytest.mark.parametrize("gap_address_s", [0.0, GAP_ADDRESS_S])
def test_an_address_is_busy_though_each_of_its_hosts_has_a_longer_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap_address_s: float
) -> None:
    """Each host's first visit held the address for the host's own gap, between robots.txt and the page: 5,000 hosts on
    one address got two requests a second where ten were allowed."""
    names = [f"h{n}.s{n}.test" for n in range(40)]
    web = Web({url: links for name in names for url, links in star(name, 2).items()}, fetch_s=0.01)
    crawl = Crawl(tmp_path / "job", web, [f"http://{name}/" for name in names], monkeypatch)
    crawl.names.answers = dict.fromkeys(names, "10.0.0.1")
    crawl.config.politeness.gap_host_seconds = 2.0
    crawl.config.politeness.gap_address_seconds = gap_address_s
    began = crawl.clock.now()
    assert crawl.run(hours=1) == ExitCode.DONE
    requests = 4 * len(names)  # robots.txt and three pages each
    assert len(web.log) == requests
    busy = requests * (gap_address_s + web.fetch_s)
    assert crawl.clock.now() - began < 2 * max(busy, 3 * 2.0) + 10
    starts: dict[str, list[float]] = {}
    for at, url in web.log:
        starts.setdefault(urlsplit(url).netloc, []).append(at)
    assert all(b - a >= 2.0 for each in starts.values() for a, b in pairwise(each))
