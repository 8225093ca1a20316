"""`make demo`: serve the sample web, crawl it with the real command line, and tell what happened and why.

Everything is on loopback and under a temporary directory. Politeness is the crawler's own, with small numbers, so that
the whole of it takes about half a minute; DEADLINE_SECONDS ends a crawl that does not.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from drum.files import Files

from irlcrawl.base.job import JobDir
from irlcrawl.worker.archive.crawl_log import LogEntry
from irlcrawl.worker.archive.log_parts import read
from tools.docsweb import audit
from tools.sampleweb.behaviour import HOSTS, HTTPS_HOSTS, UNSERVED, SampleWeb
from tools.sampleweb.server import Origin, RunningWeb, Server, running
from tools.sampleweb.tls import authority

DEADLINE_SECONDS = 120
SEED_HOSTS = ("garden.test", "orchard.test", "calendar.test", "sloth.test", "busy.test", "vault.test", "shut.test")
LONELY_SEEDS = ("http://ruin.test:9/", "http://lost.test/", "http://intranet.test/")

CONFIG = """\
# The demo's crawl: polite, with gaps small enough to watch.
[crawl]
user_agent = "irlcrawl-demo/1.0 (+https://garden.test/about.html; gardener@garden.test)"
workers = 2

[limits]
seconds = 90

[politeness]
gap_host_seconds = 0.25
gap_host_factor = 2.0
gap_address_seconds = 0.1
retry_delay_seconds = 1.0
retries_max = 2
backoff_seconds = 1.0
rest_seconds = 1.0
rest_max_seconds = 5.0
host_dead_hours = 0.001

[fetch]
read_seconds = 3.0
total_seconds = 4.0
body_bytes_max = 100000
tls_verify = true
tls_ca_file = {ca}

[network]
allow = ["127.50.0.0/24"]
resolvers = [{resolver}]

[frontier]
harvest_seconds = 1.0

[site."calendar.test"]
pages_max = 20
"""

LEFT_OUT = {
    "robots": "robots.txt says no",
    "robots_unreachable": "robots.txt could not be had",
    "quota_site": "more than the site's share: the calendar has no last page",
    "quota_host": "more than the host's share",
    "dns": "the name does not resolve",
    "connect": "nothing listens there",
    "host_dead": "nothing listened there, often enough to give up",
    "tls": "the certificate does not verify",
    "timeout": "took longer than its deadline",
    "lost": "the connection broke",
    "address": "a private address, which no page may send the crawler to",
    "throttled": "still 429 or 503 after the last retry",
    "blocked": "blocked by the configuration",
}


@dataclass(frozen=True)
class DemoWeb:
    """The sample web while it is served, and the files a crawl of it needs."""

    web: RunningWeb
    config: Path
    seeds: Path


@contextlib.contextmanager
def served(directory: Path) -> Iterator[DemoWeb]:
    """Serves the sample web while the block runs; its files and its access log are in `directory`."""
    contexts = authority(directory / "ca.pem", HTTPS_HOSTS)
    origins = [Origin(name, address, contexts.get(name)) for name, address in HOSTS.items()]
    server: Server | None = None

    def origin_of(name: str) -> str:
        assert server is not None
        return server.url(name, "")

    with running(origins, SampleWeb(origin_of), directory / "access.log", UNSERVED) as web:
        server = web.server
        config, seeds = directory / "crawl.toml", directory / "seeds.txt"
        # A JSON string is a TOML string too, whatever characters the path has.
        config.write_text(CONFIG.format(ca=json.dumps(str(directory / "ca.pem")), resolver=json.dumps(web.resolver)))
        urls = [*(web.url(name) for name in SEED_HOSTS), *LONELY_SEEDS]
        seeds.write_text("# One URL a line.\n" + "".join(url + "\n" for url in urls))
        yield DemoWeb(web, config, seeds)


def demo(directory: Path) -> int:
    """Runs the demo in an existing directory; returns the crawl's exit code (1 when it had to be ended)."""
    with served(directory) as sample:
        job = directory / "job"
        command = ["crawl", str(job), "--seeds", str(sample.seeds), "--config", str(sample.config)]
        print(f"A small web of {len(HOSTS)} hosts is being served on loopback. This crawls it:\n")
        print("  irlcrawl " + " ".join(command) + "\n", flush=True)
        code = _crawl(command)
        if JobDir(job).crawl_log.exists():
            _report(job, sample)
    if code:
        print(f"\nThe crawl ended with exit code {code}.")
    return code


