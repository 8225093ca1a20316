"""A certificate authority that lives as long as the demo: its certificate is what the crawl's `fetch.tls_ca_file`
names.

Made with trustme (a development dependency): an openssl program need not be there, and a key kept in the repository
would be one that somebody trusts by mistake.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


def authority(pem: Path, names: set[str]) -> dict[str, ssl.SSLContext]:
    """Writes the certificate of a new authority to `pem`; a server context for each name, certified by it."""
    ca = trustme.CA(organization_name="irlcrawl sample web")
    ca.cert_pem.write_to_path(str(pem))
    contexts = {}
    for name in names:
        contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(name).configure_cert(contexts[name])
    return contexts
