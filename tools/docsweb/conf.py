"""What nginx and dnsmasq are told, and the files that tell a crawler what to do: everything written before a start."""

from __future__ import annotations

import os
import pwd
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from tools.docsweb import tls
from tools.docsweb.web import SETTLE_HOST, Host, ServedSet, Web

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
    # Or what cannot be parsed ends, for the log, when the client hangs up.
    lingering_close off;
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
        '"scheme":"$scheme","address":"$server_addr","status":$status,"method":"$request_method",'
        '"uri":"$request_uri","bytes":$bytes_sent,"agent":"$http_user_agent","connection_s":$connection_time,'
        '"connection_request":$connection_requests,"tls":"$ssl_protocol $ssl_cipher","resumed":"$ssl_session_reused"}}';
    access_log "{dir}/access.log" exchange;
{tls}    # A request for a name that is not ours is answered, and shows in the log as the error it is.
    server {{ {listens_default} server_name _; {tls_default} return 421; }}
    server {{
        {listens_settle} server_name {settle_host}; {tls_default} access_log off; keepalive_timeout 0; return 204;
    }}
{servers}}}
"""

SERVER = """\
    server {{
        {listens}
        server_name {names};
        {tls}
        root "{root}";
        index index.html;
        location = /robots.txt {{ {robots} }}
    }}
"""

TLS_CONF = """\
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:docsweb:32m;
    ssl_session_timeout 1h;
    ssl_session_tickets on;
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

CRAWL_TOML_TLS = """
[fetch]
tls_verify = true
tls_ca_file = "{ca_file}"
"""


def write_files(web: Web, gzip: bool) -> None:
    """Everything into the web's directory: configurations, robots files, certificates, seeds."""
    directory = web.directory
    web.access_log.unlink(missing_ok=True)  # an earlier web's
    for folder in ("tmp", "robots"):
        (directory / folder).mkdir(exist_ok=True)
    user = pwd.getpwuid(os.geteuid()).pw_name
    https = web.scheme == "https"
    options = " ssl" if https else ""
    users = Counter(h.address for s in web.sets for h in s.hosts)
    alone = {address for address, hosts in users.items() if hosts == 1}
    groups = [(s, hosts) for s in web.sets for hosts in _grouped(s.hosts, https)]
    names = [[SETTLE_HOST], *([h.name for h in hosts] for _, hosts in groups)]
    tls_default, *tls_lines = tls.write_certificates(directory / "tls", names) if https else [""] * len(names)
    servers = (_server(web, s, hosts, lines, options, alone) for (s, hosts), lines in zip(groups, tls_lines))
    text = NGINX_CONF.format(
        user=f"user {user};\n" if os.geteuid() == 0 else "",  # only a master started by root may set it
        dir=directory, gzip="on" if gzip else "off", tls=TLS_CONF if https else "", tls_default=tls_default,
        listens_default=_listens(users, web.port, options + " default_server"),
        listens_settle=_listens(users, web.port, options), settle_host=SETTLE_HOST, servers="".join(servers),
    )  # fmt: skip
    (directory / "nginx.conf").write_text(text)
    records = "\n".join(f"host-record={h.name},{h.address}" for s in web.sets for h in s.hosts)
    text = DNSMASQ_CONF.format(port=web.dns_port, user=user, dir=directory, records=records)
    (directory / "dnsmasq.conf").write_text(text)
    (directory / "seeds.txt").write_text("".join(seed + "\n" for seed in web.seeds))
    text = CRAWL_TOML.format(resolver=f"127.0.0.1:{web.dns_port}", allow=web.network)
    if https:
        text += CRAWL_TOML_TLS.format(ca_file=directory / "tls" / tls.CA_FILE)
    (directory / "crawl.toml").write_text(text)


def _grouped(hosts: Sequence[Host], https: bool) -> Iterator[Sequence[Host]]:
    """The hosts of a set as nginx serves them: all together, or as many as share a certificate."""
    size = tls.HOSTS_PER_CERTIFICATE if https else len(hosts)
    return (hosts[at : at + size] for at in range(0, len(hosts), size))


def _server(
    web: Web, served: ServedSet, hosts: Sequence[Host], tls_lines: str, options: str, alone: Collection[str]
) -> str:
    """nginx's part for some hosts of a set; one that is alone on its address answers to that as well."""
    robots = "return 404;"
    if served.robots is not None:
        path = web.directory / "robots" / f"{served.name}.txt"
        path.write_text(served.robots)
        robots = f'alias "{path}"; default_type text/plain;'
    names = "\n            ".join([*(h.name for h in hosts), *(h.address for h in hosts if h.address in alone)])
    listens = _listens({h.address for h in hosts}, web.port, options)
    return SERVER.format(listens=listens, names=names, tls=tls_lines, root=served.root, robots=robots)


def _listens(addresses: Collection[str], port: int, options: str) -> str:
    return " ".join(f"listen {address}:{port}{options};" for address in sorted(addresses))
