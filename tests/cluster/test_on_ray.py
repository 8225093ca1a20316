"""Machines of a Ray cluster, with a played Ray: which are used, which clusters are refused, and with what words."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main, verbs_cluster
from irlcrawl.cluster import access, on_ray, stranger
from irlcrawl.config.keys import Cluster, Config, ConfigError
from irlcrawl.config.toml import to_toml


class AuthenticationError(Exception):
    pass


class Actor:
    """What a played Ray knows of an actor; its machine answers at once."""

    def __init__(self, spec: Any, options: dict[str, Any]) -> None:
        self.spec, self.options, self.ended = spec, options, False
        look = {"pid": 7, "started": 1, "status": None, "said": [], "directory": spec.directory}
        self.look = SimpleNamespace(remote=lambda: look)
        self.end = SimpleNamespace(remote=lambda: setattr(self, "ended", True) or True)


class PlayedRay(ModuleType):
    def __init__(self) -> None:
        super().__init__("ray")
        self.actors: dict[str, Actor] = {}
        self.disks = {"m0": True, "m1": True}
        self.token, self.dashboard = True, b""
        self.exceptions = ModuleType("ray.exceptions")
        for name, above in (("GetTimeoutError", ""), ("RayActorError", ""), ("ActorDiedError", "RayActorError")):
            setattr(self.exceptions, name, type(name, (getattr(self.exceptions, above, Exception),), {}))
        self.exceptions.AuthenticationError = AuthenticationError  # type: ignore[attr-defined]
        self.util = ModuleType("ray.util")
        self.util.list_named_actors = lambda all_namespaces: [  # type: ignore[attr-defined]
            {"name": name, "namespace": "irlcrawl"} for name in self.actors
        ]
        self._raylet = ModuleType("ray._raylet")
        self._raylet.GcsClient = self._client  # type: ignore[attr-defined]

    def _client(self, address: str) -> Any:
        if not self.token:
            raise AuthenticationError
        return SimpleNamespace(internal_kv_get=lambda key, namespace: self.dashboard)

    def init(self, **options: Any) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"Alive": alive, "Resources": {"CPU": 1.0, f"disk:{name}": 1.0}, "NodeManagerAddress": "10.0.0.1"}
            for name, alive in self.disks.items()
        ]

    def remote(self, kind: type) -> Any:
        def options(**given: Any) -> Any:
            def make(spec: Any) -> Actor:
                return self.actors.setdefault(given["name"], Actor(spec, given))

            return SimpleNamespace(remote=make)

        return SimpleNamespace(options=options)

    def wait(self, asked: list[Any], num_returns: int, timeout: float) -> None:
        pass

    def get(self, asked: Any, timeout: float) -> Any:
        if isinstance(asked, Exception):
            raise asked
        return asked

    def get_actor(self, name: str, namespace: str) -> Actor:
        return self.actors[name]

    def kill(self, actor: Actor, no_restart: bool) -> None:
        assert no_restart
        self.actors = {name: one for name, one in self.actors.items() if one is not actor}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    played = PlayedRay()
    for name in ("ray", "ray.exceptions", "ray.util", "ray._raylet"):
        monkeypatch.setitem(sys.modules, name, played if name == "ray" else getattr(played, name[4:]))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    monkeypatch.setattr(on_ray, "knock", lambda address: stranger.SHUT)
    return played


@pytest.fixture
def address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def machines(ray: PlayedRay, address: str, tmp_path: Path) -> Iterator[on_ray.OnRay]:
    with on_ray.OnRay(tmp_path, access.filled(Cluster(ray=address), tmp_path)) as made:
        yield made


def test_each_machine_gets_one_actor_which_stays_with_its_disk(ray: PlayedRay, machines: on_ray.OnRay) -> None:
    for _ in range(2):
        assert [(one.name, one.actor, one.look is not None) for one in machines.up()] == [
            ("m0", True, True), ("m1", True, True),
        ]  # fmt: skip
    assert len(ray.actors) == 2
    for name, actor in zip(("m0", "m1"), ray.actors.values(), strict=True):
        assert actor.options["resources"] == {f"disk:{name}": 1} and actor.options["num_cpus"] == 0
        assert actor.options["max_restarts"] == -1 and actor.options["lifetime"] == "detached"
        assert actor.spec.name == name and actor.spec.frontier == "127.0.0.1:7117" and len(actor.spec.secret) == 64
        assert actor.spec.directory.startswith("~/irlcrawl/") and actor.spec.directory.endswith(f"/{name}")


def test_machines_are_added_and_sent_home_by_name(ray: PlayedRay, machines: on_ray.OnRay) -> None:
    machines.up(["m1"])
    assert [(one.name, one.actor) for one in machines.standing()] == [("m0", False), ("m1", True)]
    machines.up(["m0"])
    (one,) = [actor for name, actor in ray.actors.items() if name.endswith("/m0")]
    assert machines.down(["m0"]) == [("m0", True)] and one.ended
    assert [(one.name, one.actor) for one in machines.standing()] == [("m0", False), ("m1", True)]
    with pytest.raises(ConfigError, match=r"no machine m7 .*--resources='\{\"disk:m7\": 1\}'"):
        machines.up(["m7"])


def test_a_machine_that_is_gone_is_shown_and_not_waited_for(ray: PlayedRay, machines: on_ray.OnRay) -> None:
    machines.up()
    ray.disks["m1"] = False
    assert [(one.name, one.address, one.actor, one.look is None) for one in machines.standing()] == [
        ("m0", "10.0.0.1", True, False), ("m1", "", True, True),
    ]  # fmt: skip
    assert machines.down() == [("m0", True), ("m1", False)] and not ray.actors


def test_a_machine_without_irlcrawl_says_so(
    ray: PlayedRay, machines: on_ray.OnRay, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told to be waiting for Ray."""
    machines.up()
    died = ray.exceptions.ActorDiedError(
        "The actor died\n  System error\nModuleNotFoundError: No module named 'irlcrawl'\n"
    )
    for actor in ray.actors.values():
        monkeypatch.setattr(actor.look, "remote", lambda: died)
    verbs_cluster._tell_machines(machines.standing(), None)
    line = "10.0.0.1; nothing can be started there: ModuleNotFoundError: No module named 'irlcrawl'"
    assert capsys.readouterr().out.splitlines() == [f"m0: {line}", f"m1: {line}"]


