"""`python -m bench machines [--kills N]`: a crawl of docsweb by several machines, and what kills of them cost it.

Machines are processes with directories of their own (`irlcrawl worker-node`), which reach the frontier over TLS on
loopback; all is done by the real command line. At N moments drawn from a seed something is killed with SIGKILL: a
worker of a machine, a machine, the frontier with its own worker, or everything at once; what was killed is started
again by the same command. Then nginx's access log and the WARC files of all machines together (read by warcio, and by
`irlcrawl verify`) say what became of the crawl:

`recall`          share of the oracle's URLs that were answered
`lost`, `twice`, `repeated`, `broken_records`, `early_requests`: as in `bench crash`
`in_flight`       visits that were open when something was killed, or when the machines noticed that the frontier is
                  another process now: at most so many URLs may be repeated
`per_machine`     pages in the archives of each; the frontier's own worker is the first
`verify`          exit code of `irlcrawl verify` on all archives in one directory

It ends with 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import _jobs, crash
from bench.crawl import ours, tree
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cluster.access import make_certificate
from tools.docsweb import audit, oracle, serve
from tools.options import amount, whole

KINDS = ("worker", "machine", "frontier", "all")
WEIGHTS = (3, 3, 2, 1)
NOTICED_S = 15.0
"""After the start of a frontier: within so long machines find that it is another process, and drop what they ask."""
END_S = 30.0


def main(argv: list[str]) -> int:
    return _jobs.run(measure, _options(argv), "machines", broken_promises)


def broken_promises(told: dict[str, Any]) -> list[str]:
    """The promises that a result breaks, in words."""
    wrong = _jobs.not_zero(told, (*crash.NONE_OF_THESE, "verify"))
    if told["repeated"] > told["in_flight"]:
        wrong.append(f"{told['repeated']} requests were repeated, and {told['in_flight']} were in flight")
    return wrong


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _jobs.parser("machines", __doc__)
    parser.add_argument("--machines", type=whole(1), default=4, help="beside the frontier's (default %(default)s)")
    parser.add_argument("--kills", type=whole(0), default=0, help="default: none")
    parser.add_argument("--every", type=amount(), default=3.0, help="seconds between kills, on average (%(default)s)")
    parser.add_argument("--mirrors", type=whole(0), default=8, help="of each docsweb set (default %(default)s)")
    parser.add_argument("--sets", default="all", help="docsweb sets or groups (default %(default)s)")
    parser.add_argument("--addresses", type=whole(1), default=40, help="of all hosts together (default %(default)s)")
    parser.add_argument("--seed", type=whole(0), default=1)
    return parser.parse_args(argv)


def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One crawl with its kills. Raises DocswebError and tree.CrawlFailed."""
    directory.mkdir(parents=True, exist_ok=True)
    with serve.running(directory / "web", options.sets, mirrors=options.mirrors, addresses=options.addresses) as web:
        with ExitStack() as ends:
            cluster = Cluster(directory, web, options.machines, ends)
            kills = _crawl(cluster, options)
        requests, expected = web.requests(), oracle.expected(web)
    homes = [JobDir(path).warcs for path in (directory / "job", *cluster.directories)]
    written: dict[str, list[float]] = {}
    broken, per_machine = 0, []
    for home in homes:
        found, bad = crash.archive(home)
        broken += bad
        per_machine.append(sum(not url.endswith("/robots.txt") for url in found))
        for url, dates in found.items():
            written.setdefault(url, []).extend(dates)
    told = crash.judge(requests, expected, written, broken, kills)
    return {
        **told, "bench": "machines", "recall": audit.report(requests, expected, set())["recall"],
        "in_flight": told["open_visits"] + _dropped(requests, kills), "per_machine": per_machine,
        "archives": sum(len(list(home.iterdir())) for home in homes), "verify": _verify(directory / "all", homes),
    }  # fmt: skip


