"""Which requests the operator's page answers.

* Its Host header has to name this server: another name that leads here is that of a page of a stranger, whose DNS was
  changed after it was loaded (rebinding). Addresses are always fine, for such a page cannot have one.
* A POST comes from the page itself: Origin, where a browser says it, is that of the Host header. No cookie says that
  somebody may steer; the token is in a header that no form and no page of a stranger can set.
* With the token one may do everything. Without it one may look, where the server listens on loopback only and was not
  told to be private.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from irlcrawl.config.keys import ConfigError

TOKEN_BYTES = 24
TOKEN_CHARS_LEAST = 16
BEARER = "Bearer "

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "irlcrawl",
}
"""Of every answer: nothing from elsewhere, in nobody's frame, kept nowhere."""


@dataclass(frozen=True)
class Refused:
    """Why a request is not answered."""

    status: int
    text: str


@dataclass(frozen=True)
class Guard:
    """names: of the Host header, beside addresses, localhost and this machine's own."""

    token: str
    open_to_look: bool
    names: Collection[str] = ()

    def refusal(self, method: str, headers: Mapping[str, str]) -> Refused | None:
        """None: the request is from where it should be. Whether it may do what it asks for, `may` says."""
        host = headers.get("Host", "")
        name = host_of(host)
        if name is None or not (_is_address(name) or name in self._names()):
            return Refused(403, f"this server is not called {host[:100]!r}; `irlcrawl watch --name` gives it a name")
        origin = headers.get("Origin")
        if origin is not None and _netloc(origin) != host.lower():
            return Refused(403, "asked from the page of another server")
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and method != "GET":
            return Refused(403, "asked from the page of another server")
        return None

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the request carries the token."""
        said = headers.get("Authorization", "")
        given = said.removeprefix(BEARER) if said.startswith(BEARER) else ""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode())

    def may_look(self, headers: Mapping[str, str]) -> bool:
        return self.open_to_look or self.knows(headers)

    def _names(self) -> set[str]:
        return {"localhost", socket.gethostname().lower(), *(name.lower() for name in self.names)}


def host_of(header: str) -> str | None:
    """The name or address in a Host header; None if it is none."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?", header)
    return None if match is None else match[1].lower()


def _netloc(origin: str) -> str | None:
    """Name and port of an Origin header; None if it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # an address whose bracket does not end
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def listen_at(text: str) -> tuple[str, int]:
    """(address, port) of `--http`. ConfigError."""
    match = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.]+\]|[\d.]+|localhost):)?(\d{1,5})", text)
    address = "127.0.0.1" if match is None or match[1] in (None, "localhost") else match[1].strip("[]")
    if match is None or not _is_address(address) or int(match[2]) > 65_535:
        raise ConfigError(f"--http {text}: takes an address of this machine and a port, such as 127.0.0.1:8730")
    return address, int(match[2])


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def token_of(file: str | None) -> str:
    """What is in `file`, which is made (mode 0600) if it is not there; a new one without a file. ConfigError."""
    if file is None:
        return secrets.token_urlsafe(TOKEN_BYTES)
    path = Path(file)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise ConfigError(f"--token-file {file}: {error.strerror}") from error
    else:
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    try:
        mode, token = path.stat().st_mode, path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {file}: cannot be read: {error}") from error
    if mode & 0o077:
        raise ConfigError(f"--token-file {file}: others may read it; chmod 600 it, and put a new token into it")
    if not re.fullmatch(rf"[A-Za-z0-9._~+/=-]{{{TOKEN_CHARS_LEAST},}}", token):
        raise ConfigError(
            f"--token-file {file}: takes one line of at least {TOKEN_CHARS_LEAST} letters, digits and ._~+/=-; delete "
            "it, and a new one is made"
        )
    return token
