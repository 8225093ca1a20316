"""HTTPS: the name goes into SNI and Host, the address is where the connection goes, and trust is a setting."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from irlcrawl.config import Config
from irlcrawl.fetch.http import Fetched, Fetcher, Request
from irlcrawl.rows import Reason
from tests.fetch.loopback import Loopback, response
from tests.fetch.test_http import configured, run


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def get(server: Loopback, config: Config, host: str = "a.test", times: int = 1) -> list[Fetched]:
    asked = Request(f"https://{host}/".encode(), "https", host, server.port, "/", "127.0.0.1", 1000)

    async def use(fetcher: Fetcher) -> list[Fetched]:
        return [await fetcher.fetch(asked) for _ in range(times)]

    return run(config, use)


def test_any_certificate_is_taken_by_default_and_the_connection_reused(authority: trustme.CA) -> None:
    with Loopback({"/": response(b"x")}, tls=server_context(authority, "wrong.test")) as server:
        results = get(server, configured(), times=2)
        assert [result.reason for result in results] == [Reason.OK] * 2
        assert server.connections == 1
        assert server.asked[0].host == f"a.test:{server.port}"


def test_with_verification_the_name_must_be_right_and_the_authority_known(
    authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    knows = configured(tls_verify=True, tls_ca_file=str(tmp_path / "ca.pem"))
    with Loopback({"/": response(b"x")}, tls=server_context(authority, "a.test")) as server:
        assert get(server, knows)[0].reason is Reason.OK
        assert get(server, knows, host="b.test")[0].reason is Reason.TLS
        assert get(server, configured(tls_verify=True))[0].reason is Reason.TLS
        assert len(server.asked) == 1


@pytest.mark.parametrize("host", ["a.test", "a.test."])
def test_the_name_is_told_in_the_handshake(authority: trustme.CA, host: str) -> None:
    context = server_context(authority, "a.test")
    told: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: told.append(name)
    with Loopback({"/": response(b"x")}, tls=context) as server:
        assert get(server, configured(), host=host)[0].reason is Reason.OK
        assert told == ["a.test"]
        assert server.asked[0].host == f"{host}:{server.port}"


def test_old_protocols_are_spoken_when_nothing_is_verified(authority: trustme.CA) -> None:
    context = server_context(authority, "a.test")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    with Loopback({"/": response(b"x")}, tls=context) as server:
        assert get(server, configured())[0].reason is Reason.OK
