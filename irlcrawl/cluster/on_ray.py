"""Machines of a Ray cluster as machines of a crawl: who is there, who is fit, and an actor on each (actor.py).

Ray does membership, placement and restarts, and hands over the secret. It carries no page and no link: those go over
tcp.py. A machine is a node of Ray that has a resource `disk:NAME`; NAME is what the crawl calls it, and its actor
can run nowhere else, because what it has not handed over lies on that disk.

The crawl's own process loads none of this: it has `irlcrawl cluster` run beside it (`beside`), whose work is done when
the actors are made, for they are detached. Ray runs what is sent to it, so a cluster that answers without a token, or
shows its dashboard to other machines, is not used.
"""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from irlcrawl.cluster import access, stranger
from irlcrawl.cluster.actor import END_S, Machine, Spec
from irlcrawl.cluster.tcp import is_loopback, place_of, read_secret
from irlcrawl.config.keys import Cluster, ConfigError

NAMESPACE = "irlcrawl"
DISK = "disk:"
NAME = re.compile(r"[A-Za-z0-9._]{1,64}")
CONNECT_S, TIMEOUT_S = 5.0, 60.0
LOOK_S = 15.0
"""So long an actor is waited for: its process has to load. One whose machine is full or gone waits on."""

START = "RAY_AUTH_MODE=token ray start --head --include-dashboard=false"
_MISSING = "machines on Ray need the package ray: pip install 'irlcrawl[cluster]'"


@dataclasses.dataclass(frozen=True)
class Standing:
    """A machine as Ray sees it. look: what its actor says (Machine.look); None: nothing yet."""

    name: str
    address: str
    actor: bool
    look: dict[str, Any] | None
    why: str = ""
    """Why its actor could not be made."""


def check(address: str) -> None:
    """Refuse a cluster that strangers could use. ConfigError, with the fix."""
    place = place_of(address)
    try:
        socket.create_connection(place, CONNECT_S).close()
    except OSError as error:
        raise ConfigError(
            f"cluster.ray = {address}: no Ray cluster answers there: {error.strerror or error}"
        ) from error
    ray = _ray()
    match knock(address):
        case stranger.OPEN:
            raise ConfigError(
                f"cluster.ray = {address}: this Ray cluster runs what anybody sends it: start it with token "
                f"authentication on every machine ({START}), and a token in ~/.ray/auth_token (ray get-auth-token "
                "--generate)"
            )
        case code if code != stranger.SHUT:
            raise ConfigError(f"cluster.ray = {address}: no Ray cluster answers there")
    from ray._raylet import GcsClient

    try:
        url = GcsClient(address=address).internal_kv_get(b"webui:url", b"dashboard")
    except ray.exceptions.AuthenticationError as error:
        raise ConfigError(
            f"cluster.ray = {address}: this Ray cluster has another token than this machine: copy ~/.ray/auth_token of "
            "its first machine here, or set RAY_AUTH_TOKEN_PATH"
        ) from error
    except Exception as error:
        raise ConfigError(f"cluster.ray = {address}: {str(error).splitlines()[0]}") from error
    shown = (url or b"").decode(errors="replace").removeprefix("http://").removeprefix("https://")
    if shown and not is_loopback(place_of(shown)[0]):
        raise ConfigError(
            f"cluster.ray = {address}: Ray's dashboard is open to other machines at {shown}: start Ray with "
            "--include-dashboard=false, or --dashboard-host=127.0.0.1"
        )


