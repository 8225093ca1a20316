"""Serving the sets: nginx for the files, dnsmasq for the names, both as daemons that `down` ends by their pid files.

Everything about a running web lies in its directory: configuration, pid files, logs, `docsweb.json` (which `reach`,
`audit` and `down` read), `seeds.txt` and a `crawl.toml` with the network part of a crawl's configuration. With TLS,
every host is served under https and nothing else, by certificates of an authority made for this web (`tls.py`), with
sessions that clients may resume.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.docsweb.conf import write_files
from tools.docsweb.sets import DocSet, DocswebError, cache_dir, chosen, entries, robots_text, unpacked
from tools.docsweb.web import PORTS, Host, ServedSet, Web

STATE = "docsweb.json"
ADDRESSES_MAX = 4096
STOP_SECONDS = 10


def up(
    directory: Path,
    names: str = "all",
    *,
    mirrors: int = 0,
    addresses: int = 0,
    port: int = 0,
    gzip: bool = True,
    https: bool = False,
    sites: bool = False,
) -> Web:
    """Brings a web up and returns it when both daemons answer.

    mirrors: hosts mN.NAME.test beside each NAME.test; with sites, NAME-mN.test, each a site of its own. addresses: in
    total, over which all hosts are dealt in turn; 0 is one per set. port: 0 takes 80 (443 with https) where that may be
    bound, else a free one. https: no plain http, and certificates that `directory`/tls/ca.pem vouches for. Raises
    DocswebError.
    """
    program("nginx"), program("dnsmasq")  # before anything is made
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / STATE).exists():
        raise DocswebError(f"{directory} already holds a docsweb; `down` it first")
    sets = chosen(names)
    roots, missing = unpacked(sets, cache_dir())
    sets = [s for s in sets if s.name in roots]
    if not sets:
        raise DocswebError("no documentation package could be had: " + "; ".join(missing.values()))
    pool = _addresses(directory, addresses or len(sets))
    mirror = "{0}-m{1}.test" if sites else "m{1}.{0}.test"
    served = _served(sets, roots, ["{0}.test", *([mirror] * mirrors)], pool, spread=bool(addresses))
    scheme = "https" if https else "http"
    bound = _free_port(pool, port, PORTS[scheme])
    web = Web(directory, bound, _free_dns_port(), _network(pool), served, missing, scheme)
    write_files(web, gzip)
    try:
        start(directory)
        (directory / STATE).write_text(json.dumps(asdict(web) | {"directory": str(directory)}, indent=1))
    except BaseException:  # interrupted: `down` would not know it
        stop(directory)
        raise
    return web


def start(directory: Path) -> None:
    """Both daemons, as they were told before; neither when one does not start. Raises DocswebError."""
    nginx, dnsmasq = program("nginx"), program("dnsmasq")
    _run([nginx, "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(directory / "nginx.conf")])
    try:
        _run([dnsmasq, f"--conf-file={directory / 'dnsmasq.conf'}"])
    except DocswebError:
        _end(directory / "nginx.pid", "nginx")
        raise


def stop(directory: Path, names: Sequence[str] = ("nginx", "dnsmasq")) -> list[str]:
    """Ends daemons; returns those that ran. Everything else stays, for `start`."""
    return [name for name in names if _end(directory / f"{name}.pid", name)]


def load(directory: Path) -> Web:
    """The web that runs (or ran) in `directory`. Raises DocswebError."""
    try:
        data = json.loads((directory / STATE).read_text())
    except FileNotFoundError:
        raise DocswebError(f"{directory} holds no docsweb") from None
    sets = [ServedSet(**(s | {"hosts": [Host(**h) for h in s["hosts"]]})) for s in data["sets"]]
    return Web(**(data | {"directory": Path(data["directory"]), "sets": sets}))


def down(directory: Path) -> list[str]:
    """Ends the daemons of the web in `directory`; returns the names of those that ran. Logs stay, the state file
    goes."""
    directory = directory.absolute()
    ended = stop(directory)
    with contextlib.suppress(FileNotFoundError):
        (directory / STATE).unlink()
    return ended


@contextlib.contextmanager
def running(directory: Path, names: str = "all", **options: Any) -> Iterator[Web]:
    """`up`, and `down` when the block is left."""
    web = up(directory, names, **options)
    try:
        yield web
    finally:
        down(directory)


def program(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if found is None:
        package = "dnsmasq-base" if name == "dnsmasq" else f"{name}-light" if name == "nginx" else name
        raise DocswebError(f"the program {name} is missing: install it, on Debian with `apt-get install {package}`")
    return found


def _addresses(directory: Path, count: int) -> list[str]:
    """`count` loopback addresses in a row, 254 of each /24, from where the directory's hash says: two webs rarely
    meet."""
    if count > ADDRESSES_MAX:
        raise DocswebError(f"at most {ADDRESSES_MAX} addresses")
    digest = hashlib.sha256(os.fsencode(directory)).digest()
    first = (64 + digest[0] % 128) << 16 | (digest[1] if count <= 254 else 0) << 8
    numbers = (first + (n // 254 << 8) + n % 254 + 1 for n in range(count))
    return [f"127.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in numbers]


def _network(addresses: list[str]) -> str:
    """The /24 they all lie in, or else the /16."""
    parts = 3 if len(addresses) <= 254 else 2
    return ".".join(addresses[0].split(".")[:parts] + ["0"] * (4 - parts)) + f"/{8 * parts}"


def _served(
    sets: Sequence[DocSet], roots: dict[str, Path], names: list[str], pool: list[str], *, spread: bool
) -> list[ServedSet]:
    """The sets with their hosts: names are patterns of the set's name and the host's number."""
    served, dealt = [], 0
    for number, docs in enumerate(sets):
        hosts = []
        for name in (pattern.format(docs.name, n) for n, pattern in enumerate(names)):
            hosts.append(Host(name, pool[(dealt if spread else number) % len(pool)]))
            dealt += 1
        root = roots[docs.name]
        served.append(ServedSet(docs.name, docs.package, str(root), robots_text(docs), entries(root), hosts))
    return served


def _free_port(addresses: list[str], wanted: int, usual: int) -> int:
    """The wanted port, else the usual one where it may be bound, else one that is free on every address."""
    for port in [wanted] if wanted else [usual, *range(8080, 8180)]:
        with contextlib.ExitStack() as stack:
            try:
                for address in addresses:
                    sock = stack.enter_context(socket.socket())
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.bind((address, port))
                    sock.listen()
                return port
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
    raise DocswebError(
        f"port {wanted or f'{usual} and 8080 to 8179'} cannot be bound on {addresses[0]} and its neighbours"
    )


def _free_dns_port() -> int:
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind(("127.0.0.1", 0))
            port = int(udp.getsockname()[1])
            with contextlib.suppress(OSError):
                tcp.bind(("127.0.0.1", port))
                return port
    raise DocswebError("no port is free for the name server")


def _run(command: list[str]) -> None:
    """Starts a program that puts itself into the background once it serves. Raises DocswebError with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode:
        raise DocswebError(f"{Path(command[0]).name} did not start: {(done.stderr or done.stdout).strip()}")


def _end(pid_file: Path, name: str) -> bool:
    """Ends the daemon whose pid the file holds, if that pid is still the program, and waits until it is gone."""
    try:
        pid = int(pid_file.read_text())
        handle = os.pidfd_open(pid)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return False
    try:
        if name.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return False
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        gone = select.select([handle], [], [], STOP_SECONDS)[0]
        if not gone:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], STOP_SECONDS)
        pid_file.unlink(missing_ok=True)
        return True
    finally:
        os.close(handle)