def test_actors_of_other_crawls_are_not_ours(ray: PlayedRay, machines: on_ray.OnRay) -> None:
    ray.actors["other-01234567/m0"] = Actor(SimpleNamespace(directory=""), {})
    assert not machines.down() and "other-01234567/m0" in ray.actors


def test_no_disk_says_how_to_name_one(ray: PlayedRay, machines: on_ray.OnRay) -> None:
    ray.disks = {}
    with pytest.raises(ConfigError, match=r"has a disk: on each, RAY_AUTH_MODE=token ray start"):
        machines.up()
    ray.disks = {"a b": True}
    with pytest.raises(ConfigError, match="takes letters"):
        machines.up()


@pytest.mark.parametrize(
    ("knocked", "what"), [(stranger.OPEN, "runs what anybody sends it"), (stranger.UNKNOWN, "no Ray cluster answers")]
)
def test_a_cluster_that_was_not_seen_to_refuse_a_stranger_is_refused(
    ray: PlayedRay, address: str, monkeypatch: pytest.MonkeyPatch, knocked: int, what: str
) -> None:
    monkeypatch.setattr(on_ray, "knock", lambda address: knocked)
    with pytest.raises(ConfigError, match=what):
        on_ray.check(address)


def test_another_token_is_told(ray: PlayedRay, address: str) -> None:
    ray.token = False
    with pytest.raises(ConfigError, match="has another token than this machine"):
        on_ray.check(address)