def knock(address: str) -> int:
    """What somebody without a token gets (stranger.py)."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("RAY_AUTH")}
    env |= {"RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-m", stranger.__name__, address]
    try:
        return subprocess.run(command, env=env, capture_output=True, timeout=TIMEOUT_S).returncode
    except subprocess.TimeoutExpired:
        return stranger.UNKNOWN


class OnRay:
    """A crawl's machines. keys: filled (access.py)."""

    def __init__(self, job: Path, keys: Cluster) -> None:
        """ConfigError."""
        check(keys.ray)
        self._keys, self._crawl, self._ray = keys, access.crawl_id(job, keys), _ray()
        try:
            self._ray.init(address=keys.ray, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        except Exception as error:  # another version of Ray or Python; no Ray on this machine
            raise ConfigError(f"cluster.ray = {keys.ray}: {error}") from error

    def __enter__(self) -> OnRay:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def machines(self) -> dict[str, str]:
        """Name -> address of those that have a disk. ConfigError if one is called what no archive can be."""
        found = {}
        for node in self._ray.nodes():
            for resource in node["Resources"] if node["Alive"] else ():
                if resource.startswith(DISK):
                    name = resource.removeprefix(DISK)
                    if not NAME.fullmatch(name):
                        raise ConfigError(
                            f"Ray's resource {resource}: takes letters, digits, '.' and '_', at most 64: archives are "
                            "called by it"
                        )
                    found[name] = node["NodeManagerAddress"]
        return dict(sorted(found.items()))

    def up(self, names: Iterable[str] = ()) -> list[Standing]:
        """An actor on each machine, or on those of `names`; those that have one keep it. ConfigError."""
        there, wanted = self.machines(), list(names)
        if missing := [name for name in wanted if name not in there]:
            raise ConfigError(
                f"no machine {', '.join(missing)} in the Ray cluster at {self._keys.ray}: there, "
                f"{_start(self._keys.ray, missing[0])}"
            )
        if not there:
            raise ConfigError(
                f"no machine of the Ray cluster at {self._keys.ray} has a disk: on each, "
                f"{_start(self._keys.ray, 'NAME')}"
            )
        for name in wanted or there:
            self._ray.remote(Machine).options(
                name=self._actor(name), lifetime="detached", get_if_exists=True, max_restarts=-1, num_cpus=0,
                resources={DISK + name: 1}, max_concurrency=4,
            ).remote(self._spec(name))  # fmt: skip
        return [one for one in self.standing() if not wanted or one.name in wanted]

    def standing(self) -> list[Standing]:
        """Each machine that is there or has an actor."""
        there, actors = self.machines(), dict(self._actors())
        asked = {name: handle.look.remote() for name, handle in actors.items() if name in there}
        self._ray.wait(list(asked.values()), num_returns=len(asked), timeout=LOOK_S) if asked else None
        return [
            Standing(name, there.get(name, ""), name in actors, *self._answer(asked.get(name)))
            for name in sorted({*there, *actors})
        ]

    def down(self, names: Iterable[str] = ()) -> list[tuple[str, bool]]:
        """End the actors, all or those of `names`. Each name, and whether its machine handed over what it had."""
        actors, there, wanted = dict(self._actors()), self.machines(), set(names)
        going = {name: handle for name, handle in actors.items() if name in wanted or not wanted}
        asked = {name: handle.end.remote() for name, handle in going.items() if name in there}
        self._ray.wait(list(asked.values()), num_returns=len(asked), timeout=2 * END_S) if asked else None
        told = [(name, bool(self._answer(asked.get(name))[0])) for name in sorted(going)]
        for handle in going.values():
            self._ray.kill(handle, no_restart=True)
        return told

    def _actors(self) -> Iterator[tuple[str, Any]]:
        for named in self._ray.util.list_named_actors(all_namespaces=True):
            crawl, _, name = named["name"].partition("/")
            if named["namespace"] == NAMESPACE and crawl == self._crawl:
                try:
                    yield name, self._ray.get_actor(named["name"], namespace=NAMESPACE)
                except ValueError:  # it went home meanwhile
                    continue

    def _answer(self, asked: Any) -> tuple[Any, str]:
        """What an actor answered, and why it could not be made. None: nothing yet, or it is being started again."""
        if asked is None:
            return None, ""
        try:
            return self._ray.get(asked, timeout=0), ""
        except self._ray.exceptions.ActorDiedError as error:
            return None, str(error).strip().splitlines()[-1].strip()
        except (self._ray.exceptions.GetTimeoutError, self._ray.exceptions.RayActorError):
            return None, ""

    def _actor(self, name: str) -> str:
        return f"{self._crawl}/{name}"

    def _spec(self, name: str) -> Spec:
        keys = self._keys
        directory = os.path.join(keys.directory, self._crawl, name)
        cert = Path(keys.tls_cert).read_bytes()
        return Spec(name, directory, access.reached_at(keys), read_secret(keys.token_file), cert, keys.node_workers)


def beside(action: str, job: Path, keys: Cluster, run: Callable[..., Any] = subprocess.run) -> int:
    """`irlcrawl cluster ACTION JOB` in a process of its own; its exit code. What it says goes to standard error."""
    default = Cluster()
    told = [
        f"-scluster.{field.name}={value}" for field in dataclasses.fields(keys)
        if (value := getattr(keys, field.name)) != getattr(default, field.name)
    ]  # fmt: skip
    command = [sys.executable, "-m", "irlcrawl", "cluster", action, str(job), *told]
    return int(run(command, stdin=subprocess.DEVNULL, stdout=2).returncode)


def _start(address: str, name: str) -> str:
    return f"""RAY_AUTH_MODE=token ray start --address={address} --resources='{{"{DISK}{name}": 1}}'"""


def _ray() -> Any:
    """Ray, told to show its token and to send no statistics. ConfigError."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
        import ray.exceptions
        import ray.util
    except ImportError:
        raise ConfigError(_MISSING) from None
    return ray
