"""A crawl whose machines are those of a real Ray cluster: two raylets on this machine, each with a disk of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Serve
from webcrawl import Crawl, Tree, outcomes, responses, warcs

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main
from tools.docsweb import audit

pytestmark = pytest.mark.slow
pytest.importorskip("ray")

GAP_S = 0.1
HOSTS = {f"h{n}.test": f"127.68.0.{n + 1}" for n in range(8)}
PAGES = 150
ROOT = Path(__file__).parents[2]


class Ray:
    """Raylets m0 (with Ray's head) and m1."""

    def __init__(self, path: Path, token: bool = True) -> None:
        self.path = path
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        (path / "token").write_text(secrets.token_hex(32))
        (path / "token").chmod(0o600)
        self.env = {
            "RAY_AUTH_MODE": "token" if token else "disabled", "RAY_AUTH_TOKEN_PATH": str(path / "token"),
            "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        self.temporary = tempfile.mkdtemp(prefix="ray")  # a short one: sockets lie there
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.start("m0")

    def start(self, name: str) -> None:
        port = self.address.partition(":")[2]
        where = ["--head", f"--port={port}", f"--temp-dir={self.temporary}", "--include-dashboard=false"]
        words = where if name == "m0" else [f"--address={self.address}"]
        words += ["--block", "--num-cpus=0", "--object-store-memory=80000000", f'--resources={{"disk:{name}": 1}}']
        with (self.path / f"{name}.out").open("ab") as out:
            self.nodes[name] = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", *words], stdout=out, stderr=out,
                stdin=subprocess.DEVNULL, env=os.environ | self.env,
            )  # fmt: skip
        self.wait(lambda: b"Ray runtime started" in (self.path / f"{name}.out").read_bytes())

    def wait(self, until: Callable[[], object]) -> None:
        for _ in range(600):
            if until():
                return
            time.sleep(0.1)
        raise AssertionError(self.said())

    def below(self, name: str, called: str = "") -> list[psutil.Process]:
        """Processes of a node of Ray."""
        return [
            one for one in psutil.Process(self.nodes[name].pid).children(recursive=True)
            if called in _line(one)
        ]  # fmt: skip

    def kill_actor(self, name: str) -> None:
        self.wait(lambda: self.below(name, "ray::Machine"))
        self.below(name, "ray::Machine")[0].kill()

    def kill_raylet(self, name: str) -> None:
        """The raylet and all that Ray runs there, but not what the actor started: that ends by itself."""
        nodes = self.below(name, "worker-node")
        raylet = next(one for one in self.below(name) if one.name() == "raylet")
        raylet.kill()
        self.wait(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in nodes))
        self.nodes[name].wait(60)

    def end(self) -> None:
        for name, node in reversed(self.nodes.items()):
            left = self.below(name) if node.poll() is None else []
            for one in (*left, node):
                one.kill()
            node.wait()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def said(self) -> str:
        return "".join(path.read_text()[-2000:] for path in sorted(self.path.glob("m*.out")))


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ray]:
    made = Ray(tmp_path)
    for key, value in made.env.items():
        monkeypatch.setenv(key, value)
    try:
        made.start("m1")
        yield made
    finally:
        made.end()


def test_a_cluster_that_answers_without_a_token_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ray = Ray(tmp_path, token=False)
    try:
        words = ["crawl", str(tmp_path / "job"), "http://h0.test/", "--ray", ray.address]
        assert main.main([*words, "--user-agent", "test (https://test.test/)"]) == ExitCode.CONFIG
    finally:
        ray.end()
    assert "this Ray cluster runs what anybody sends it" in capfd.readouterr().err
    assert not (tmp_path / "job").exists()


def _line(process: psutil.Process) -> str:
    """By which it was called; nothing of one that has ended, and that its parent has not heard of yet."""
    try:
        return " ".join(process.cmdline() or [process.name()])
    except psutil.NoSuchProcess:
        return ""


