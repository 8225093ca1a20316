"""Signatures of requests, against the vectors of RFC 9421, RFC 8037 and the Web Bot Auth draft, and by a verifier."""

from __future__ import annotations

import base64
import dataclasses
import errno
import json
import re
import stat
import sys
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from irlcrawl.config import signing_key
from irlcrawl.config.checks import check_start
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.signing_key import KEY_FILE, make, public_jwk, public_of, read_key, thumbprint
from irlcrawl.worker.fetch.http import Request
from irlcrawl.worker.fetch.signing import VALID_SECONDS, Signer, signature_base
from tests.worker.fetch.driver import UNKNOWN, Driver, crawl_config
from tests.worker.fetch.loopback import Loopback, response

SEED = base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU=")
"""RFC 9421 B.1.4: test-key-ed25519."""
AGENT = "https://bot.example.org"


def test_rfc_9421_b_2_6() -> None:
    params = (
        '("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473'
        ';keyid="test-key-ed25519"'
    )
    components = [
        ('"date"', "Tue, 20 Apr 2021 02:07:55 GMT"), ('"@method"', "POST"), ('"@path"', "/foo"),
        ('"@authority"', "example.com"), ('"content-type"', "application/json"), ('"content-length"', "18"),
    ]  # fmt: skip
    signature = Ed25519PrivateKey.from_private_bytes(SEED).sign(signature_base(components, params))
    expected = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
    assert base64.b64encode(signature).decode() == expected


def test_the_vector_of_web_bot_auth() -> None:
    """draft-meunier-webbotauth-httpsig-protocol, Test Vectors, EdDSA: the dictionary form of Signature-Agent."""
    params = (
        '("@authority" "signature-agent";key="agent2");created=1735689600'
        ';keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600'
        ';nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="'
        ';tag="web-bot-auth"'
    )
    components = [('"@authority"', "example.com"), ('"signature-agent";key="agent2"', '"https://signature-agent.test"')]
    signature = Ed25519PrivateKey.from_private_bytes(SEED).sign(signature_base(components, params))
    expected = "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg=="
    assert base64.b64encode(signature).decode() == expected


