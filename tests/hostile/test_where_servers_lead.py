"""Where servers lead a crawl: to machines beside it, in circles, to no end. A whole crawl, under virtual time."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Network
from irlcrawl.frontier.dispatch.dns import Reach, Resolved, ResolveError, Resolver
from tests.crawl.virtual_crawl import Answer, Crawl, Names, Web

INSIDE = [
    "http://127.0.0.1/", "http://10.0.0.1/", "http://192.168.1.1:8080/x", "http://169.254.169.254/latest/meta-data/",
    "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://[fe80::1]/", "http://[fd00::1]/",
    "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://localhost/", "http://x.localhost/",
    "http://127.0.0.1./", "http://%31%32%37.0.0.1/", "http://①②⑦.0.0.1/", "http://0/",
    "http://0.0.0.0/", "http://[::]/", "http://127.1/", "http://017700000001/", "http://0x7f000001/", "http://127。0。0。1/",
    "http://[::127.0.0.1]/", "http://[64:ff9b:1::7f00:1]/", "http://[2002:7f00:1::]/", "http://[2001:0:1:2::80ff:fffe]/",
    "http://[::ffff:0:7f00:1]/", "http://100.100.100.200/", "http://168.63.129.16/", "http://localhost./",
    "http://x.test@127.0.0.1/", "http://127.0.0.1\\@x.test/", "http://255.255.255.255/",
]  # fmt: skip
NOWHERE = ["file:///etc/passwd", "gopher://127.0.0.1/", "javascript:alert(1)", "data:text/html,x", "ftp://127.0.0.1/",
           "http:///", "http://a.test:0/", "//[::1", "http://a.test:99999/", "http://[fe80::1%25eth0]/",
           "http://[fe80::1%eth0]/", "http://127.0.0.1.5/", "http://127.0.0.0x100/", "http://4294967296/"]  # fmt: skip


class Judged(Names):
    """Addresses are judged as in a crawl; names have public ones."""

    def __init__(self) -> None:
        super().__init__()
        self.resolver = Resolver(Network(resolvers=["192.0.2.53"]), VirtualClock())

    async def resolve(self, name: str) -> Resolved:
        if self.resolver._at_hand(name) is not None:
            return await self.resolver.resolve(name)
        return await super().resolve(name)


def crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web: Web, *seeds: str) -> Crawl:
    return Crawl(tmp_path / "job", web, list(seeds), monkeypatch, names=Judged())


@pytest.mark.parametrize("by", ["redirect", "link", "robots", "sitemap"])
def test_no_server_leads_to_a_machine_beside_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    web = Web()
    seeds = []
    for number, target in enumerate([*INSIDE, *NOWHERE]):
        host = f"http://h{number}.test"
        seeds.append(f"{host}/")
        away = Answer(302, {"location": target})
        if by == "link":
            web.page(f"{host}/", [target])
            continue
        web.page(f"{host}/")
        if by == "redirect":
            web.answers[f"{host}/"] = away
        elif by == "robots":
            web.answers[f"{host}/robots.txt"] = away
        else:
            rules = f"Sitemap: {target}\nSitemap: {host}/s.xml\n".encode()
            web.answers[f"{host}/robots.txt"] = Answer(200, {"content-type": "text/plain"}, rules)
            listed = f"<urlset><loc>{target}</loc></urlset>".encode()
            web.answers[f"{host}/s.xml"] = Answer(200, {"content-type": "text/xml"}, listed)
    made = crawl(tmp_path, monkeypatch, web, *seeds)
    assert made.run() == ExitCode.DONE
    hosts = {url.split("/")[2] for _, url in web.log}
    assert all(host.endswith(".test") and host.startswith("h") for host in hosts), hosts
    if by in ("redirect", "link"):
        inside = {url: outcome for url, outcome in made.outcomes().items() if ".test/" not in url}
        assert len(inside) > 12 and {reason for _, reason in inside.values()} == {"address"}


def test_a_name_whose_addresses_are_inside_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = crawl(tmp_path, monkeypatch, Web({"http://a.test/": ["http://10.1.2.3.nip.test/"]}), "http://a.test/")
    made.names.resolver._cache["10.1.2.3.nip.test"] = made.names.resolver._judge(  # type: ignore[attr-defined]
        "10.1.2.3.nip.test", ["10.1.2.3"], 1e12
    )
    assert made.run() == ExitCode.DONE
    assert made.outcomes()["http://10.1.2.3.nip.test/"][1] == "address"
    assert {url.split("/")[2] for _, url in made.web.log} == {"a.test"}


class Allowed(Names):
    """Names of a network that one run may contact, and the next one may not."""

    reach = Reach(["10.0.0.0/8"])

    def admits(self, address: str) -> bool:
        return self.reach.admits(ip_address(address))

    async def resolve(self, name: str) -> Resolved:
        found = await super().resolve(name)
        if not self.admits(found.address):
            raise ResolveError(name, "not public", Reason.ADDRESS, permanent=True)
        return found


def test_an_address_found_while_it_was_allowed_was_used_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of a host is kept with it, for up to a day, and was not judged again."""
    web = Web({"http://a.test/": [f"http://a.test/{number}" for number in range(9)]})
    made = Crawl(tmp_path / "job", web, ["http://a.test/"], monkeypatch, names=Allowed())
    made.config.limits.pages = 3
    made.run()
    asked = len(web.log)
    assert asked > 2
    made.names.reach = Reach([])  # type: ignore[attr-defined]
    made.config.limits.pages = 0
    assert made.run() == ExitCode.DONE
    assert len(web.log) == asked
    refused = [reason for outcome, reason in made.outcomes().values() if outcome == "failed"]
    assert refused and set(refused) == {"address"}


def test_redirects_in_a_circle_are_each_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web()
    for number in range(5):
        web.answers[f"http://a.test/{number}"] = Answer(301, {"location": f"/{(number + 1) % 5}"})
    web.answers["http://a.test/self"] = Answer(301, {"location": "/self"})
    made = crawl(tmp_path, monkeypatch, web, "http://a.test/0", "http://a.test/self")
    assert made.run() == ExitCode.DONE
    assert set(web.pages_asked.values()) == {1} and len(web.pages_asked) == 6


def test_redirects_without_end_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web()
    for number in range(200):
        web.answers[f"http://a.test/{number}"] = Answer(302, {"location": f"/{number + 1}"})
    made = crawl(tmp_path, monkeypatch, web, "http://a.test/0")
    assert made.run() == ExitCode.DONE
    assert len(web.pages_asked) == 1 + made.config.scope.hops_max
