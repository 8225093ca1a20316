"""The key with which requests are signed (fetch.signing_key_file): made, read, and shown to others as a key directory.

Ed25519 alone. The private key is a secret: it stands in a file that nobody but its owner may read, in no file of JOB,
and errors tell nothing of it. `cryptography` is loaded when a key is made or read, else never.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from irlcrawl.config.keys import Config, ConfigError

KEY_FILE = "signing-key.pem"
DIRECTORY_FILE = "http-message-signatures-directory"
WELL_KNOWN = f"/.well-known/{DIRECTORY_FILE}"
MEDIA_TYPE = "application/http-message-signatures-directory+json"
_AGENT = re.compile(r"https://[a-z0-9.-]+(:\d{1,5})?")
_MISSING = "signing needs the package cryptography: pip install 'irlcrawl[sign]'"


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_jwk(public: bytes) -> dict[str, str]:
    """A public key (32 bytes) as RFC 8037 has it, named by its thumbprint."""
    return {"kty": "OKP", "crv": "Ed25519", "kid": thumbprint(public), "x": base64url(public), "use": "sig"}


def thumbprint(public: bytes) -> str:
    """The `keyid` of a public key: its JWK thumbprint (RFC 7638, RFC 8037 A.3)."""
    members = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": base64url(public)}, separators=(",", ":"))
    return base64url(hashlib.sha256(members.encode()).digest())


def public_of(seed: bytes) -> bytes:
    """The public key (32 bytes) of a private one. ConfigError without cryptography."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise ConfigError(_MISSING) from None
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def read_key(path: str) -> bytes:
    """The private key (its 32 bytes of seed) in a PEM file of its owner alone. ConfigError."""
    where = f"fetch.signing_key_file = {path}"
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise ConfigError(f"{where}: {_MISSING}") from None
    try:
        with open(path, "rb") as stream:
            mode, text = os.fstat(stream.fileno()).st_mode, stream.read(4096)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise ConfigError(f"{where}: others may read it: chmod 600 {path}")
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError):  # its message may tell of the text
        key = None
    except Exception:  # cryptography's own for kinds of keys it does not know
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{where}: no Ed25519 private key in PEM without a password; `irlcrawl key` makes one")
    return key.private_bytes_raw()


def check(config: Config) -> None:
    """ConfigError for keys that do not go together. The key file is not looked at."""
    agent, file = config.fetch.signature_agent, config.fetch.signing_key_file
    if agent and not _AGENT.fullmatch(agent):
        raise ConfigError(f"fetch.signature_agent = {agent!r}: takes an origin such as https://bot.example.org")
    if bool(agent) != bool(file):
        given, missing = ("signature_agent", "signing_key_file")[:: 1 if agent else -1]
        raise ConfigError(f"fetch.{given} without fetch.{missing}: requests are signed with both")


def make(directory: Path) -> str:
    """A new key in `directory`, which is made if need be: KEY_FILE, and its public part at the end of the key directory
    DIRECTORY_FILE, which keeps the keys it has. Returns its keyid. FileExistsError, ConfigError; OSError, after which
    there is no new key."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError:
        raise ConfigError(_MISSING) from None
    keys = _listed(directory / DIRECTORY_FILE)
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    jwk = public_jwk(key.public_key().public_bytes_raw())
    text_of_all = json.dumps({"keys": [*keys, jwk]}, indent=1) + "\n"
    new = directory / (DIRECTORY_FILE + ".new")
    handle = os.open(directory / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
        new.write_text(text_of_all)
        new.replace(directory / DIRECTORY_FILE)
    except OSError:  # half of a key would keep the next call from making a whole one
        (directory / KEY_FILE).unlink()
        new.unlink(missing_ok=True)
        raise
    return jwk["kid"]


def _listed(path: Path) -> list[Any]:
    """The keys of a key directory; none where there is no such file. ConfigError."""
    try:
        keys = json.loads(path.read_bytes())["keys"]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        keys = None
    if not isinstance(keys, list):
        raise ConfigError(f"{path}: is no key directory (JWK Set); move it away")
    return keys
