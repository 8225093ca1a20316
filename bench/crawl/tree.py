"""What a process tree costs: processor time, memory and time on the clock, on the cores it is given.

A child inherits the cores of the thread that starts it, so whoever starts one says where (`pinned`). Processor time is
what the kernel accounted to the process and all it waited for; memory is sampled as the sum of resident sets.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.1
OUTPUT_SHOWN = 2000


class CrawlFailed(Exception):
    """A crawler did not end as it should; the message has its last words."""


@dataclass
class Samples:
    """A process tree while it runs. `series`: (unix seconds, largest worker's bytes, CPU seconds of all so far)."""

    root: int
    is_worker: Callable[[int], bool]
    peak_sum: int = 0
    peak_root: int = 0
    peaks: dict[int, int] = field(default_factory=dict)  # of workers
    cpu: dict[int, float] = field(default_factory=dict)  # seconds by process, those that are gone included
    series: list[tuple[float, int, float]] = field(default_factory=list)

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(SAMPLE_SECONDS):
            self.sample()

    def sample(self) -> None:
        sizes = {pid: size for pid in descendants(self.root) if (size := resident(pid)) is not None}
        workers = {pid: size for pid, size in sizes.items() if pid != self.root and self.is_worker(pid)}
        for pid, size in workers.items():
            self.peaks[pid] = max(size, self.peaks.get(pid, 0))
        self.cpu |= {pid: seconds for pid in sizes if (seconds := cpu_seconds(pid)) is not None}
        self.peak_sum = max(self.peak_sum, sum(sizes.values()))
        self.peak_root = max(self.peak_root, sizes.get(self.root, 0))
        self.series.append((time.time(), max(workers.values(), default=0), sum(self.cpu.values())))

    def worker_bytes_at(self, moment: float) -> int:
        """The largest worker's size at the last sample before `moment` (unix seconds)."""
        return next((size for when, size, _ in reversed(self.series) if when <= moment), 0)

    def cpu_at(self, moment: float) -> float:
        """CPU seconds of the tree until the last sample before `moment` (unix seconds)."""
        return next((cpu for when, _, cpu in reversed(self.series) if when <= moment), 0.0)

    @property
    def root_share(self) -> float:
        """CPU of the first process over that of the workers."""
        workers = sum(seconds for pid, seconds in self.cpu.items() if pid in self.peaks)
        return self.cpu.get(self.root, 0.0) / workers if workers else 0.0


@dataclass
class Usage:
    """seconds: on the clock; cpu_s: user and system time of the process and all it waited for."""

    seconds: float
    cpu_s: float
    samples: Samples


def end(crawl: subprocess.Popen[bytes]) -> None:
    """Kills a process group that still runs, and takes its exit."""
    if crawl.poll() is None:
        os.killpg(crawl.pid, signal.SIGKILL)
        crawl.wait()


def run(
    command: Sequence[str],
    output: Path,
    *,
    cores: set[int],
    seconds_max: float,
    is_worker: Callable[[int], bool] = lambda pid: False,
    codes: Sequence[int] = (0,),
    cwd: Path | None = None,
) -> Usage:
    """Run a command on these cores until it ends. Raises CrawlFailed for another exit code than `codes`, and when it
    takes longer than seconds_max (it is killed then, with its process group)."""
    with output.open("w+", errors="replace") as said:
        started = time.monotonic()
        with pinned(cores):
            process = subprocess.Popen(
                command,
                stdout=said,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=cwd,
                process_group=0,
            )
        samples, stop = Samples(process.pid, is_worker), threading.Event()
        watcher = threading.Thread(target=samples.watch, args=(stop,))
        late = threading.Timer(seconds_max, os.killpg, (process.pid, signal.SIGKILL))
        watcher.start()
        late.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
        finally:
            late.cancel()
            stop.set()
            watcher.join()
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            said.seek(0)
            why = f"exit code {process.returncode} after {seconds:.0f} s"
            raise CrawlFailed(f"{Path(command[0]).name}: {why}:\n{said.read()[-OUTPUT_SHOWN:]}")
    return Usage(seconds, usage.ru_utime + usage.ru_stime, samples)


@contextlib.contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """This thread, and what it starts, on these cores until the block is left."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def descendants(root: int) -> list[int]:
    """`root` and the living processes below it."""
    found = [root]
    for pid in found:  # grows while it is read
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            found += [
                int(child) for t in threads for child in Path(f"/proc/{pid}/task/{t}/children").read_text().split()
            ]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return found


def resident(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return None


def anonymous(pid: int) -> int | None:
    """Resident bytes that are of no file: those of programs and libraries come and go with what others need."""
    try:
        _, pages, of_files, *_ = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(pages) - int(of_files)) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return None


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process, without its children's."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