@dataclass
class Cluster:
    """The frontier and its machines, as processes that can be killed and started again."""

    directory: Path
    web: serve.Web
    count: int
    ends: ExitStack
    machines: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directories = [self.directory / f"m{number}" for number in range(self.count)]
        self.secret, self.cert, key = (self.directory / name for name in ("secret", "cert.pem", "key.pem"))
        cert, private = make_certificate()
        for path, data in ((self.secret, secrets.token_hex(32).encode()), (self.cert, cert), (key, private)):
            path.write_bytes(data)
            path.chmod(0o600)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.place = f"127.0.0.1:{probe.getsockname()[1]}"
        settings = crash.SETTINGS | {
            "cluster.listen": self.place, "cluster.token_file": self.secret, "cluster.tls_cert": self.cert,
            "cluster.tls_key": key,
        }  # fmt: skip
        self.command = ours.command(self.web, self.directory / "job", 1, settings, [])
        self.output = self.directory / "said.txt"
        self.ends.callback(self.end)
        self.frontier = self._start(self.command)
        for number in range(self.count):
            self.start(number)

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as said:
            return subprocess.Popen(words, stdout=said, stderr=said, stdin=subprocess.DEVNULL, process_group=0)

    def start(self, number: int) -> None:
        words = [sys.executable, "-m", "irlcrawl", "worker-node", str(self.directories[number]), "--workers", "1"]
        words += ["--frontier", self.place, "--token-file", str(self.secret), "--cert", str(self.cert)]
        self.machines[number] = self._start([*words, "--name", f"m{number}"])

    def restart(self) -> None:
        self.frontier = self._start(self.command)

    def kill(self, kind: str, draw: random.Random) -> None:
        """Kill, and start again, all but the frontier: _crawl sees that it is gone."""
        number = draw.randrange(self.count)
        if kind == "worker":
            workers = [pid for pid in tree.descendants(self.machines[number].pid) if ours.is_worker(pid)]
            for pid in workers[:1]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if kind in ("frontier", "all"):
            tree.end(self.frontier)
        numbers = {"machine": [number], "all": list(self.machines)}.get(kind, [])
        for one in numbers:
            tree.end(self.machines[one])
        for one in numbers:
            self.start(one)

    def end(self) -> None:
        for process in (self.frontier, *self.machines.values()):
            tree.end(process)


def _crawl(cluster: Cluster, options: argparse.Namespace) -> crash.Kills:
    """Until it ends by itself after the last kill, and the machines, who are told, do."""
    draw, kills = random.Random(options.seed), crash.Kills()
    moments = [draw.uniform(0.2, 2.0) * options.every for _ in range(options.kills)]
    kinds = draw.choices(KINDS, WEIGHTS, k=options.kills)
    deadline = time.monotonic() + crash.SECONDS_MAX
    while True:
        wait = moments[len(kills.done)] if len(kills.done) < options.kills else crash.SECONDS_MAX
        try:
            code = cluster.frontier.wait(max(0.0, min(wait, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise tree.CrawlFailed(f"no end within {crash.SECONDS_MAX:.0f} s") from None
            kind = kinds[len(kills.done)]
            kills.done.append((kind, time.time()))
            cluster.kill(kind, draw)
            if cluster.frontier.returncode is None:
                continue
            kills.starts.append(time.time())
            print(f"bench machines: {len(kills.done)} kills", file=sys.stderr, flush=True)
        else:
            kills.codes.append(code)
            if code == ExitCode.DONE:
                for process in cluster.machines.values():
                    process.wait(END_S)
                return kills
            if code != ExitCode.LOCKED:  # somebody of the last one was still there
                raise tree.CrawlFailed(f"exit code {code}:\n{cluster.output.read_text()[-tree.OUTPUT_SHOWN :]}")
        cluster.restart()


def _dropped(requests: list[audit.Request], kills: crash.Kills) -> int:
    """Requests that machines may have dropped when they found the frontier to be another process: one an address."""
    return sum(len({r.address for r in requests if at <= r.start <= at + NOTICED_S}) for at in kills.starts)


def _verify(together: Path, homes: list[Path]) -> int:
    """The exit code of `irlcrawl verify` on the archives of all machines in one directory."""
    together.mkdir()
    for home in homes:
        for path in home.iterdir():
            os.link(path, together / path.name)
    words = [sys.executable, "-m", "irlcrawl", "verify", str(together), "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        print(f"bench machines: {done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
    return done.returncode
