"""Serving the sets: nginx for the files, dnsmasq for the names, both as daemons that `down` ends by their pid files.

Everything about a running web lies in its directory: configuration, pid files, logs, `docsweb.json` (which `reach`,
`audit` and `down` read), `seeds.txt` and a `crawl.toml` with the network part of a crawl's configuration.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.docsweb import audit
from tools.docsweb.sets import DocSet, DocswebError, cache_dir, chosen, entries, robots_text, unpacked

STATE = "docsweb.json"
ACCESS_LOG = "access.log"
SETTLE_HOST = "settle.invalid"
STOP_SECONDS = 10

NGINX_CONF = """\
{user}worker_processes 1;
pid "{dir}/nginx.pid";
error_log "{dir}/error.log" warn;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 30s;
    keepalive_requests 1000000;
    gzip {gzip};
    gzip_comp_level 1;
    gzip_types text/plain text/css application/javascript;
    open_file_cache max=20000 inactive=600s;
    server_names_hash_max_size 65536;
    server_names_hash_bucket_size 128;
    client_body_temp_path "{dir}/tmp"; proxy_temp_path "{dir}/tmp"; fastcgi_temp_path "{dir}/tmp";
    uwsgi_temp_path "{dir}/tmp"; scgi_temp_path "{dir}/tmp";
    # $msec is the end of the exchange, $request_time its duration since the first byte of the request.
    log_format exchange escape=json '{{"end":$msec,"seconds":$request_time,"host":"$host","port":$server_port,'
        '"address":"$server_addr","status":$status,"method":"$request_method","uri":"$request_uri",'
        '"bytes":$bytes_sent,"agent":"$http_user_agent"}}';
    access_log "{dir}/access.log" exchange;
    # A request for a name that is not ours is answered, and shows in the log as the error it is.
    server {{ {listens_default} server_name _; return 421; }}
    server {{ {listens_settle} server_name {settle_host}; access_log off; keepalive_timeout 0; return 204; }}
{servers}}}
"""

SERVER = """\
    server {{
        {listens}
        server_name {names};
        root "{root}";
        index index.html;
        location = /robots.txt {{ {robots} }}
    }}
