"""What servers are offered in the TLS handshake (ALPN, RFC 7301): HTTP/1.1, HTTP/2, or a choice."""

from __future__ import annotations

import ssl
from collections import OrderedDict

from irlcrawl.config.keys import Config
from irlcrawl.worker.fetch import http

HTTP1, HTTP2 = "http/1.1", "h2"
SPOKEN_MAX = 4096
"""Servers of which it is remembered that they speak one protocol alone, the last ones met."""
_REFUSAL = "alert no application protocol"

PoolKey = tuple[str, int, str, str]


class Offers:
    """What servers are offered in the handshake: HTTP/1.1, HTTP/2 or both, as `fetch.http2` says and as they are known
    to speak. A session is resumed with the context it was made with alone."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._mode = config.fetch.http2
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._spoken: OrderedDict[PoolKey, str] = OrderedDict()

    def context(self, key: PoolKey) -> ssl.SSLContext:
        """For a connection to that server."""
        known = self._spoken.get(key)
        offered = (known,) if known else (HTTP2, HTTP1) if self._mode == "offered" else (HTTP1,)
        if offered not in self._contexts:
            if HTTP2 in offered:
                from irlcrawl.worker.fetch import http2  # noqa: F401  # now, rather than between two packets

            self._contexts[offered] = http.tls_context(self._config, offered)
        return self._contexts[offered]

    def learn(self, key: PoolKey, protocol: str) -> None:
        """That server speaks one protocol alone."""
        self._spoken[key] = protocol
        if len(self._spoken) > SPOKEN_MAX:
            self._spoken.popitem(last=False)

    def speaks_otherwise(self, key: PoolKey, error: Exception) -> bool:
        """Whether that server refused a handshake because it speaks HTTP/2 alone, which was not known before. One that
        refuses what it is known for is known no more."""
        refused = isinstance(error, ssl.SSLError) and _REFUSAL in str(error)  # Python has no name for this alert
        if not refused or self._mode == "off":
            return False
        if self._spoken.pop(key, None) is not None or self._mode != "needed":
            return False
        self.learn(key, HTTP2)
        return True
