"""What `irlcrawl doctor` finds on a machine where something is wrong."""

from __future__ import annotations

import os
import resource
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from irlcrawl.config.keys import Config, Site
from irlcrawl.frontier.dispatch.dns import Resolver
from irlcrawl.upkeep import doctor
from tests.worker.fetch.loopback import Loopback


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Of a healthy machine."""
    config = Config()
    config.politeness.machine_clocks = str(tmp_path)
    healthy(monkeypatch)
    return config


def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reachable(self: Resolver) -> bool:
        return True

    monkeypatch.setattr(Resolver, "reachable", reachable)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10**11}))
    monkeypatch.setattr(doctor, "_speed", lambda directory: (1e9, 0.001))
    monkeypatch.setattr(doctor, "_memory", lambda: doctor.Check("memory", "4 GB available"))


def ill(config: Config, directory: Path, *dependencies: str) -> dict[str, str]:
    checks = doctor.examine(directory, config, dependencies, 512)
    return {check.name: check.advice for check in checks if check.advice}


def test_a_healthy_machine_has_nothing_to_look_at(config: Config, tmp_path: Path) -> None:
    assert ill(config, tmp_path / "not" / "there" / "yet", "numpy") == {}


@pytest.mark.parametrize(
    ("what", "name", "advice"),
    [
        ("files", "files", "a crawl does not start with fewer than 512"),
        ("slow disk", "disk speed", "use a local disk"),
        ("full disk", "disk", "frontier.disk_reserve_bytes"),
        ("large reserve", "disk", "a crawl begins with 1.1 TB (frontier.disk_reserve_bytes)"),
        ("file", "disk", "name a directory"),
        ("no dns", "DNS", "network.resolvers"),
        ("no shm", "shared", "politeness.machine_clocks"),
        ("clock", "clock", "the date is wrong"),
        ("missing", "versions", "pip install no-such-thing"),
    ],
)
def test_each_ill_is_named_with_what_to_do(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, name: str, advice: str
) -> None:
    async def dead(self: Resolver) -> bool:
        return False

    def patch(target: Any, attribute: str, value: Any) -> None:
        monkeypatch.setattr(target, attribute, value)

    match what:
        case "files":
            patch(resource, "getrlimit", lambda which: (16, 16))
        case "slow disk":
            patch(doctor, "_speed", lambda directory: (1e9, 2.0))
        case "full disk":
            patch(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10**6}))
        case "no dns":
            patch(Resolver, "reachable", dead)
        case "large reserve":
            config.frontier.disk_reserve_bytes = 10**12
        case "no shm":
            config.politeness.machine_clocks = "/none/such"
        case "clock":
            patch(doctor.time, "time", lambda: 1e9)
    directory = tmp_path / "file" if what == "file" else tmp_path
    (tmp_path / "file").touch()
    found = ill(config, directory, *(["no-such-thing"] if what == "missing" else []))
    assert list(found) == [name] and advice in found[name]


@pytest.mark.parametrize("refused", [True, False])
def test_a_resolver_that_nobody_runs_was_said_to_answer(monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    """`Resolver.alive` takes a crawl that needed no name for one whose resolver is well."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        config = Config()
        config.network.resolvers, config.network.dns_seconds = [f"127.0.0.1:{silent.getsockname()[1]}"], 0.2
        if refused:
            silent.close()
        assert doctor._dns(config).told == "no resolver answers"


def test_files_that_a_crawl_reads_were_not_looked_at(config: Config, tmp_path: Path) -> None:
    """`crawl` ended with code 2 where `doctor --config` had nothing to say."""
    config.crawl.user_agent = "Testbot/1.0 (bot@example.org)"
    checks = {check.name: check for check in doctor.examine(tmp_path, config, (), 512, configured=True)}
    assert not checks["config"].advice
    config.fetch.signing_key_file = str(tmp_path / "none.key")
    checks = {check.name: check for check in doctor.examine(tmp_path, config, (), 512, configured=True)}
    assert "fetch.signing_key_file" in checks["config"].advice
    assert "config" not in {check.name for check in doctor.examine(tmp_path, config, (), 512)}


def test_a_proxy_is_asked_and_needs_no_resolver_of_ours(config: Config, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        config.network.proxy = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        config.fetch.connect_seconds = 0.2
        checks = [check for check in doctor.examine(tmp_path, config, (), 512) if check.name in ("proxy", "DNS")]
        assert [(check.name, bool(check.advice)) for check in checks] == [("proxy", True)], "it says nothing"
    config.site["b.test"] = Site(proxy="")
    with Loopback({}) as server:
        config.network.proxy = f"http://127.0.0.1:{server.port}"
        checks = [check for check in doctor.examine(tmp_path, config, (), 512) if check.name in ("proxy", "DNS")]
    assert [(check.name, bool(check.advice)) for check in checks] == [("DNS", False), ("proxy", False)], "b.test"


def test_a_small_disk_that_is_read_only_was_said_to_be_small(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 60_000_000}))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    told = [check.told for check in doctor.examine(tmp_path, config, (), 64) if check.name == "disk"]
    assert told[-1] == f"{tmp_path} cannot be written"


def test_the_disk_is_left_as_it_was(tmp_path: Path) -> None:
    written, flush = doctor._speed(tmp_path)
    assert written > 0 and flush >= 0 and list(tmp_path.iterdir()) == []
