"""`python -m tools.docsweb up|down|reach|audit DIR`: see --help of each."""

from __future__ import annotations

import argparse
import json
import sys
from math import inf
from pathlib import Path

from tools.docsweb import audit, oracle, serve
from tools.docsweb.sets import DocswebError
from tools.ending import exit_when_told
from tools.options import amount, directory, whole


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 done, 1 docsweb could not do it (stderr says why), 2 wrong usage, 9 the audit found a fault."""
    options = _parser().parse_args(argv)
    exit_when_told()
    try:
        return int(options.run(options))
    except DocswebError as error:
        print(f"docsweb: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.docsweb", description="A real web on loopback, of Debian's documentation."
    )
    verbs = parser.add_subparsers(required=True, metavar="up|down|reach|audit")
    up = verbs.add_parser("up", help="serve the sets and print as JSON what a crawl of them needs")
    up.add_argument("--sets", default="all", help="comma-separated names or groups (p5, all); default all")
    up.add_argument("--mirrors", type=whole(0), default=0, help="hosts mN.NAME.test beside each NAME.test")
    up.add_argument(
        "--addresses", type=whole(0), default=0, help="deal all hosts over so many addresses; default one per set"
    )
    port = "default: 80 or 443 where it may be bound, else a free high port"
    up.add_argument("--port", type=whole(0, 65535), default=0, help=port)
    up.add_argument("--no-gzip", action="store_true", help="send everything uncompressed")
    up.add_argument("--https", action="store_true", help="serve https only, certified by DIR/tls/ca.pem")
    up.add_argument("--sites", action="store_true", help="mirrors are NAME-mN.test, each a site of its own")
    up.set_defaults(run=_up)
    down = verbs.add_parser("down", help="end the daemons; the logs stay")
    down.set_defaults(run=lambda o: print(json.dumps({"ended": serve.down(o.directory)})) or 0)
    reach = verbs.add_parser("reach", help="compute from the files what a crawl must request")
    reach.add_argument("--urls", action="store_true", help="print the URLs, one a line, instead of counts")
    reach.set_defaults(run=_reach)
    check = verbs.add_parser(
        "audit", help="compare the access log with reach and with promised gaps; exit 9 on a fault"
    )
    for of in ("host", "address"):
        promised = f"seconds promised between two requests to {'an' if of == 'address' else 'a'} {of}"
        check.add_argument(f"--gap-{of}", type=amount(zero=True), default=0, help=promised)
    check.set_defaults(run=_audit)
    for verb in (up, down, reach, check):
        kind = directory if verb is up else Path
        verb.add_argument("directory", metavar="DIR", type=kind, help="directory of the web")
    return parser


def _up(options: argparse.Namespace) -> int:
    web = serve.up(
        options.directory, options.sets, mirrors=options.mirrors, addresses=options.addresses, port=options.port,
        gzip=not options.no_gzip, https=options.https, sites=options.sites,
    )  # fmt: skip
    for reason in web.missing.values():
        print(f"docsweb: left out {reason}", file=sys.stderr)
    print(json.dumps(web.summary(), indent=1))
    return 0


def _reach(options: argparse.Namespace) -> int:
    web = serve.load(options.directory)
    if options.urls:
        sys.stdout.writelines(url + "\n" for url in sorted(oracle.expected(web)))
    else:
        print(json.dumps(oracle.counts(web), indent=1))
    return 0


def _audit(options: argparse.Namespace) -> int:
    web = serve.load(options.directory)
    requests = web.requests()
    host, address = audit.closest(requests, "host"), audit.closest(requests, "address")
    report = audit.report(requests, oracle.expected(web), oracle.disallowed(web))
    report |= {"closest_host_s": host if host < inf else None, "closest_address_s": address if address < inf else None}
    print(json.dumps(report, indent=1))
    faults = any(report[fault] for fault in ("missing", "unexpected", "repeated", "disallowed"))
    return 9 if faults or host < options.gap_host or address < options.gap_address else 0


if __name__ == "__main__":
    sys.exit(main())
