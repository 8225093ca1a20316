"""A benchmark that is ended ends what it started: crawls, web servers and name servers went on without it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = """
import argparse, os, signal, subprocess, sys
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore both: nohup, a shell's &
signal.signal(signal.SIGINT, signal.default_int_handler)
import bench.soak
from bench import __main__, crash, dedupe
from bench.crawl import tree
def waiting(wait):
    def announced(*arguments):
        print("waits", flush=True)
        return wait(*arguments)
    return announced
os.wait4, subprocess.Popen.wait = waiting(os.wait4), waiting(subprocess.Popen.wait)
command, out = sys.argv[1:], Path("out")
bench.soak.main = lambda argv: {run}
sys.exit(__main__.main(["soak"]))
"""
RUNS = {
    "crash": "crash._crawl(command, out, argparse.Namespace(seed=1, kills=0, every=1.0))",
    "dedupe": "dedupe.run(command, out, Path(), 0)",
    "soak": "bench.soak._watch(command, out, 60.0)",
    "tree": "tree.run(command, out, cores=os.sched_getaffinity(0), seconds_max=60.0)",
}


@pytest.mark.parametrize(
    ("run", "number"),
    [*((run, signal.SIGTERM) for run in RUNS), ("crash", signal.SIGINT), ("crash", signal.SIGHUP)],
)
def test_a_benchmark_that_is_ended_leaves_nothing_running(run: str, number: signal.Signals, tmp_path: Path) -> None:
    os.mkfifo(alive := tmp_path / "alive")  # open for writing as long as what the benchmark started lives
    command = ["sh", "-c", 'exec sleep 60 > "$0"', str(alive)]
    paths = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    bench = subprocess.Popen(
        [sys.executable, "-c", BENCH.format(run=RUNS[run]), *command],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        process_group=0,
    )  # fmt: skip
    assert bench.stdout is not None
    try:
        with alive.open() as started:
            assert bench.stdout.readline() == b"waits\n"
            bench.send_signal(number)
            assert bench.wait(30) == (-2 if number == signal.SIGINT else 128 + number)
            assert select.select([started], [], [], 30)[0] and not started.read()
    finally:
        bench.kill()
        bench.wait()
        bench.stdout.close()


def test_what_nohup_ignores_stays_ignored_and_a_second_signal_cuts_nothing_short() -> None:
    code = (
        "import os, signal\n"
        "from tools.ending import exit_when_told\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "exit_when_told()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "finally:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('cleaned up')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "cleaned up\n", "")
