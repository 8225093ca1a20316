"""docsweb as it is served: nginx must answer what the oracle says it answers, dnsmasq must know the names and no other.

Needs nginx, dnsmasq and one Debian package; without them these tests are skipped, with the reason.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.docsweb import audit, oracle, serve
from tools.docsweb.sets import DocswebError


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serve.Web]:
    try:
        with serve.running(tmp_path_factory.mktemp("docsweb"), "gtk,python", mirrors=2, addresses=2) as running:
            if running.missing:
                pytest.skip(f"docsweb is incomplete: {running.missing}")
            yield running
    except DocswebError as error:
        pytest.skip(f"docsweb cannot be served: {error}")


def test_nginx_answers_what_the_oracle_says(web: serve.Web) -> None:
    choose = random.Random(2)
    for served in web.sets:
        host = served.hosts[-1]
        known = oracle.of_set(web, served).requested
        unusual = [target for target, status in known.items() if status != 200]
        connection = http.client.HTTPConnection(host.address, web.port, timeout=10)
        for target in choose.sample(sorted(known), 40) + unusual[:40]:
            connection.request("GET", target, headers={"Host": web.authority(host)})
            response = connection.getresponse()
            response.read()
            assert (target, response.status) == (target, known[target])
        connection.close()


def test_bringing_a_web_up_leaves_nothing_behind_when_it_is_interrupted(
    web: serve.Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        assert {path.stem for path in tmp_path.glob("*.pid")} == {"nginx", "dnsmasq"}
        raise KeyboardInterrupt

    monkeypatch.setattr(serve, "asdict", interrupted)
    with pytest.raises(KeyboardInterrupt):
        serve.up(tmp_path, "gtk")
    assert not list(tmp_path.glob("*.pid"))


def test_robots_txt_is_the_sets_own(web: serve.Web) -> None:
    for served in web.sets:
        connection = http.client.HTTPConnection(served.hosts[0].address, web.port, timeout=10)
        connection.request("GET", "/robots.txt", headers={"Host": served.hosts[0].name})
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        assert (response.status, served.robots) in ((404, None), (200, body))


def test_hosts_are_dealt_over_the_addresses(web: serve.Web) -> None:
    hosts = [h for s in web.sets for h in s.hosts]
    assert [h.name for h in hosts][:3] == ["gtk.test", "m1.gtk.test", "m2.gtk.test"]
    assert len(hosts) == 6
    assert [h.address for h in hosts] == [hosts[0].address, hosts[1].address] * 3


def test_names_resolve_and_others_do_not(web: serve.Web) -> None:
    aiodns = pytest.importorskip("aiodns")
    import asyncio

    async def resolve(name: str) -> list[str]:
        port = web.dns_port
        resolver = aiodns.DNSResolver(nameservers=["127.0.0.1"], udp_port=port, tcp_port=port, timeout=5, tries=1)
        try:
            return [record.data.addr for record in (await resolver.query_dns(name, "A")).answer]
        except aiodns.error.DNSError:
            return []

    host = web.sets[1].hosts[2]
    assert asyncio.run(resolve(host.name)) == [host.address]
    assert asyncio.run(resolve("m9.python.test")) == []
    assert asyncio.run(resolve("example.org")) == []


def test_a_name_that_is_not_served_shows_in_the_log(web: serve.Web) -> None:
    connection = http.client.HTTPConnection(web.sets[0].hosts[0].address, web.port, timeout=10)
    connection.request("GET", "/stray", headers={"Host": "else.test"})
    assert connection.getresponse().status == 421
    connection.close()
    stray = [r for r in web.requests() if r.uri == "/stray"]
    assert [(r.host, r.status, r.address) for r in stray] == [("else.test", 421, web.sets[0].hosts[0].address)]
    assert stray[0].url in audit.report(stray, set(), set())["unexpected"]


def test_an_exchange_ends_for_the_log_when_its_answer_is_sent_not_when_the_client_hangs_up(web: serve.Web) -> None:
    """nginx lingers on what it cannot parse: the next request looked early by as long as the client took to close."""
    host = web.sets[0].hosts[0]
    asked = len(web.requests())
    with socket.create_connection((host.address, web.port), timeout=10) as connection:
        connection.sendall(f"GET /%zz HTTP/1.1\r\nHost: {host.name}\r\n\r\n".encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
        logged = web.requests()[asked:]
    assert [(r.host, r.status) for r in logged] == [audit.NOBODY]


def test_the_command_line(web: serve.Web, tmp_path: Path) -> None:
    def docsweb(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tools.docsweb", *words], capture_output=True, text=True, timeout=60
        )

    counts = json.loads(docsweb("reach", str(web.directory)).stdout)
    assert (
        counts["urls"]
        == len(oracle.expected(web))
        == len(docsweb("reach", "--urls", str(web.directory)).stdout.split())
    )
    second = docsweb("up", "--sets", "gtk", str(web.directory))
    assert second.returncode == 1 and "already" in second.stderr
    assert "no set is called 'gkt'" in docsweb("up", "--sets", "gkt", str(tmp_path)).stderr
    assert docsweb("audit", str(web.directory)).returncode == 9  # nothing was crawled yet
