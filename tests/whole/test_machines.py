"""A crawl with workers on other machines: real processes with directories of their own, over TLS on loopback."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Serve
from webcrawl import Crawl, Running, Tree, log_entries, outcomes, responses, warcs

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli import main
from tools.docsweb import audit

pytestmark = pytest.mark.slow

GAP_S = 0.1
HOSTS = {f"h{n}.test": f"127.67.0.{n + 1}" for n in range(8)}
PAGES = 150


class Machines:
    """Nodes of one crawl, and how that is told of them."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.secret, self.cert, self.key = path / "secret", path / "cert.pem", path / "key.pem"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o600)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
             "1", "-subj", "/CN=irlcrawl", "-keyout", self.key, "-out", self.cert], check=True, capture_output=True,
        )  # fmt: skip
        with socket.socket() as probe:
            probe.bind(("127.67.1.1", 0))
            self.place = f"127.67.1.1:{probe.getsockname()[1]}"
        self.directories = [path / f"machine{number}" for number in range(count)]
        self.running: list[subprocess.Popen[bytes]] = [self.start(number) for number in range(count)]

    @property
    def settings(self) -> dict[str, object]:
        return {
            "cluster.listen": self.place, "cluster.token_file": self.secret, "cluster.tls_cert": self.cert,
            "cluster.tls_key": self.key,
        }  # fmt: skip

    def start(self, number: int) -> subprocess.Popen[bytes]:
        words = [
            "worker-node",
            str(self.directories[number]),
            "--frontier",
            self.place,
            "--token-file",
            str(self.secret),
        ]
        words += ["--cert", str(self.cert), "--name", f"m{number}", "--workers", "1"]
        with (self.path / f"m{number}.out").open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "irlcrawl", *words], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip

    def kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.running[number].pid, signal.SIGKILL)
        self.running[number].wait()

    def said(self) -> str:
        return "".join(path.read_text()[-2000:] for path in sorted(self.path.glob("m*.out")))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path, 4)
    yield made
    for number in range(4):
        made.kill(number)


def crawl_of(serve: Serve, machines: Machines, job: Path) -> tuple[Crawl, set[str], Path]:
    tree = Tree(PAGES)
    web = serve(tree, HOSTS)
    settings = {
        "politeness.gap_host_seconds": GAP_S, "politeness.gap_host_factor": 0, "politeness.gap_address_seconds": 0,
        "crawl.workers": 1, **machines.settings,
    }  # fmt: skip
    crawl = Crawl(job, web.resolver, [web.url(host) for host in HOSTS], settings)
    return crawl, {web.url(host, target) for host in HOSTS for target in tree.targets()}, web.log


def until_asked(running: Running, log: Path, requests: int) -> None:
    """While the crawl runs. A deadline of two minutes."""
    for _ in range(2400):
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(0.05)
        if log.exists() and log.read_bytes().count(b"\n") >= requests:
            return
    raise AssertionError(f"{requests} requests never came; {running.output.read_text()}")


def test_four_machines_fetch_everything_once(
    serve: Serve, machines: Machines, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl, expected, log = crawl_of(serve, machines, job)
    ended = crawl.run(240)
    assert ended.code == 0, ended.output + machines.said()
    assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
    here = Counter[str]()
    for directory in (job, *machines.directories):
        here += responses(directory)
    assert set(here) == expected and set(here.values()) == {1}
    assert sum(bool(warcs(directory)) for directory in machines.directories) == 4, "all of them worked"
    assert audit.closest(audit.read(log), "host") >= GAP_S
    assert [machine.wait(20) for machine in machines.running] == [0] * 4, machines.said()
    for directory in (job, *machines.directories):
        if warcs(directory):
            assert main.main(["verify", str(directory / "warcs"), "--quiet"]) == ExitCode.DONE
    capsys.readouterr()
    assert main.main(["fsck", str(job), "--quiet"]) == ExitCode.DONE
    assert "on machine m2" in capsys.readouterr().out
    away = next(entry for entry in log_entries(job) if entry.warc is not None and "+m2-" in entry.warc[0])
    assert main.main(["get", str(job), away.url.decode()]) == ExitCode.FAILED
    assert "which lies on the machine m2" in capsys.readouterr().err
    assert main.main(["status", str(job)]) == ExitCode.DONE
    assert "machine   m2: " in capsys.readouterr().out


def test_kills_of_machines_and_of_the_frontier_lose_nothing(serve: Serve, machines: Machines, job: Path) -> None:
    crawl, expected, log = crawl_of(serve, machines, job)
    running = crawl.start()
    for number in (0, 1):
        until_asked(running, log, 250 * (number + 1))
        machines.kill(number)
        machines.running[number] = machines.start(number)
    until_asked(running, log, 750)
    running.kill()
    ended = crawl.start_again().wait(300)
    assert ended.code == 0, ended.output + machines.said()
    assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
    asked = Counter(request.url for request in audit.read(log) if not request.url.endswith("/robots.txt"))
    assert sum(asked.values()) - len(expected) <= 3 * len(HOSTS)
    assert audit.closest(audit.read(log), "host") >= GAP_S


def test_the_same_job_goes_back_to_one_machine(serve: Serve, machines: Machines, job: Path) -> None:
    """Without the machines, one of which has died: what they had in hand is fetched again, and that is told."""
    crawl, expected, log = crawl_of(serve, machines, job)
    running = crawl.start()
    until_asked(running, log, 500)
    machines.kill(0)
    running.signal(signal.SIGINT)
    assert running.wait(30).code == ExitCode.INTERRUPTED
    crawl.settings["cluster.listen"] = ""
    ended = crawl.run(240)
    assert ended.code == 0, ended.output
    assert "given up, as nothing listens for machines (cluster.listen): m0" in ended.output
    assert {url for url, outcome in outcomes(job).items() if outcome == "fetched"} == expected
