"""The verb of other machines: `worker-node`, which runs there. What is heavy is imported when it runs."""

from __future__ import annotations

import argparse
import logging
import os
import re
import socket
import sys

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.cli.open_files import allow_all
from irlcrawl.config.keys import ConfigError
from irlcrawl.terminal.progress import unheard


def worker_node_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", metavar="DIR", help="where this machine's archives are to lie; made if it does not exist"
    )
    parser.add_argument(
        "--frontier", metavar="HOST:PORT", required=True, help="where the crawl listens: cluster.listen"
    )
    parser.add_argument("--token-file", metavar="FILE", required=True, help="the secret, as in cluster.token_file")
    parser.add_argument(
        "--cert", metavar="FILE", help="the frontier's certificate; none: only on the crawl's own machine"
    )
    parser.add_argument("--name", metavar="NAME", help="what this machine is called (default: its host name)")
    parser.add_argument("--workers", metavar="N", type=int, default=0, help="how many workers (default: one a core)")


def worker_node(args: argparse.Namespace) -> int:
    """Work for a crawl on another machine until that ends. ConfigError, JobError, OSError, Damaged."""
    from drum import Files  # first: it sees to how numpy sorts

    import uvloop

    from irlcrawl.cluster import node, tcp
    from irlcrawl.worker.fetch.process import Process, start_worker

    place, secret = tcp.place_of(args.frontier), tcp.read_secret(args.token_file)
    if args.cert is None and not tcp.is_loopback(place[0]):
        raise ConfigError(f"--frontier {args.frontier}: another machine is only spoken to under TLS: --cert FILE")
    tls = tcp.client_tls(args.cert) if args.cert is not None else None
    name = args.name or socket.gethostname().replace("-", "_")
    if not re.fullmatch(r"[A-Za-z0-9._]{1,64}", name):
        raise ConfigError(f"--name {name}: takes letters, digits, '.' and '_', at most 64: archives are called by it")
    if args.workers < 0:
        raise ConfigError(f"--workers {args.workers}: takes a whole number, at least 0")
    job = JobDir(args.directory)
    if job.exists():
        raise ConfigError(f"{job.path}: the JOB of a crawl; a machine's archives need a directory of their own")
    logging.basicConfig(stream=sys.stderr, format=f"{name}: %(message)s", level=logging.INFO)
    allow_all()

    def start(stream: int) -> tuple[Process, socket.socket]:
        return start_worker(job.path, job.lock_fds)

    async def serve() -> str:
        def connect(session: str) -> tcp.TcpCarrier:
            return tcp.TcpCarrier().keep(place, tls, secret, bytes.fromhex(session))

        return await node.serve(job, name, connect, SystemClock(), start, args.workers or os.cpu_count() or 1, Files())

    with job:
        why = uvloop.run(serve())
    with unheard(sys.stdout):
        print(f"{name}: {why}")
    return ExitCode.DONE if why == node.OVER else ExitCode.FAILED
