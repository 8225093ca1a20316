"""`python -m bench pair REV [NAME]`: is this tree faster than commit REV? Both run in turn, in the same minutes.

A figure measured yesterday, or on another machine, says little about today's: a shared machine makes twice a difference
alone. Here a round runs benchmark NAME of this tree, as it lies there, and of REV, which is unpacked into a temporary
directory; each next round starts with the other one. A side is a process that imports its own tree, with its bytecode
compiled before. Printed is, for each figure, the ratio this tree / REV within a round: median, least and most of all
rounds. Figures are those of the benchmark's own --json that both sides have, and the CPU seconds of all it started, its
preparations included (`all_cpu_s`). A crawl's CPU time is also told as microseconds a page (`frontier_us`,
`workers_us`). Without NAME all the short ones run. What follows `--` is given to the benchmark of both sides, and wins.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tools.options import whole

ROOT = Path(__file__).parents[1]
ROUNDS = 5
SAID = 2000
ALL_CPU = "all_cpu_s"
START = (  # an older commit's benchmark may not know that SIGTERM is no reason to leave its servers behind
    "import runpy, signal, sys\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
    "runpy.run_module('bench', run_name='__main__', alter_sys=True)\n"
)
Line = dict[str, Any]
Figures = dict[str, float]


def _per_page(line: Line) -> Line:
    """A crawl's line with its CPU time by page: of the frontier, and of the workers."""
    us, share = 1e6 / line["pages_per_cpu_s"], line["frontier_cpu_share"]
    return {**line, "frontier_us": us * share / (1 + share), "workers_us": us / (1 + share)}


@dataclass(frozen=True)
class Pairing:
    """A benchmark as it is compared. `words`: its command line, where {size} is --size and {tenth} a tenth of it; both
    sides have to know the options, so they are few. `figures`: patterns of what is told. `by`: the fields that tell the
    lines of one run apart. `derive`: figures that a line implies."""

    words: str
    size: int
    figures: tuple[str, ...]
    by: tuple[str, ...] = ()
    long: bool = False
    derive: Callable[[Line], Line] = lambda line: line


CRAWL = ("pages_per_cpu_s", "frontier_us", "workers_us", "peak_rss_bytes", "recall")
PAIRINGS = {
    "crawl": Pairing("crawl --sets p5 --pages {size}", 1, CRAWL, derive=_per_page),
    "crawl-long": Pairing("crawl --sets all --pages {size}", 50_000, CRAWL, long=True, derive=_per_page),
    "worker": Pairing("worker --sets p5 --mirrors {size}", 0, ("pages_per_cpu_s", "*_us", "steps_us.*")),
    "seen": Pairing(
        "seen --systems drum --store {size} --keys {size}", 20_000_000,
        ("keys_per_cpu_s", "*_bytes_per_*", "peak_rss_bytes"), by=("case", "system"),
    ),
    "budgets": Pairing(
        "budgets --policies ours --jobs 1 --fetches {size}", 100_000,
        ("fetches_per_cpu_s", "importance", "enemy_share", "peak_rss_bytes", "disk_bytes_per_url"), by=("policy",),
    ),
    "politeness": Pairing(
        "politeness --hosts {size} --visits {size}", 20_000, ("*_us_*", "*bytes_per_host"),
        by=("hosts_per_address", "waited_for"),
    ),
    "resume": Pairing(
        "resume --seen {size} --queued {tenth}", 10_000_000, ("made_s", "open_ms", "first_request_s.*", "cpu_s.*"),
    ),
}  # fmt: skip
SIZES = ", ".join(f"{name} {pairing.size:,}" for name, pairing in PAIRINGS.items())


class PairFailed(Exception):
    """What is wrong and what to do; `code`: 4 wrong usage, 1 a side that failed."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


@dataclass
class Side:
    name: str
    tree: Path
    rounds: list[Figures] = field(default_factory=list)

    def run(self, words: Sequence[str], pairing: Pairing) -> Figures:
        """The benchmark once. Raises PairFailed."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+", errors="replace") as said:
            command = [sys.executable, "-c", START, *words, "--json"]
            process = subprocess.Popen(
                command, cwd=self.tree, env=self._environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=said,
                process_group=0,
            )  # fmt: skip
            try:
                _, status, usage = os.wait4(process.pid, 0)
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            said.seek(0)
            if process.returncode:
                raise self._failed(words, f"exit code {process.returncode}", said.read())
            try:
                lines = [pairing.derive(json.loads(line)) for line in out]
            except (ValueError, KeyError, ZeroDivisionError) as error:
                raise self._failed(words, f"no figures in its --json ({error!r})", said.read()) from None
        figures = {path: value for line in lines for path, value in _told(line, pairing)}
        return {**figures, ALL_CPU: usage.ru_utime + usage.ru_stime}

    def compiled(self) -> None:
        """No side compiles while it is measured; what does not compile fails there."""
        command = [sys.executable, "-m", "compileall", "-q", "-x", r"/\.", "."]
        subprocess.run(command, cwd=self.tree, env=self._environment(), capture_output=True, check=False)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPATH": str(self.tree)}

    def _failed(self, words: Sequence[str], why: str, said: str) -> PairFailed:
        fix = "it may not know an option or the benchmark yet: name another commit, or another NAME"
        if self.tree == ROOT:
            fix = f"`python -m bench {' '.join(words)}` shows it"
        return PairFailed(f"{self.name} failed at `bench {' '.join(words)}`: {why}\n{said[-SAID:].rstrip()}\n{fix}", 1)


def _told(line: Line, pairing: Pairing) -> Iterator[tuple[str, float]]:
    """The numbers of a line that are figures, by path; those of several lines begin with what tells the lines apart."""
    head = "".join(f"{name}={line.get(name)} " for name in pairing.by)
    for path, value in _numbers(line):
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in pairing.figures):
            yield head + path, value


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _numbers(below, f"{path}.{name.strip()}".lstrip("."))
    elif isinstance(value, list):
        yield from _numbers({str(number): below for number, below in enumerate(value)}, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def main(argv: list[str]) -> int:
    """Exit codes: 0 measured, 1 a side failed, 4 wrong usage (stderr says how)."""
    options = _options(argv)
    temporary = Path(tempfile.mkdtemp(prefix="irlcrawl-pair-"))
    try:
        names = _names(options)
        mine, commit = _commits(options.rev)
        sides = Side(f"this tree ({mine})", ROOT), Side(f"{options.rev} ({commit[:7]})", temporary)
        _unpack(commit, temporary)
        for side in sides:
            side.compiled()
        for name in names:
            _measure(name, sides, options)
            _print(name, sides, options.json)
    except PairFailed as error:
        print(f"bench pair: {error}", file=sys.stderr)
        return error.code
    finally:
        shutil.rmtree(temporary)
    return 0


def _options(argv: list[str]) -> argparse.Namespace:
    mark = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(
        prog="python -m bench pair", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="python -m bench pair REV [NAME] [options] [-- options of the benchmark]",
    )  # fmt: skip
    add = parser.add_argument
    add("rev", metavar="REV", help="any name git has for a commit")
    short = ", ".join(name for name, pairing in PAIRINGS.items() if not pairing.long)
    add("name", metavar="NAME", nargs="?", help=f"{', '.join(PAIRINGS)} (default: {short})")
    add("--rounds", type=whole(1), default=ROUNDS, help="runs of each side (default %(default)s)")
    add("--size", type=whole(0), help=f"of NAME: pages, mirrors, keys, fetches or hosts (default {SIZES})")
    add("--warm-up", action="store_true", help="one more round before the others, which does not count")
    add("--json", action="store_true", help="a JSON line for each figure")
    options = parser.parse_args(argv[:mark])
    options.more = argv[mark + 1 :]
    return options


def _names(options: argparse.Namespace) -> list[str]:
    if options.name is None:
        if options.more or options.size is not None:
            raise PairFailed("--size and options after -- are those of one benchmark: name it after REV", 4)
        return [name for name, pairing in PAIRINGS.items() if not pairing.long]
    if options.name not in PAIRINGS:
        raise PairFailed(f"no comparison is called {options.name!r}; there are: {', '.join(PAIRINGS)}", 4)
    return [options.name]


def _git(wrong: str, *words: str) -> bytes:
    """wrong: what it means when git refuses."""
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise PairFailed("there is no program git, which has the other commit; install it", 4) from None
    except subprocess.CalledProcessError as error:
        raise PairFailed(f"{wrong}\n{error.stderr.decode(errors='replace')}".rstrip(), 4) from None


def _commits(rev: str) -> tuple[str, str]:
    """What this tree is called, and the commit that REV names. Raises PairFailed."""
    mine = _git(f"{ROOT} is no git checkout; clone the repository", "describe", "--always", "--dirty")
    wrong = f"git knows no commit {rev!r} here; `git log` shows those it has, `git fetch` brings more"
    commit = _git(wrong, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
    return mine.decode().strip(), commit.decode().strip()


def _unpack(commit: str, directory: Path) -> None:
    with tarfile.open(
        fileobj=io.BytesIO(_git("the commit is not whole", "archive", "--format=tar", commit))
    ) as archive:
        archive.extractall(directory, filter="data")


def _measure(name: str, sides: tuple[Side, Side], options: argparse.Namespace) -> None:
    """Fills the rounds of both sides. Raises PairFailed."""
    pairing = PAIRINGS[name]
    size = pairing.size if options.size is None else options.size
    words = [*pairing.words.format(size=size, tenth=size // 10).split(), *options.more]
    for side in sides:
        side.rounds = []
    for number in range(-1 if options.warm_up else 0, options.rounds):
        for side in sides if number % 2 == 0 else sides[::-1]:
            figures = side.run(words, pairing)
            if number >= 0:
                side.rounds.append(figures)
            told = f"round {number + 1}" if number >= 0 else "warm-up"
            print(f"bench pair: {name}, {told}: {side.name}: {figures[ALL_CPU]:.2f} CPU s", file=sys.stderr)


def _print(name: str, sides: tuple[Side, Side], as_json: bool) -> None:
    mine, other = map(_by_figure, sides)
    compared = [path for path in mine if all(other.get(path, [0.0]))]  # a ratio to 0 is none
    left_out = sorted((mine.keys() | other.keys()) - set(compared))
    if as_json:
        for path in compared:
            row = {
                "bench": "pair",
                "name": name,
                "figure": path,
                "this": median(mine[path]),
                "rev": median(other[path]),
            }
            print(json.dumps(row | _spread(mine[path], other[path])))
        last = {"bench": "pair", "name": name, "sides": [side.name for side in sides], "left_out": left_out}
        print(json.dumps(last), flush=True)
        return
    width = max(map(len, compared))
    print(f"{name}: {sides[0].name} / {sides[1].name}, rounds: {len(sides[0].rounds)}")
    print(f"{'':{width}}{'this tree':>14}{'REV':>14}{'ratio':>8}  range")
    for path in compared:
        told = _spread(mine[path], other[path])
        values = f"{median(mine[path]):>14.6g}{median(other[path]):>14.6g}{told['ratio']:>8.3f}"
        print(f"{path:{width}}{values}  {told['least']:.3f} to {told['most']:.3f}")
    if left_out:
        print(f"left out, for a side has none, or REV has 0: {', '.join(left_out)}")
    print(flush=True)


def _by_figure(side: Side) -> dict[str, list[float]]:
    """Of each figure that every round has, its values."""
    first, *others = side.rounds
    return {path: [r[path] for r in side.rounds] for path in first if all(path in r for r in others)}


def _spread(mine: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    ratios = [round(a / b, 4) for a, b in zip(mine, other, strict=True)]
    return {"ratio": round(median(ratios), 4), "least": min(ratios), "most": max(ratios), "rounds": ratios}