@pytest.mark.parametrize(("x", "kid"), [
    ("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"),  # RFC 8037 A.3
    ("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs", "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"),  # the draft's
])  # fmt: skip
def test_thumbprints_of_rfc_7638(x: str, kid: str) -> None:
    public = base64.urlsafe_b64decode(x + "=")
    assert thumbprint(public) == kid
    assert public_jwk(public) == {"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x, "use": "sig"}


def verified(fields: dict[str, str], method: str, host: str, path: str, public: bytes) -> dict[str, str]:
    """The parameters of a signature, as a server checks it that knows nothing of ours (RFC 9421 3.2)."""
    label, _, params = fields["signature-input"].partition("=")
    covered = re.findall(r'"([^"]+)"(?:;key="([^"]+)")?', params[: params.index(")")])
    agents = dict(re.findall(r'(\w+)=("[^"]*")', fields["signature-agent"]))
    values = {"@method": method, "@authority": host, "@path": path}
    lines = [f'"{name}"' + (f';key="{key}": {agents[key]}' if key else f": {values[name]}") for name, key in covered]
    base = "\n".join([*lines, f'"@signature-params": {params}'])
    name, _, signature = fields["signature"].partition("=")
    assert name == label and ("signature-agent", label) in covered
    Ed25519PublicKey.from_public_bytes(public).verify(base64.b64decode(signature.strip(":")), base.encode())
    return {key: quoted or bare for key, quoted, bare in re.findall(r';(\w+)=(?:"([^"]*)"|(\d+))', params)}


def test_a_signature_holds_for_its_request_and_no_other() -> None:
    request = Request(b"https://A.test/x?q", "https", "a.test", 443, "/x?q", "192.0.2.1", 1)
    fields = {name.lower(): value for name, value in Signer(SEED, AGENT).fields(request, 1000.9)}
    said = verified(fields, "GET", "a.test", "/x", public_of(SEED))
    assert said["tag"] == "web-bot-auth" and said["keyid"] == thumbprint(public_of(SEED))
    assert (said["created"], said["expires"]) == ("1000", str(1000 + VALID_SECONDS))
    for other in (("HEAD", "a.test", "/x"), ("GET", "b.test", "/x"), ("GET", "a.test", "/y")):
        with pytest.raises(InvalidSignature):
            verified(fields, *other, public_of(SEED))


def test_a_crawl_signs_every_request_and_tells_nobody_its_key(tmp_path: Path) -> None:
    make(tmp_path)
    seed = read_key(str(tmp_path / KEY_FILE))
    config = crawl_config()
    config.network.allow = ["127.0.0.0/8"]
    config.fetch.signing_key_file, config.fetch.signature_agent = str(tmp_path / KEY_FILE), AGENT
    pages = {"/": response(b"x"), "/robots.txt": response(b"", kind="text/plain")}
    with Loopback(dict(pages)) as server, Driver(tmp_path / "job", config, signing_key=seed.hex()) as driver:
        origin = f"http://a.test:{server.port}"
        driver.visit(origin, ["/"], robots=UNKNOWN)
        driver.end()
        driver.stop()
    assert [asked.target for asked in server.asked] == ["/robots.txt", "/"]
    for asked in server.asked:
        lines = asked.head.decode().split("\r\n")[1:-2]
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        verified(fields, "GET", f"a.test:{server.port}", asked.target, public_of(seed))
    text = (tmp_path / KEY_FILE).read_bytes()
    secret = [seed, seed.hex().encode(), base64.b64encode(seed), text.split(b"\n")[1]]
    files = [file for file in (tmp_path / "job").rglob("*") if file.is_file()]
    assert files and not [file for file in files for form in secret if form in file.read_bytes()]
    assert seed.hex() not in json.dumps(dataclasses.asdict(config))


def test_a_key_is_its_owners_alone_and_never_overwritten_and_the_directory_keeps_older_ones(tmp_path: Path) -> None:
    first = make(tmp_path / "keys")
    file = tmp_path / "keys" / KEY_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and thumbprint(public_of(read_key(str(file)))) == first
    with pytest.raises(FileExistsError):
        make(tmp_path / "keys")
    file.rename(tmp_path / "keys" / "old.pem")
    second = make(tmp_path / "keys")
    directory = json.loads((tmp_path / "keys" / signing_key.DIRECTORY_FILE).read_text())
    assert [key["kid"] for key in directory["keys"]] == [first, second]
    assert {tuple(key) for key in directory["keys"]} == {("kty", "crv", "kid", "x", "use")}, "nothing private"
    (tmp_path / "keys" / signing_key.DIRECTORY_FILE).write_text("[" * 5000)
    file.rename(tmp_path / "keys" / "older.pem")
    with pytest.raises(ConfigError, match="is no key directory"):
        make(tmp_path / "keys")


def started(config: Config) -> None:
    config.crawl.user_agent = "Testbot/1.0 (+https://example.org/bot; bot@example.org)"
    check_start(config)


def test_a_key_that_cannot_be_used_is_told_by_its_file_alone(tmp_path: Path) -> None:
    make(tmp_path)
    file, config = tmp_path / KEY_FILE, Config()
    config.fetch.signature_agent, config.fetch.signing_key_file = AGENT, str(file)
    started(config)
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        started(config)
    file.chmod(0o600)
    file.write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    with pytest.raises(ConfigError, match="no Ed25519 private key") as told:
        started(config)
    assert "c2VjcmV0" not in str(told.value)
    file.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        started(config)


def test_without_the_package_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    for use in (lambda: read_key(str(tmp_path / KEY_FILE)), lambda: make(tmp_path / "b"), lambda: public_of(SEED)):
        with pytest.raises(ConfigError, match=r"pip install 'irlcrawl\[sign\]'"):
            use()


@pytest.mark.parametrize(("agent", "file"), [
    ("https://a.test", ""), ("", "x.pem"), ("http://a.test", "x.pem"), ("https://a.test/x", "x"), ('https://a"', "x"),
])  # fmt: skip
def test_keys_that_do_not_go_together_are_refused(agent: str, file: str) -> None:
    config = Config()
    config.fetch.signature_agent, config.fetch.signing_key_file = agent, file
    with pytest.raises(ConfigError, match=r"fetch\.sign"):
        signing_key.check(config)


def test_a_full_disk_leaves_no_empty_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the key was there, with nothing in it, so the same command was refused after room was made."""

    def full(self: Path, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            make(tmp_path)
    assert not list(tmp_path.iterdir())
    assert make(tmp_path)