@pytest.mark.parametrize(("dashboard", "fit"), [(b"", True), (b"127.0.0.1:8265", True), (b"10.0.0.1:8265", False)])
def test_a_dashboard_that_others_can_open_is_refused(ray: PlayedRay, address: str, dashboard: bytes, fit: bool) -> None:
    ray.dashboard = dashboard
    if fit:
        on_ray.check(address)
    else:
        with pytest.raises(ConfigError, match=r"open to other machines at 10\.0\.0\.1:8265: start Ray with"):
            on_ray.check(address)


def test_ray_shows_its_token_and_sends_no_statistics(ray: PlayedRay, address: str) -> None:
    on_ray.check(address)
    import os

    assert os.environ["RAY_AUTH_MODE"] == "token" and os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_stranger_has_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/secret")
    seen: dict[str, Any] = {}

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        seen.update(env)
        return SimpleNamespace(returncode=stranger.SHUT)

    monkeypatch.setattr(subprocess, "run", run)
    assert on_ray.knock("127.0.0.1:1") == stranger.SHUT
    assert {name: value for name, value in seen.items() if "RAY_AUTH" in name} == {"RAY_AUTH_MODE": "disabled"}


def test_without_ray_its_package_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'irlcrawl\[cluster\]'"):
        on_ray.check(address)


def test_the_crawl_has_it_done_in_another_process(tmp_path: Path) -> None:
    seen = []

    def run(command: list[str], **_: Any) -> Any:
        seen.append(command)
        return SimpleNamespace(returncode=4)

    assert on_ray.beside("up", tmp_path, Cluster(ray="10.0.0.1:1", node_workers=2), run) == 4
    assert seen[0][1:] == [
        "-m", "irlcrawl", "cluster", "up", str(tmp_path), "-scluster.ray=10.0.0.1:1", "-scluster.node_workers=2",
    ]  # fmt: skip


def test_a_crawl_whose_ray_is_not_there_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_ray, "beside", lambda action, job, keys: 4)
    words = [
        "crawl",
        str(tmp_path / "job"),
        "http://a.test/",
        "--ray",
        "10.0.0.1:1",
        "--user-agent",
        "x (https://x.y/)",
    ]
    assert main.main(words) == ExitCode.CONFIG
    assert "no crawl without its machines" in capsys.readouterr().err and not (tmp_path / "job").exists()


@pytest.mark.parametrize("action", ["up", "status", "down"])
def test_a_directory_without_a_crawl_gets_no_machines(
    ray: PlayedRay, tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    assert main.main(["cluster", action, str(tmp_path), "--ray", "127.0.0.1:1"]) == ExitCode.FAILED
    assert "no crawl here" in capsys.readouterr().err and not list(tmp_path.iterdir())
    code, said = main.main(["cluster", action, str(tmp_path)]), capsys.readouterr().err
    if action == "status":  # it changes nothing, so JOB may be looked at first
        assert code == ExitCode.FAILED and "no crawl here" in said
    else:
        assert code == ExitCode.CONFIG and "no Ray cluster is named" in said


def test_a_ray_that_a_strangers_job_names_is_not_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be given the user's token, and its answers are unpickled."""
    (tmp_path / "irlcrawl.toml").write_text(to_toml(Config(cluster=Cluster(ray="10.6.6.6:6379"))))
    for action in ("check", "up", "status", "down"):
        assert main.main(["cluster", action, str(tmp_path)]) == ExitCode.CONFIG
        assert "who answers there gets your token" in capsys.readouterr().err


def test_a_crawl_on_one_machine_loads_none_of_it() -> None:
    """Nor does the command line, before a verb needs it."""
    script = (
        "import sys, irlcrawl.cli.main, irlcrawl.crawl.start, irlcrawl.crawl.supervisor\n"
        "print([name for name in sys.modules if name.startswith(('ray', 'irlcrawl.cluster'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