"""

DNSMASQ_CONF = """\
port={port}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
local=/test/
local-ttl=3600
dns-forward-max=1000
user={user}
pid-file={dir}/dnsmasq.pid
log-facility={dir}/dnsmasq.log
{records}
"""

CRAWL_TOML = """\
# The part of a crawl's configuration that docsweb decides.
[network]
resolvers = ["{resolver}"]
allow = ["{allow}"]
"""


@dataclass(frozen=True)
class Host:
    name: str
    address: str


@dataclass(frozen=True)
class ServedSet:
    """A set as it is served: the oracle needs no more than this."""

    name: str
    package: str
    root: str
    robots: str | None
    entries: list[str]
    hosts: list[Host]


@dataclass(frozen=True)
class Web:
    """A running docsweb, as `docsweb.json` keeps it."""

    directory: Path
    port: int
    dns_port: int
    network: str
    sets: list[ServedSet]
    missing: dict[str, str]

    @property
    def seeds(self) -> list[str]:
        return [f"http://{self.authority(h)}{path}" for s in self.sets for h in s.hosts for path in s.entries]

    def authority(self, host: Host) -> str:
        return host.name if self.port == 80 else f"{host.name}:{self.port}"

    @property
    def access_log(self) -> Path:
        return self.directory / ACCESS_LOG

    def requests(self) -> list[audit.Request]:
        """Every exchange whose answer somebody already had when this was called.

        nginx sends an answer and then writes its line, so a client may find the log a line short. Its one worker ends
        an exchange before it takes up another: the answer to one more request says that the lines before are written.
        """
        connection = http.client.HTTPConnection(self.sets[0].hosts[0].address, self.port, timeout=STOP_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/", headers={"Host": SETTLE_HOST})
            connection.getresponse().read()
        return audit.read(self.access_log)

    def summary(self) -> dict[str, Any]:
        """What somebody who wants to crawl it needs to know."""
        return {
            "directory": str(self.directory),
            "port": self.port,
            "resolvers": [f"127.0.0.1:{self.dns_port}"],
            "allow": [self.network],
            "hosts": sum(len(s.hosts) for s in self.sets),
            "addresses": len({h.address for s in self.sets for h in s.hosts}),
            "sets": {s.name: [asdict(h) for h in s.hosts] for s in self.sets},
            "seeds": len(self.seeds),
            "seeds_file": str(self.directory / "seeds.txt"),
            "config_file": str(self.directory / "crawl.toml"),
            "access_log": str(self.access_log),
            "missing": self.missing,
        }


def up(
    directory: Path, names: str = "all", *, mirrors: int = 0, addresses: int = 0, port: int = 0, gzip: bool = True
) -> Web:
    """Brings a web up and returns it when both daemons answer.

    mirrors: hosts mN.NAME.test beside each NAME.test. addresses: in total, over which all hosts are dealt in turn; 0 is
    one per set. port: 0 takes 80 where that may be bound, else a free one. Raises DocswebError.
    """
    nginx, dnsmasq = program("nginx"), program("dnsmasq")
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
    served = _served(sets, roots, mirrors, pool, spread=bool(addresses))
    web = Web(directory, _free_port(pool, port), _free_dns_port(), f"{pool[0].rsplit('.', 1)[0]}.0/24", served, missing)
    _write_files(web, gzip)
    _run([nginx, "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(directory / "nginx.conf")])
    try:
        _run([dnsmasq, f"--conf-file={directory / 'dnsmasq.conf'}"])
    except DocswebError:
        _end(directory / "nginx.pid", "nginx")
        raise
    (directory / STATE).write_text(json.dumps(asdict(web) | {"directory": str(directory)}, indent=1))
    return web


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
    ended = [name for name in ("nginx", "dnsmasq") if _end(directory / f"{name}.pid", name)]
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
    """`count` loopback addresses in a /24 derived from the directory, so that two webs rarely meet."""
    if count > 254:
        raise DocswebError("at most 254 addresses")
    digest = hashlib.sha256(os.fsencode(directory)).digest()
    return [f"127.{64 + digest[0] % 128}.{digest[1]}.{n + 1}" for n in range(count)]


def _served(
    sets: Sequence[DocSet], roots: dict[str, Path], mirrors: int, pool: list[str], *, spread: bool
) -> list[ServedSet]:
    served, dealt = [], 0
    for number, docs in enumerate(sets):
        hosts = []
        for name in [f"{docs.name}.test", *(f"m{n}.{docs.name}.test" for n in range(1, mirrors + 1))]:
            hosts.append(Host(name, pool[(dealt if spread else number) % len(pool)]))
            dealt += 1
        root = roots[docs.name]
        served.append(ServedSet(docs.name, docs.package, str(root), robots_text(docs), entries(root), hosts))
    return served


def _free_port(addresses: list[str], wanted: int) -> int:
    """The wanted port, else 80 where it may be bound, else one that is free on every address."""
    for port in [wanted] if wanted else [80, *range(8080, 8180)]:
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
    raise DocswebError(f"port {wanted or '80 and 8080 to 8179'} cannot be bound on {addresses[0]} and its neighbours")


def _free_dns_port() -> int:
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind(("127.0.0.1", 0))
            port = int(udp.getsockname()[1])
            with contextlib.suppress(OSError):
                tcp.bind(("127.0.0.1", port))
                return port
    raise DocswebError("no port is free for the name server")


def _write_files(web: Web, gzip: bool) -> None:
    directory = web.directory
    web.access_log.unlink(missing_ok=True)  # an earlier web's
    for folder in ("tmp", "robots"):
        (directory / folder).mkdir(exist_ok=True)
    user = pwd.getpwuid(os.geteuid()).pw_name
    servers = []
    for s in web.sets:
        robots = "return 404;"
        if s.robots is not None:
            path = directory / "robots" / f"{s.name}.txt"
            path.write_text(s.robots)
            robots = f'alias "{path}"; default_type text/plain;'
        names = "\n            ".join(h.name for h in s.hosts)
        listens = _listens({h.address for h in s.hosts}, web.port, "")
        servers.append(SERVER.format(listens=listens, names=names, root=s.root, robots=robots))
    everywhere = {h.address for s in web.sets for h in s.hosts}
    text = NGINX_CONF.format(
        user=f"user {user};\n" if os.geteuid() == 0 else "",  # only a master started by root may set it
        dir=directory, gzip="on" if gzip else "off", servers="".join(servers),
        listens_default=_listens(everywhere, web.port, " default_server"),
        listens_settle=_listens(everywhere, web.port, ""), settle_host=SETTLE_HOST,
    )  # fmt: skip
    (directory / "nginx.conf").write_text(text)
    records = "\n".join(f"host-record={h.name},{h.address}" for s in web.sets for h in s.hosts)
    text = DNSMASQ_CONF.format(port=web.dns_port, user=user, dir=directory, records=records)
    (directory / "dnsmasq.conf").write_text(text)
    (directory / "seeds.txt").write_text("".join(seed + "\n" for seed in web.seeds))
    resolver = f"127.0.0.1:{web.dns_port}"
    (directory / "crawl.toml").write_text(CRAWL_TOML.format(resolver=resolver, allow=web.network))


def _listens(addresses: set[str], port: int, options: str) -> str:
    return " ".join(f"listen {address}:{port}{options};" for address in sorted(addresses))


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
