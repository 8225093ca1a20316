"""What TLS costs a client that has nothing else to do: connect, shake hands, close; in CPU time of this process.

With the crawler's own context (its ciphers, its verification) against the polite web's hosts, one after the other, on
blocking sockets: the floor of what the same library costs inside a crawl. Resumed: with the session of a first visit.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from typing import NamedTuple

from irlcrawl.config.toml import from_dict
from irlcrawl.worker.fetch.http import tls_context
from tools.docsweb import serve

SAMPLE = 500
TIMEOUT_S = 10.0


class Handshake(NamedTuple):
    """CPU milliseconds each."""

    full_ms: float
    resumed_ms: float


def measure(web: serve.Web, fetch: dict[str, object]) -> Handshake:
    """fetch: the TLS part of a crawl's configuration. Asks each host once before, for its session."""
    config = from_dict({"crawl": {"user_agent": "bench/1.0 (+https://bench.test/)"}, "fetch": fetch})
    context = tls_context(config)
    hosts = [h for s in web.sets for h in s.hosts][:SAMPLE]
    sessions = [_visit(context, web, host, None, ask=True) for host in hosts]
    return Handshake(_cpu_ms(context, web, hosts, [None] * len(hosts)), _cpu_ms(context, web, hosts, sessions))


def _cpu_ms(
    context: ssl.SSLContext,
    web: serve.Web,
    hosts: Sequence[serve.Host],
    sessions: Sequence[ssl.SSLSession | None],
) -> float:
    before = time.process_time()
    for host, session in zip(hosts, sessions):
        _visit(context, web, host, session)
    return 1000 * (time.process_time() - before) / len(hosts)


def _visit(
    context: ssl.SSLContext,
    web: serve.Web,
    host: serve.Host,
    session: ssl.SSLSession | None,
    *,
    ask: bool = False,
) -> ssl.SSLSession | None:
    """ask: also for a page, for TLS 1.3 hands the session out after the handshake."""
    with (
        socket.create_connection((host.address, web.port), timeout=TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host.name, session=session) as wrapped,
    ):
        if ask:
            wrapped.sendall(f"GET /robots.txt HTTP/1.1\r\nHost: {host.name}\r\nConnection: close\r\n\r\n".encode())
            while wrapped.recv(1 << 16):
                pass
        return wrapped.session
