"""`python -m bench crawl`: how fast the whole crawler is on a real web, and whether it finds all of it.

Brings up docsweb with as many mirror hosts as the wanted number of pages needs, crawls all of it with the real command
line and every gap at zero, and prints `pages` (distinct URLs in nginx's access log, robots.txt aside), `pages_per_s`,
`pages_per_cpu_s` (user and system time of all the crawler's processes), `peak_rss_bytes` of their sum, the most that
each worker held, what the largest worker held after each quarter of the pages, how many pages each worker fetched and
how much the busiest exceeds the mean (`imbalance`), the frontier's processor time over that of the workers, and
`recall` against the oracle. nginx and dnsmasq, which it needs, are not counted: they run on a core of their own, the
crawler on the others, unless --cores N puts both on the same N.

--peers   the same pages through other crawlers in turn (bench/crawl/peers.py)
--polite  thousands of hosts over https, each asked seldom (bench/crawl/polite.py)
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from bench.crawl import peers, polite, single
from bench.crawl.tree import CrawlFailed
from tools.docsweb.sets import DocswebError
from tools.options import directory, whole


def main(argv: list[str]) -> int:
    """Exit codes: 0 measured, 1 the web or a crawl failed (stderr says how)."""
    options = _options(argv)
    where = options.dir or Path(tempfile.mkdtemp(prefix="irlcrawl-bench-"))
    mode = peers if options.peers else polite if options.polite else single
    try:
        lines = mode.measure(where, options)
    except (DocswebError, CrawlFailed) as error:
        print(f"bench crawl: {error}", file=sys.stderr)
        return 1
    finally:
        if options.dir is None:
            shutil.rmtree(where)
    if options.json:
        sys.stdout.writelines(json.dumps(line) + "\n" for line in lines)
    else:
        print(mode.words(lines))
    return 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench crawl", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--peers", action="store_true", help="compare with other crawlers on the same pages")
    which.add_argument("--polite", action="store_true", help="thousands of hosts over https, with gaps")
    add = parser.add_argument
    pages = "at least so many, by mirrors (default 50000; --peers: of its large crawl, 0: none)"
    add("--pages", type=whole(0), help=pages)
    add("--sets", help="docsweb sets or groups (default all; --peers and --polite: p5)")
    add("--workers", type=whole(0), default=0, help="fetch workers; 0 is one per core that the crawler has")
    add("--cores", type=whole(0), default=0, metavar="N", help="servers and crawler on the same N cores")
    add("--rounds", type=whole(1), default=5, help="--peers: how often each runs (default %(default)s)")
    add("--only", default="", metavar="NAMES", help="--peers: comma-separated beginnings of their names")
    add("--hosts", type=whole(1), default=2000, help="--polite: host names (default %(default)s)")
    add("--addresses", type=whole(1), default=500, help="--polite: addresses they share (default %(default)s)")
    add("--seconds", type=whole(1), default=150, help="--polite: length of the crawl (default %(default)s)")
    add("--dir", type=directory, help="keep the web and the jobs in this directory; default: a temporary one, removed")
    add("--json", action="store_true", help="JSON lines")
    add("-s", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="as in the crawler")
    return parser.parse_args(argv)
