"""What requests to a host carry: as configured, to the hosts it is meant for alone, and no secret in the archive."""

from __future__ import annotations

from dataclasses import replace

from irlcrawl.config.keys import Config, Site
from irlcrawl.worker.archive.record import digest, request_and_response
from irlcrawl.worker.fetch.http import Fetched, Fetcher
from irlcrawl.worker.fetch.terms import TermsOf
from tests.worker.archive.support import unit_of
from tests.worker.fetch.both_clients import client, configured, request, run
from tests.worker.fetch.loopback import Loopback, response

__all__ = ["client"]  # the fixture: both clients

SECRETS = {"/file": [["Cookie", "id=hush"], ["Authorization", "Basic hush"]]}


def fetched(config: Config, host: str) -> tuple[bytes, Fetched]:
    """What the server received, and what was kept of it."""
    terms = TermsOf(config, SECRETS).of(host)
    with Loopback({"/": response(b"x")}) as server:

        async def use(fetcher: Fetcher) -> Fetched:
            asked = request(server, host=host)
            return await fetcher.fetch(replace(asked, terms=terms))

        result: Fetched = run(config, use)
        return server.asked[0].head, result


def test_headers_of_the_configuration_are_sent_and_archived() -> None:
    config = configured(accept_language="de, en;q=0.5", headers=["X-Archive: ours", "Accept: */*"])
    head, result = fetched(config, "a.test")
    assert b"\r\nAccept-Language: de, en;q=0.5\r\n" in head
    assert b"\r\nX-Archive: ours\r\n" in head
    assert head.count(b"\r\nAccept: ") == 1 and b"\r\nAccept: */*\r\n" in head
    assert result.exchange is not None and result.exchange.request == head


def test_headers_of_a_site_go_before_those_of_the_crawl() -> None:
    config = configured(accept_language="de", headers=["X-Archive: ours"])
    config.site["a.test"] = Site(headers=["accept-language: fr", "X-B: c"])
    head, _ = fetched(config, "www.a.test")
    assert b"\r\naccept-language: fr\r\n" in head and b"Accept-Language: de" not in head
    assert b"\r\nX-Archive: ours\r\n" in head and b"\r\nX-B: c\r\n" in head


def test_secrets_go_to_their_site_and_into_no_archive() -> None:
    config = configured()
    config.site["a.test"] = Site(secrets_file="/file")
    config.site["open.a.test"] = Site(secrets_file="")
    head, result = fetched(config, "www.a.test")
    assert b"\r\nCookie: id=hush\r\n" in head and b"\r\nAuthorization: Basic hush\r\n" in head
    assert result.exchange is not None
    assert b"\r\nCookie: (withheld)\r\n" in result.exchange.request
    stored = b"".join(part for part in request_and_response(unit_of(), result.exchange, "<x>", digest(b"")))
    assert b"hush" not in stored and b"(withheld)" in stored
    for other in ("b.test", "a.test.b.test", "nota.test", "open.a.test"):
        head, _ = fetched(config, other)
        assert b"hush" not in head and b"Cookie" not in head


def test_hosts_that_no_section_names_share_their_terms() -> None:
    terms = TermsOf(Config())
    assert terms.of("a.test") is terms.of("b.test") is terms.general
