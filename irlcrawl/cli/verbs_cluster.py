"""The verbs of other machines: `worker-node`, which runs there, and `cluster`, which has Ray run it there. Heavy
modules are imported by the verbs that need them."""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import re
import signal
import socket
import sys
from typing import Any

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, command
from irlcrawl.cli.open_files import allow_all
from irlcrawl.config import commands
from irlcrawl.config.checks import absolute
from irlcrawl.config.keys import ConfigError
from irlcrawl.config.toml import load, load_stored
from irlcrawl.crawl.control import ask
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import reader_may_leave, unheard

_PR_SET_PDEATHSIG = 1


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
    parser.add_argument(
        "--parent", metavar="PID", type=int, help="end at once when the process PID does, which must have started this"
    )


def worker_node(args: argparse.Namespace) -> int:
    """Work for a crawl on another machine until that ends. ConfigError, JobError, OSError, Damaged."""
    import asyncio

    from drum import Files  # first: it sees to how numpy sorts

    import uvloop

    from irlcrawl.cluster import node, tcp
    from irlcrawl.worker.fetch.process import Process, start_worker

    place, secret = tcp.place_of(args.frontier, "--frontier"), tcp.read_secret(args.token_file)
    if args.cert is None and not tcp.is_loopback(place[0]):
        raise ConfigError(f"--frontier {args.frontier}: another machine is only spoken to under TLS: --cert FILE")
    tls = tcp.client_tls(args.cert) if args.cert is not None else None
    name = args.name or socket.gethostname().replace("-", "_")
    if not re.fullmatch(r"[A-Za-z0-9._]{1,64}", name):
        raise ConfigError(f"--name {name}: takes letters, digits, '.' and '_', at most 64: archives are called by it")
    if args.workers < 0:
        raise ConfigError(f"--workers {args.workers}: takes a whole number, at least 0")
    if args.parent is not None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != args.parent:
            raise ConfigError(f"--parent {args.parent}: not the process that started this one, or it ended already")
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

        leave, places = asyncio.Event(), args.workers or os.cpu_count() or 1
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, leave.set)
        return await node.serve(job, name, connect, SystemClock(), start, places, Files(), leave)

    with job:
        why = uvloop.run(serve())
    with unheard(sys.stdout):
        print(f"{name}: {why}")
    if why == node.NO_ROOM:
        return ExitCode.DISK_FULL
    return ExitCode.DONE if why in (node.OVER, node.LEFT) else ExitCode.FAILED


def cluster_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="up|add|status|down|check", choices=("up", "add", "status", "down", "check"),
        help="up: have every machine with a disk (Ray's resource disk:NAME) fetch for the crawl; add: have these do "
        "so, too; status: each machine, as Ray and as the crawl see it; down: send all home, or these; check: whether "
        "strangers could use this Ray cluster",
    )  # fmt: skip
    parser.add_argument("job", metavar="JOB", help="directory of the crawl")
    parser.add_argument("names", metavar="NAME", nargs="*", default=[], help="a machine: the NAME of its disk:NAME")
    parser.add_argument("--ray", metavar="HOST:PORT", help="where the Ray cluster is (default: JOB's cluster.ray)")
    parser.add_argument(
        "-s", dest="set", metavar="SECTION.KEY=VALUE", action="append", default=[],
        help="value of one configuration key, as `crawl` takes it",
    )  # fmt: skip


def cluster(args: argparse.Namespace) -> int:
    """See to the machines of a Ray cluster. ConfigError, JobError, OSError."""
    from irlcrawl.cluster import access, on_ray

    job = JobDir(args.job)
    if args.action == "status":
        job.require()
    typed = load(None, args.set).cluster.ray if args.ray is None else args.ray
    config = load(None, args.set, base=load_stored(job.config_file) if job.exists() else None)
    if config.cluster.ray and not typed:
        commands.check(job.path, {"cluster.ray": config.cluster.ray})
    config.cluster.ray = typed or config.cluster.ray
    absolute(config)
    if not config.cluster.ray:
        others = f"; machines of worker-node: {command('status', args.job)}" if args.action == "status" else ""
        raise ConfigError(f"no Ray cluster is named: --ray HOST:PORT, or the key cluster.ray{others}")
    if args.action == "add" and not args.names:
        raise ConfigError("add: which machine? NAME of its resource disk:NAME")
    if args.action == "check":
        on_ray.check(config.cluster.ray)
        with unheard(sys.stdout):
            print(
                f"{config.cluster.ray}: this Ray cluster answers nobody without its token, and shows strangers nothing"
            )
        return ExitCode.DONE
    if not job.is_locked():  # else by the start of a crawl, which has this run for it
        job.require()
    record = ask(job.socket, "status") if job.exists() else None
    with on_ray.OnRay(job.path, access.filled(config.cluster, job.path)) as machines, reader_may_leave():
        match args.action:
            case "down":
                for name, whole in machines.down(args.names):
                    kept = "has handed over what it had" if whole else "ended; what it had waits on its disk"
                    print(f"{name}: {kept}")
            case "status":
                _tell_machines(machines.standing(), record)
            case _:
                _tell_machines(machines.up(args.names), record)
                if record is None and not job.is_locked():
                    print(f"they wait for the crawl: {command('crawl', args.job, '--ray', config.cluster.ray)}")
    return ExitCode.DONE


def _tell_machines(found: list[Any], record: dict[str, Any] | None) -> None:
    """A line a machine. found: on_ray.Standing; record: of a running crawl."""
    known = {one["name"]: one for one in (record or {}).get("machines") or ()}
    for one in found:
        crawl = known.get(one.name)
        told = [
            one.address or "not in the Ray cluster now", _of_actor(one),
            "" if crawl is None else f"{crawl['state']}, {words.plural(crawl['workers'], 'worker')}, "
            f"{words.plural(crawl['visits'], 'visit')}, {words.size(crawl['shipped_bytes'])} shipped",
        ]  # fmt: skip
        print(words.shown(f"{one.name}: {'; '.join(filter(None, told))}"))


def _of_actor(one: Any) -> str:
    if not one.actor:
        return "does not fetch for this crawl"
    if one.why:
        return f"nothing can be started there: {one.why}"
    if one.look is None:
        return "waits for Ray: another crawl has its disk, or it is being started again"
    if one.look["pid"] is None:
        return f"its process ended with {one.look['status']}: {' '.join(one.look['said'][-1:])}"
    return f"process {one.look['pid']}, archives in {one.look['directory']}"