def crawl_of(serve: Serve, ray: Ray, job: Path, tmp_path: Path) -> tuple[Crawl, set[str], Path]:
    """A crawl on all machines of Ray, the URLs it is to fetch, and the log of the requests for them."""
    tree = Tree(PAGES)
    web = serve(tree, HOSTS)
    settings = {
        "politeness.gap_host_seconds": GAP_S, "politeness.gap_host_factor": 0, "politeness.gap_address_seconds": 0,
        "crawl.workers": 1, "cluster.ray": ray.address, "cluster.directory": tmp_path / "machines",
        "cluster.node_workers": 1, "cluster.listen": "127.68.1.1:7117",
    }  # fmt: skip
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings)
    return crawl, {web.url(host, target) for host in HOSTS for target in tree.targets()}, web.log


def test_kills_of_actors_raylets_and_the_frontier_lose_nothing(
    serve: Serve, ray: Ray, job: Path, tmp_path: Path
) -> None:
    crawl, expected, log = crawl_of(serve, ray, job, tmp_path)
    running = crawl.start()
    ray.wait(lambda: ray.below("m1", "worker-node") or running.process.poll() is not None)
    time.sleep(3.0)
    ray.kill_actor("m1")
    time.sleep(3.0)
    ray.kill_raylet("m1")
    ray.start("m1")
    time.sleep(3.0)
    assert running.process.poll() is None, "the kills came while it ran"
    running.kill()
    ended = crawl.start_again().wait(240)
    assert ended.code == 0, ended.output + ray.said()
    assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
    here = Counter[str]()
    machines = sorted((tmp_path / "machines").glob("*/m?"))
    for directory in (job, *machines):
        here += responses(directory)
    assert set(here) == expected, "every page is in an archive"
    assert [bool(warcs(directory)) for directory in machines] == [True, True], "both machines worked"
    asked = Counter(request.url for request in audit.read(log) if not request.url.endswith("/robots.txt"))
    assert sum(asked.values()) - len(expected) <= 4 * len(HOSTS)
    assert audit.closest(audit.read(log), "host") >= GAP_S
    ray.wait(lambda: not ray.below("m0", "ray::Machine") and not ray.below("m1", "ray::Machine"))


def test_machines_are_sent_home_and_added_and_the_crawl_ends_on_one(
    serve: Serve, ray: Ray, job: Path, tmp_path: Path
) -> None:
    crawl, expected, log = crawl_of(serve, ray, job, tmp_path)
    running = crawl.start()
    ray.wait(lambda: ray.below("m1", "worker-node") or running.process.poll() is not None)
    time.sleep(3.0)
    assert "m1: has handed over what it had" in irlcrawl("cluster", "down", str(job), "m1")
    assert not ray.below("m1", "worker-node")
    assert "m1: " in (told := irlcrawl("cluster", "status", str(job))) and "does not fetch for this crawl" in told
    time.sleep(1.0)
    assert "archives in " in irlcrawl("cluster", "add", str(job), "m1")
    time.sleep(3.0)
    assert irlcrawl("cluster", "status", str(job)).count("; here, 1 worker, ") == 2
    assert running.process.poll() is None, "all this came while it ran"
    irlcrawl("stop", str(job))
    running.wait(30)
    ray.wait(lambda: not ray.below("m0", "ray::Machine") and not ray.below("m1", "ray::Machine"))
    alone = [sys.executable, "-m", "irlcrawl", "crawl", str(job), "--ray", "", "--cluster-listen", "", "--quiet"]
    subprocess.run(alone, check=True, capture_output=True, timeout=240)
    assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
    asked = Counter(request.url for request in audit.read(log) if not request.url.endswith("/robots.txt"))
    assert sum(asked.values()) - len(expected) <= 3 * len(HOSTS)
    assert audit.closest(audit.read(log), "host") >= GAP_S
    assert "on machine m1" in irlcrawl("fsck", str(job), "--quiet")


def irlcrawl(*words: str) -> str:
    """What a verb says; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "irlcrawl", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout
