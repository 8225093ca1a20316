"""What policies of a frontier are worth on a web full of enemies: each crawls the same simulated web for itself.

The frontier is the shipped one, on disk, under a virtual clock (bench/_sim/crawl.py); the web is tools/simweb's, half
of whose URLs are the enemies'. `good_coverage` is the importance of the good pages fetched, over the oracle's; None
where no oracle ran. Each policy runs in a process of its own, so its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench._sim.arrivals import one_site
from bench._sim.crawl import Crawl, Run
from bench._sim.eyes import EYES, REAL
from bench._sim.policies import policies, variants
from bench._sim.quick import Quick
from tools.options import amount, directory, ranges, whole
from tools.simweb.params import Params
from tools.simweb.web import Web

FETCHES = 500_000
RATE, RATE_QUICK = 400.0, 100.0
CURVES = "budgets.jsonl"


def measure(
    policy: str, params: Params, fetches: int, rate: float, where: Path | None, progress: bool, quick: bool, eyes: str
) -> Run:
    """One policy on one web."""
    path = tempfile.mkdtemp(prefix="budgets-", dir=where)
    chosen = {**policies(), **variants()}[policy]
    try:
        if quick:
            return Quick(Path(path) / "job", Web(params), chosen, fetches, rate, eyes).run()
        return Crawl(Path(path) / "job", Web(params), chosen, fetches, rate, progress, eyes).run()
    finally:
        shutil.rmtree(path)


def line(run: Run, oracle: Run | None) -> dict[str, Any]:
    """A run as people compare it."""
    spent = run.spent
    return {
        "policy": run.policy,
        "seed": run.seed,
        "fetches": spent.fetches,
        "enemy_share": round(spent.enemy / max(1, spent.fetches), 4),
        "good_coverage": round(spent.importance / oracle.spent.importance, 4) if oracle else None,
        "importance": round(spent.importance, 5),
        "lookups_per_url": round(run.lookups_per_url, 3),
        "rereads_per_url": round(run.rereads_per_url, 3),
        "utilisation": _rounded(run.utilisation, 3),
        "peak_rss_bytes": run.peak_rss_bytes,
        "disk_bytes_per_url": _rounded(run.disk_bytes_per_url, 1),
        "fetches_per_cpu_s": round(spent.fetches / run.cpu_s),
        "enemy_share_late": _rounded(run.enemy_share_late, 4),
        "lookups_per_url_max": round(run.lookups_per_url_max, 3),
        "rereads_per_url_max": round(run.rereads_per_url_max, 3),
        "good_fetches": spent.good,
        "virtual_seconds": round(run.seconds),
        **run.extra,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    """None for what was not measured."""
    return None if value is None else round(value, digits)


def main(argv: list[str]) -> int:
    options = _options(argv)
    if options.arrivals:
        with tempfile.TemporaryDirectory(prefix="arrivals-", dir=options.dir) as path:
            print(json.dumps(one_site(Path(path), options.arrivals)))
        return 0
    if options.plots:
        try:
            from bench._sim.plots import draw  # matplotlib is needed for nothing else
        except ModuleNotFoundError as error:
            print(f"bench budgets --plots: {error}; make bench-venv installs it", file=sys.stderr)
            return 1
        draw(options.plots / CURVES, options.plots)
        return 0
    runs: list[Run] = []
    for params in options.webs:
        runs = _compare(params, options)
    if options.curves:
        lines = [json.dumps({"policy": run.policy, "seed": run.seed, **run.curves()}) + "\n" for run in runs]
        (options.curves / CURVES).write_text("".join(lines))
    return 0


def _options(argv: list[str]) -> argparse.Namespace:
    names, known = list(policies()), [*policies(), *variants()]
    parser = argparse.ArgumentParser(prog="python -m bench budgets", description=__doc__)
    parser.add_argument("--policies", default=",".join(names), help=f"of {', '.join(known)}")
    parser.add_argument("--fetches", type=whole(1), default=FETCHES, help="of each policy (default %(default)s)")
    parser.add_argument(
        "--rate", type=amount(), help=f"fetches a second that workers can do ({RATE:g}; {RATE_QUICK:g} quick)"
    )
    parser.add_argument("--seeds", type=ranges(0), default=[1], help="of webs, as 1,2,3 or 1-10 (default 1)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", help="a parameter of the web")
    parser.add_argument(
        "--eyes", choices=EYES, default=REAL, help="who tells which content was met before (default %(default)s)"
    )
    parser.add_argument("--dir", type=directory, help="where the crawls' state is put meanwhile")
    parser.add_argument("--jobs", type=whole(1), default=len(os.sched_getaffinity(0)), help="policies run at a time")
    parser.add_argument(
        "--curves", type=directory, metavar="DIR", help=f"write how each policy went on the last web to DIR/{CURVES}"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help=f"only draw DIR/{CURVES} there (extra 'bench')")
    parser.add_argument("--quick", action="store_true", help="the budgets alone, without hosts: for many webs")
    parser.add_argument("--arrivals", type=whole(1), metavar="URLS", help="only this: so many URLs of one site at once")
    parser.add_argument("--progress", action="store_true", help="a line per turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.quick and options.curves:
        parser.error("--curves: a quick run has none")
    if options.plots and not (options.plots / CURVES).is_file():
        parser.error(f"--plots: there is no {options.plots / CURVES}; a run with --curves {options.plots} writes it")
    options.rate = options.rate or (RATE_QUICK if options.quick else RATE)
    options.policies = options.policies.split(",")
    if unknown := set(options.policies) - set(known):
        parser.error(f"--policies: no {', '.join(sorted(map(repr, unknown)))}; there are {', '.join(known)}")
    try:
        options.webs = [Params(seed=seed).overridden(options.set) for seed in options.seeds]
    except ValueError as error:
        parser.error(f"--set: {error}")
    return options


def _compare(params: Params, options: argparse.Namespace) -> list[Run]:
    """Every policy on one web, a line each as they end; the oracle's first, for the others are measured by it."""
    runs: list[Run] = []
    task = (params, options.fetches, options.rate, options.dir, options.progress, options.quick, options.eyes)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn, max_tasks_per_child=1) as processes:
        names = sorted(options.policies, key=lambda name: name != "oracle")
        try:
            for ended in [processes.submit(measure, name, *task) for name in names]:
                runs.append(ended.result())
                found = line(runs[-1], runs[0] if runs[0].policy == "oracle" else None)
                print(json.dumps(found) if options.json else _words(found), flush=True)
        except BaseException:
            for process in multiprocessing.active_children():  # else every policy is waited for
                process.terminate()
            raise
    return runs


def _words(found: dict[str, Any]) -> str:
    coverage = "" if found["good_coverage"] is None else f"{found['good_coverage']:.1%} of the oracle's good, "
    late = "" if found["enemy_share_late"] is None else f" ({found['enemy_share_late']:.1%} after the first 100,000)"
    busy = "" if found["utilisation"] is None else f"{found['utilisation']:.0%} busy, "
    stored = found["disk_bytes_per_url"]
    disk = "" if stored is None else f"{stored:.0f} B on disk a queued URL, "
    return (
        f"{found['policy']:>13} (web {found['seed']}): {found['fetches']:,} fetches, {found['enemy_share']:.1%} on "
        f"enemies{late}, {coverage}"
        f"{found['lookups_per_url']:.2f} lookups and {found['rereads_per_url']:.2f} re-reads a URL, "
        f"{busy}{found['peak_rss_bytes'] / 2**20:,.0f} MiB, {disk}{found['fetches_per_cpu_s']:,} fetches a CPU-second"
    )