def _crawl(command: list[str]) -> int:
    process = subprocess.Popen([sys.executable, "-m", "irlcrawl", *command])
    try:
        return process.wait(DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"\nThe demo should have ended by now ({DEADLINE_SECONDS} s): stopping it.", file=sys.stderr)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return 1
    except BaseException:  # interrupted: what it crawls is about to go
        process.kill()
        process.wait()
        raise


def _report(job: Path, sample: DemoWeb) -> None:
    entries = list(read(Files(), str(JobDir(job).crawl_log)))
    final = [e for e in entries if e.outcome in ("fetched", "failed", "excluded")]
    print("\nWhat it fetched\n")
    for line in _fetched_table(final):
        print("  " + line)
    retried = sum(e.outcome == "retry" for e in entries)
    robots = [e.status > 0 for e in entries if e.outcome == "none"]
    print(f"\n  besides, {sum(robots)} answers to requests for robots.txt ({len(robots) - sum(robots)} had no answer)")
    print(f"  and {retried} requests that were to be repeated later")
    print("\nWhat it left out, and why\n")
    for line in _left_out(final):
        print("  " + line)
    _print_politeness(sample)
    _print_next(job, sample)


def _fetched_table(final: Iterable[LogEntry]) -> Iterator[str]:
    """A line per host: how many responses, and of which kinds."""
    per_host: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in final:
        if entry.outcome == "fetched":
            per_host[_host(entry)][f"{entry.status // 100}xx"] += 1
            per_host[_host(entry)]["cut"] += "truncated" in entry.notes
    yield f"{'host':<24}{'pages':>7}{'redirects':>11}{'errors':>8}{'cut short':>11}"
    for host, counts in sorted(per_host.items()):
        yield f"{host:<24}{counts['2xx']:>7}{counts['3xx']:>11}{counts['4xx'] + counts['5xx']:>8}{counts['cut']:>11}"


def _left_out(final: Iterable[LogEntry]) -> Iterator[str]:
    """A line per reason: how many URLs, what it means, one of them."""
    by_reason: defaultdict[str, list[LogEntry]] = defaultdict(list)
    for entry in final:
        if entry.outcome != "fetched":
            by_reason[entry.reason].append(entry)
    for reason, left in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        meaning = LEFT_OUT.get(reason, reason.replace("_", " "))
        yield f"{len(left):>4}  {reason:<12} {meaning}, such as {left[0].url.decode()}"
    yield "   -  links out of scope, nofollow links and links of pages that ask so are not even queued"


def _print_politeness(sample: DemoWeb) -> None:
    requests = audit.read(sample.web.log)
    delayed = [gap for gap, _, later in audit.gaps(requests, "host") if later.host == "library.garden.test"]
    print("\nHow polite it was, by the servers' own log\n")
    closest = audit.closest(requests, "host")
    print(f"  {len(requests)} requests; the closest two to one host: {closest:.2f} s apart (gap_host_seconds = 0.25)")
    if delayed:
        print(f"  the closest two to the host that asks for 'Crawl-delay: 2': {min(delayed):.2f} s apart")


def _print_next(job: Path, sample: DemoWeb) -> None:
    url = sample.web.url("garden.test", "/about.html")
    print("\nWhat to look at next (the servers are gone, the archive is here)\n")
    for words, meaning in (
        (f"inspect {job}", "what is in the job, in words"),
        (f"urls {job} --reason robots", "every URL that robots.txt kept away"),
        (f"urls {job} --status 404", "dangling links"),
        (f"get {job} {url}", "a page out of the archive"),
    ):
        print(f"  irlcrawl {words:<60}  # {meaning}")
    print(f"  ls {JobDir(job).warcs}  # standard WARC files, for any tool that reads them")
    print(f"  less {sample.config}  # this crawl's configuration")
    if "VIRTUAL_ENV" not in os.environ:
        print(f"\nwhere irlcrawl is {sys.executable} -m irlcrawl")


def _host(entry: LogEntry) -> str:
    return entry.url.decode().split("/")[2].partition(":")[0]
