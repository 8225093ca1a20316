"""Where a crawl listens for machines on Ray, and what both sides know: the keys of [cluster] as they are given.
Anything that is not given is made once, in JOB/cluster: a secret, a key and its certificate. So TLS and a secret are
there unasked.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import os
import secrets
import socket
from ipaddress import ip_address
from pathlib import Path

from irlcrawl.base.job_files import temporary as temporary_name
from irlcrawl.cluster.tcp import place_of, read_secret
from irlcrawl.config.keys import Cluster, ConfigError

PORT = 7117
DIRECTORY = "cluster"
SECRET, CERT, KEY = "secret", "cert.pem", "key.pem"
CERT_DAYS = 3650
"""A node trusts this one certificate and no other, so its end protects nobody; it only must not come during a crawl."""


def filled(keys: Cluster, job: Path) -> Cluster:
    """The keys with which the crawl in `job` listens; missing files are made. ConfigError, OSError."""
    directory = job / DIRECTORY
    if keys.token_file and keys.tls_cert and keys.listen:
        return keys
    keys = dataclasses.replace(keys, listen=keys.listen or f"{_bracketed(own_address(keys.ray))}:{PORT}")
    directory.mkdir(mode=0o700, exist_ok=True)
    if not keys.token_file:
        keys.token_file = str(directory / SECRET)
        if not os.path.exists(keys.token_file):
            _write(directory / SECRET, secrets.token_hex(32).encode() + b"\n")
    if not keys.tls_cert:
        keys.tls_cert, keys.tls_key = str(directory / CERT), str(directory / KEY)
        if not os.path.exists(keys.tls_cert):
            cert, key = make_certificate()
            _write(directory / KEY, key)
            _write(directory / CERT, cert)  # last: where it is, its key is
    return keys


def own_address(ray: str) -> str:
    """The address by which other machines of the Ray cluster at `ray` (HOST:PORT) reach this one: that from which this
    one would ask Ray. ConfigError."""
    host, port = place_of(ray, "cluster.ray =")
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:  # sends nothing
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(f"cluster.ray = {ray}: {error.strerror or error}; no way there from here") from error


def reached_at(keys: Cluster) -> str:
    """HOST:PORT under which machines reach the crawl that listens by `keys`. ConfigError."""
    host, port = place_of(keys.listen)
    try:
        everywhere = ip_address(host).is_unspecified
    except ValueError:  # a name
        everywhere = False
    return f"{_bracketed(own_address(keys.ray) if everywhere else host)}:{port}"


def crawl_id(job: Path, keys: Cluster) -> str:
    """The name that tells this crawl from others on the same Ray: JOB's name, and some letters that only its secret
    gives."""
    name = "".join(char if char.isalnum() or char in "._" else "_" for char in job.name)
    return f"{name}-{hashlib.sha256(b'crawl ' + read_secret(keys.token_file)).hexdigest()[:8]}"


def make_certificate() -> tuple[bytes, bytes]:
    """(certificate, key), both PEM: ECDSA on P-256, signed by itself. ConfigError without cryptography."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise ConfigError(
            "a certificate is made with the package cryptography: pip install 'irlcrawl[cluster]', or set "
            "cluster.tls_cert and cluster.tls_key"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "irlcrawl")])
    now = datetime.datetime.now(datetime.UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # machines' clocks need not agree
        .not_valid_after(now + datetime.timedelta(days=CERT_DAYS))
        .sign(key, hashes.SHA256())
    )
    return cert.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> None:
    """A file of its owner alone, whole or not at all. OSError."""
    temporary = Path(temporary_name(os.fspath(path)))
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(temporary, path)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
