"""docsweb under https: a client that trusts its authority gets the pages under the right names, may resume its session,
and no plain http is answered; five hundred hosts need no more than their addresses.

Needs nginx, dnsmasq, trustme and one Debian package; without them these tests are skipped, with the reason.
"""

from __future__ import annotations

import socket
import ssl
import tomllib
from collections import Counter
from collections.abc import Iterator

import pytest

from bench.crawl import polite
from tools.docsweb import oracle, serve
from tools.docsweb.sets import DocswebError

MIRRORS, ADDRESSES = 499, 300


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serve.Web]:
    options = {"mirrors": MIRRORS, "addresses": ADDRESSES, "https": True, "sites": True}
    try:
        with serve.running(tmp_path_factory.mktemp("docsweb"), "gtk", **options) as running:
            if running.missing:
                pytest.skip(f"docsweb is incomplete: {running.missing}")
            yield running
    except DocswebError as error:
        pytest.skip(f"docsweb cannot be served: {error}")


@pytest.fixture
def context(web: serve.Web) -> ssl.SSLContext:
    fetch = tomllib.loads((web.directory / "crawl.toml").read_text())["fetch"]
    assert fetch["tls_verify"]
    return ssl.create_default_context(cafile=fetch["tls_ca_file"])


def get(
    web: serve.Web, host: serve.Host, target: str, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[bytes, ssl.SSLSession | None, bool | None]:
    """The answer, the connection's session, and whether it was resumed."""
    with (
        socket.create_connection((host.address, web.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=host.name, session=session) as wrapped,
    ):
        wrapped.sendall(f"GET {target} HTTP/1.1\r\nHost: {host.name}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: wrapped.recv(1 << 16), b""))
        return answer, wrapped.session, wrapped.session_reused


def test_every_host_is_certified_under_its_own_name(web: serve.Web, context: ssl.SSLContext) -> None:
    hosts = web.sets[0].hosts
    assert [h.name for h in (hosts[0], hosts[-1])] == ["gtk.test", f"gtk-m{MIRRORS}.test"]
    assert len({h.address for h in hosts}) == ADDRESSES
    for host in (hosts[0], hosts[9], hosts[10], hosts[-1]):
        answer, *_ = get(web, host, "/robots.txt", context)
        assert answer.startswith(b"HTTP/1.1 404")  # this set has no robots.txt
    with pytest.raises(ssl.SSLCertVerificationError, match=r"else\.test"):
        get(web, serve.Host("else.test", hosts[0].address), "/", context)


def test_a_session_is_resumed_and_the_log_says_so(web: serve.Web, context: ssl.SSLContext) -> None:
    host = web.sets[0].hosts[1]
    _, session, first = get(web, host, "/first", context)
    _, _, second = get(web, host, "/second", context, session)
    assert (first, second) == (False, True)
    told = {r.uri: r for r in web.requests()}
    assert [told[uri].resumed for uri in ("/first", "/second")] == [False, True]
    assert all(told[uri].connection_s >= 0 and told[uri].new_connection for uri in ("/first", "/second"))


def test_what_is_expected_is_https(web: serve.Web) -> None:
    assert all(url.startswith("https://") for url in web.seeds)
    expected = oracle.expected(web)
    assert set(web.seeds) <= expected
    assert len(expected) == len(oracle.of_set(web, web.sets[0]).requested) * (MIRRORS + 1)


def test_hosts_of_the_polite_benchmark_start_at_pages_of_their_own(web: serve.Web) -> None:
    drawn = list(polite.seeds(web, 3))
    assert drawn == list(polite.seeds(web, 3))  # the same each time
    assert len(set(drawn)) == len(drawn) == 3 * (MIRRORS + 1)
    assert set(drawn) <= oracle.expected(web)
    first = Counter(url.partition(".test")[2] for url in drawn[::3])
    assert max(first.values()) < MIRRORS / 20  # mirrors do not go in step


def test_http_is_not_served(web: serve.Web) -> None:
    host = web.sets[0].hosts[0]
    with socket.create_connection((host.address, web.port), timeout=10) as plain:
        plain.sendall(f"GET / HTTP/1.1\r\nHost: {host.name}\r\nConnection: close\r\n\r\n".encode())
        assert b" 400 " in plain.recv(1 << 16).split(b"\r\n")[0]
