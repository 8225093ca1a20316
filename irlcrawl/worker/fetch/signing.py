"""Requests that prove where they come from: HTTP message signatures (RFC 9421) as Web Bot Auth profiles them
(draft-ietf-webbotauth-httpsig-protocol): with Ed25519, over method, authority, path and the directory of the key.

A signature is made for each request when it goes out, so it is of use for no other path, and for a few minutes.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from irlcrawl.config.signing_key import thumbprint
from irlcrawl.worker.fetch.http import Request, authority

VALID_SECONDS = 300
"""From `created` to `expires`: clocks of servers may be wrong by minutes."""
LABEL = "irlcrawl"
COMPONENTS = f'("@method" "@authority" "@path" "signature-agent";key="{LABEL}")'


def signature_base(components: Sequence[tuple[str, str]], params: str) -> bytes:
    """What is signed (RFC 9421 2.5): components as (identifier, value) in order, and the signature parameters."""
    return "\n".join([*(f"{name}: {value}" for name, value in components), f'"@signature-params": {params}']).encode()


class Signer:
    """Signs requests with one key for one agent."""

    def __init__(self, seed: bytes, agent: str) -> None:
        """seed: 32 bytes; agent: the origin at which the key directory is served."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._agent = f'"{agent}"'
        self._keyid = thumbprint(self._key.public_key().public_bytes_raw())

    def fields(self, request: Request, now: float) -> tuple[tuple[str, str], ...]:
        """The three header fields of a GET that goes out `now` (unix seconds)."""
        created = int(now)
        params = (
            f'{COMPONENTS};created={created};keyid="{self._keyid}";alg="ed25519";expires={created + VALID_SECONDS}'
            ';tag="web-bot-auth"'
        )
        base = signature_base(
            (
                ('"@method"', "GET"), ('"@authority"', authority(request).lower()),
                ('"@path"', request.target.partition("?")[0]), (f'"signature-agent";key="{LABEL}"', self._agent),
            ),
            params,
        )  # fmt: skip
        signature = base64.b64encode(self._key.sign(base)).decode()
        return (
            ("Signature-Agent", f"{LABEL}={self._agent}"),
            ("Signature-Input", f"{LABEL}={params}"),
            ("Signature", f"{LABEL}=:{signature}:"),
        )
