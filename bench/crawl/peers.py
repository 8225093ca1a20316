"""`--peers`: docsweb's pages through irlcrawl and other crawlers, in turn, so that all meet the machine's moods alike.

nginx and dnsmasq have one core, the crawler another. A round runs every system once; each next round starts one system
further. A page is a distinct URL that nginx was asked for, robots.txt aside, wanted or not (recall and `unexpected` say
how many were): a system that asks for more is credited for more. Pages per CPU-second are over the user and system time
of all a system's processes, from its first instruction to its last. Ratios are taken within a round.

One more system of each round is irlcrawl on `--pages` pages of the same sets and their mirrors: what a page costs when
the start no longer counts, and the frontier has become larger.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.crawl import cores, ours, tree
from bench.crawl.single import PAGES
from bench.crawl.systems import PEERS, System
from tools.docsweb import audit, oracle, serve

SECONDS_MAX = 900.0
LARGE = "irlcrawl, many pages"
GOALS: dict[str, int | str] = {
    "Scrapy, LinkExtractor": 15,
    "Scrapy, lxml by hand": 6,
    "Crawlee for Python": 12,
    "wget --warc-file": 3,
    "wget2": 1,
    LARGE: "0.9 to 1.1",
}
"""How many times as many pages per CPU-second irlcrawl wants to have."""


@dataclass
class Line:
    """A system and what each of its runs gave."""

    name: str
    features: str
    runs: list[dict[str, float]] = field(default_factory=list)
    failure: str = ""

    def told(self, key: str) -> list[float]:
        return [run[key] for run in self.runs]


def measure(directory: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A line per system, then one per ratio. Raises DocswebError, tree.CrawlFailed (of irlcrawl; a peer that fails is
    named and left out)."""
    share = cores.divided(options.cores) if options.cores else cores.one_each()
    wanted = [name for name in options.only.split(",") if name]
    peers = [peer for peer in PEERS if not wanted or peer.name.startswith(tuple(wanted))]
    skipped = [peer for peer in peers if peer.missing]
    mine, sets = dict(ours.clients()), options.sets or "p5"
    pages = PAGES if options.pages is None else options.pages
    if pages:
        mine[LARGE] = []
    lines = {name: Line(name, ours.FEATURES) for name in mine}
    lines |= {p.name: Line(f"{p.name} {p.version}", p.features) for p in peers if not p.missing}
    present = {peer.name: peer for peer in peers if not peer.missing}
    with tree.pinned(share.servers), contextlib.ExitStack() as served:
        web = served.enter_context(serve.running(directory / "web", sets))
        expected = oracle.expected(web)
        if pages:
            copies = -(-pages // len(expected))
            large = served.enter_context(serve.running(directory / "large", sets, mirrors=copies - 1))
            oracle.expected(large)  # before any clock starts
        for number in range(options.rounds):
            names = list(lines)
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                if lines[name].failure:
                    continue
                out = directory / "run"
                try:
                    if name in mine:
                        more = [*mine[name], *options.settings]
                        workers = options.workers or len(share.crawler)
                        asked = large if name == LARGE else web
                        run = _run_ours(asked, oracle.expected(asked), out, share.crawler, workers, more)
                    else:
                        run = _run_peer(web, expected, out, share.crawler, present[name])
                except tree.CrawlFailed as error:
                    if name in mine:
                        raise
                    lines[name].failure = str(error)
                    continue
                finally:
                    shutil.rmtree(out, ignore_errors=True)
                lines[name].runs.append(run)
                print(f"bench crawl: round {number + 1}: {name}: {run['pages_per_cpu_s']:.0f}", file=sys.stderr)
    return [*_system_lines(lines), *_ratio_lines(lines), *map(_skipped, skipped)]


def _run_ours(
    web: serve.Web, expected: set[str], out: Path, crawler: set[int], workers: int, more: Sequence[str]
) -> dict[str, float]:
    out.mkdir()
    before = len(web.requests())
    usage = ours.crawl(web, out / "job", workers=workers, cores=crawler, seconds_max=SECONDS_MAX, more=more)
    judged = _judged(web.requests()[before:], expected, usage)
    return judged | {"frontier_cpu_share": usage.samples.root_share}


def _run_peer(web: serve.Web, expected: set[str], out: Path, crawler: set[int], peer: System) -> dict[str, float]:
    out.mkdir()
    names = {h.address: h.name for s in web.sets for h in s.hosts}
    before = len(web.requests())
    command = peer.command(out, by_address(web))
    usage = tree.run(
        command, out / "said", cores=crawler, seconds_max=SECONDS_MAX, codes=peer.codes, cwd=out,
    )  # fmt: skip
    requests = [replace(r, host=names.get(r.address, r.host)) for r in web.requests()[before:]]
    return _judged(requests, expected, usage)


def by_address(web: serve.Web) -> list[str]:
    """The seeds with each host's address in place of its name: docsweb serves a host that is alone on its address under
    that too."""
    port = "" if web.port == 80 else f":{web.port}"
    return [f"http://{h.address}{port}{path}" for s in web.sets for h in s.hosts for path in s.entries]


def _judged(requests: Sequence[audit.Request], expected: set[str], usage: tree.Usage) -> dict[str, float]:
    urls = {r.url for r in ours.pages_of(requests)}
    return {
        "pages": len(urls),
        "requests": len(requests),
        "recall": len(urls & expected) / len(expected),
        "unexpected": len(urls - expected),
        "pages_per_cpu_s": len(urls) / usage.cpu_s,
        "pages_per_s": len(urls) / usage.seconds,
        "peak_rss_bytes": usage.samples.peak_sum,
    }


def _system_lines(lines: dict[str, Line]) -> list[dict[str, Any]]:
    told = []
    for line in lines.values():
        row: dict[str, Any] = {"bench": "crawl-peers", "system": line.name, "features": line.features}
        if line.failure:
            told.append(row | {"failed": line.failure})
            continue
        row |= {key: median(line.told(key)) for key in ("pages", "requests", "recall", "unexpected", "peak_rss_bytes")}
        for key in ("pages_per_cpu_s", "pages_per_s"):
            row |= {key: round(median(line.told(key)), 1), f"{key}_rounds": [round(v, 1) for v in line.told(key)]}
        if "frontier_cpu_share" in line.runs[0]:
            row["frontier_cpu_share"] = round(median(line.told("frontier_cpu_share")), 3)
        told.append(row)
    return told


def _ratio_lines(lines: dict[str, Line]) -> list[dict[str, Any]]:
    """irlcrawl over every other system, round by round."""
    told = []
    first, *_ = lines.values()
    for name, line in lines.items():
        if line is first or line.failure or not line.runs:
            continue
        ratios = [a / b for a, b in zip(first.told("pages_per_cpu_s"), line.told("pages_per_cpu_s"), strict=True)]
        row = {"bench": "crawl-peers", "ratio": f"{first.name} / {line.name}", "median": round(median(ratios), 2)}
        told.append(row | {"rounds": [round(ratio, 2) for ratio in ratios], "goal": GOALS.get(name)})
    return told


def _skipped(peer: System) -> dict[str, Any]:
    return {"bench": "crawl-peers", "system": peer.name, "skipped": f"not installed: {peer.install}"}


def words(lines: list[dict[str, Any]]) -> str:
    """A table, the ratios, and what each system had switched on."""
    head = f"{'':<30}{'pages/CPU-s':>12}{'range':>16}{'pages/s':>9}{'peak MB':>9}{'pages':>7}{'recall':>8}{'other':>7}"
    table, ratios, notes = [head], [], []
    for row in lines:
        if "ratio" in row:
            goal = f" (goal {row['goal']})" if row["goal"] else ""
            ratios.append(f"{row['ratio']}: {row['median']} ({min(row['rounds'])} to {max(row['rounds'])}){goal}")
        elif "skipped" in row or "failed" in row:
            notes.append(f"{row['system']}: {row.get('skipped') or 'failed: ' + row['failed']}")
        else:
            rounds = row["pages_per_cpu_s_rounds"]
            table.append(
                f"{row['system']:<30}{row['pages_per_cpu_s']:>12.0f}{f'{min(rounds):.0f} to {max(rounds):.0f}':>16}"
                f"{row['pages_per_s']:>9.0f}{row['peak_rss_bytes'] / 1e6:>9.0f}{row['pages']:>7.0f}"
                f"{row['recall']:>8.4f}{row['unexpected']:>7.0f}"
            )
            notes.append(f"{row['system']}: {row['features']}")
    return "\n".join([*table, "", *ratios, "", *notes])
