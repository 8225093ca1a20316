"""Headers of the operator: what is sent is what the configuration says, and what cannot be sent is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from irlcrawl.config.checks import check_start
from irlcrawl.config.headers import read_secrets
from irlcrawl.config.keys import ConfigError
from irlcrawl.config.toml import load

AGENT = "crawl.user_agent=TestCrawler/1.0 (+https://crawler.example.org/)"


@pytest.mark.parametrize(
    "line",
    [
        "X-A: b\r\nX-C: d", "X-A: b\n", "X-A: \0", "X-A: ä", "X-A:", "X-A", ": b", "X A: b", "Host: a.test",
        "content-length: 3", "Connection: close", "Transfer-Encoding: chunked", "Upgrade: h2c", "Expect: 100-continue",
        "Range: bytes=0-9", "If-None-Match: x", "User-Agent: Mozilla", "Accept-Encoding: lzma", "Cookie: a=b",
        "Authorization: Basic x", "Proxy-Authorization: Basic x", "From: me",
    ],
)  # fmt: skip
def test_a_header_that_is_not_for_the_operator_to_set_is_refused(line: str) -> None:
    for path in ("fetch.headers", 'site."a.test".headers'):
        section, _, name = path.rpartition(".")
        with pytest.raises(ConfigError, match=r"headers"):
            load(overrides=[f'{section}.{name}=["{line.encode("unicode_escape").decode()}"]'])


def test_a_header_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"fetch.headers: has x-a twice"):
        load(overrides=['fetch.headers=["X-A: b", "x-a: c"]'])


def test_a_language_cannot_begin_another_header() -> None:
    with pytest.raises(ConfigError, match=r"fetch.accept_language"):
        load(overrides=[r'fetch.accept_language="de\r\nHost: x"'])


def test_a_file_of_secrets(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("# for the archive\n\nCookie: id=1; b=2\nBasic-Auth: me:pass:word\nX-Key: k\n")
    assert read_secrets(str(file)) == [
        ("Cookie", "id=1; b=2"), ("Authorization", "Basic bWU6cGFzczp3b3Jk"), ("X-Key", "k"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "Cookie: se\0cret",
        "secret",
        "Host: secret",
        "Basic-Auth: secret",
        "Cookie: secret\nCookie: secret2",
        "If-A: secret",
    ],
)
def test_a_start_refuses_a_file_of_secrets_and_tells_none_of_them(tmp_path: Path, line: str) -> None:
    file = tmp_path / "file"
    file.write_text(f"X-A: b\n{line}\n")
    config = load(overrides=[AGENT, f'site."a.test".secrets_file={file}'])
    with pytest.raises(ConfigError, match=r"secrets_file = .*file") as told:
        check_start(config)
    assert "secret" not in str(told.value).replace("secrets_file", "")


def test_a_start_refuses_a_file_of_secrets_that_is_not_there(tmp_path: Path) -> None:
    config = load(overrides=[AGENT, f'site."a.test".secrets_file={tmp_path / "none"}'])
    with pytest.raises(ConfigError, match=r"none: cannot be read: No such file"):
        check_start(config)
