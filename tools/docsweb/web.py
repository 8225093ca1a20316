"""A docsweb that runs: its hosts, its state as `docsweb.json` keeps it, and the log of what it was asked."""

from __future__ import annotations

import contextlib
import http.client
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.docsweb import audit

ACCESS_LOG = "access.log"
SETTLE_HOST = "settle.invalid"
PORTS = {"http": 80, "https": 443}
SETTLE_SECONDS = 10


@dataclass(frozen=True)
class Host:
    name: str
    address: str


@dataclass(frozen=True)
class ServedSet:
    """A set as it is served: the oracle needs no more than this."""

    name: str
    package: str
    root: str
    robots: str | None
    entries: list[str]
    hosts: list[Host]


@dataclass(frozen=True)
class Web:
    """A running docsweb, as `docsweb.json` keeps it."""

    directory: Path
    port: int
    dns_port: int
    network: str
    sets: list[ServedSet]
    missing: dict[str, str]
    scheme: str = "http"

    @property
    def seeds(self) -> list[str]:
        return [f"{self.scheme}://{self.authority(h)}{path}" for s in self.sets for h in s.hosts for path in s.entries]

    def authority(self, host: Host) -> str:
        return host.name if self.port == PORTS[self.scheme] else f"{host.name}:{self.port}"

    @property
    def access_log(self) -> Path:
        return self.directory / ACCESS_LOG

    def requests(self) -> list[audit.Request]:
        """Every exchange whose answer somebody already had when this was called.

        nginx sends an answer and then writes its line, so a client may find the log a line short. Its one worker ends
        an exchange before it takes up another: the answer to one more request says that the lines before are written.
        """
        with contextlib.closing(self.connect(self.sets[0].hosts[0])) as connection:
            connection.request("GET", "/", headers={"Host": SETTLE_HOST})
            connection.getresponse().read()
        return audit.read(self.access_log)

    def connect(self, host: Host) -> http.client.HTTPConnection:
        """A connection to where the host is served; with TLS, one that takes any certificate and sends no name."""
        if self.scheme == "http":
            return http.client.HTTPConnection(host.address, self.port, timeout=SETTLE_SECONDS)
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(host.address, self.port, timeout=SETTLE_SECONDS, context=context)

    def summary(self) -> dict[str, Any]:
        """What somebody who wants to crawl it needs to know."""
        return {
            "directory": str(self.directory),
            "port": self.port,
            "resolvers": [f"127.0.0.1:{self.dns_port}"],
            "allow": [self.network],
            "hosts": sum(len(s.hosts) for s in self.sets),
            "addresses": len({h.address for s in self.sets for h in s.hosts}),
            "sets": {s.name: [asdict(h) for h in s.hosts] for s in self.sets},
            "seeds": len(self.seeds),
            "seeds_file": str(self.directory / "seeds.txt"),
            "config_file": str(self.directory / "crawl.toml"),
            "access_log": str(self.access_log),
            "missing": self.missing,
        }
