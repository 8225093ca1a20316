"""A small web of three sites and the crawl of it that tests check, damage and repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from irlcrawl.config.keys import Config
from irlcrawl.crawl import schedule
from irlcrawl.frontier.state import crawl_state
from tests.crawl.virtual_crawl import Answer, Crawl, Web, star

SEED = "http://a.one.test/"
KILLED_AT = 90


def web() -> Web:
    """Three sites of four hosts each: pages, an error, a forbidden page, a server that is busy at first."""
    names = [f"{host}.{site}.test" for site in ("one", "two", "three") for host in "abcd"]
    links = {url: targets for name in names for url, targets in star(name, 30).items()}
    links[SEED] += [f"http://{name}/" for name in names] + ["http://a.two.test/gone", "http://a.two.test/secret/1"]
    made = Web(links, fetch_s=0.05)
    made.answers["http://a.two.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /secret/\n")
    made.answers["http://b.two.test/robots.txt"] = Answer(200, {}, b"User-agent: *\nCrawl-delay: 3\n")
    busy: set[str] = set()

    def mood(url: str, now: float) -> Answer | None:
        if url.endswith("/5") and url not in busy:
            busy.add(url)
            return Answer(503, {"retry-after": "400"})
        return None

    made.moods["c.three.test"] = mood
    return made


def configure(config: Config) -> None:
    config.budgets.base = config.budgets.seed_floor = 2
    config.politeness.gap_host_seconds = 0.5
    config.politeness.gap_address_seconds = 0.2
    config.frontier.harvest_seconds = 3.0


def crawl_of(job: Path, monkeypatch: pytest.MonkeyPatch) -> Crawl:
    crawl = Crawl(job, web(), [SEED], monkeypatch, workers=2)
    configure(crawl.config)
    monkeypatch.setattr(crawl_state.secrets, "randbits", lambda bits: 4711)  # the same crawl each time
    monkeypatch.setattr(schedule, "ROWS_WANTED_MIN", 4)  # so that some URLs stay in every kind of queue
    return crawl
