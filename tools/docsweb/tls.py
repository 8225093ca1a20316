"""Certificates for a docsweb under https: an authority made for one web, and what nginx needs of it.

Made with trustme (a development dependency), as tools/sampleweb does: no openssl program is needed, and no key lies in
the repository for somebody to trust by mistake. A certificate names a few hosts, as most of the web's do, and its key
is ECDSA on P-256.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

CA_FILE = "ca.pem"
HOSTS_PER_CERTIFICATE = 10


def write_certificates(directory: Path, groups: Iterable[Sequence[str]]) -> list[str]:
    """Makes an authority, whose certificate becomes `directory`/ca.pem, and a key with its chain for each group of host
    names. Returns nginx's directives for each. ImportError without trustme."""
    import trustme

    directory.mkdir(exist_ok=True)
    authority = trustme.CA(organization_name="irlcrawl docsweb")
    authority.cert_pem.write_to_path(str(directory / CA_FILE))
    directives = []
    for names in groups:
        pem = directory / f"{names[0]}.pem"
        certificate = authority.issue_cert(*names, key_type=trustme.KeyType.ECDSA)
        certificate.private_key_and_cert_chain_pem.write_to_path(str(pem))
        directives.append(f'ssl_certificate "{pem}"; ssl_certificate_key "{pem}";')
    return directives
