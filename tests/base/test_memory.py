"""I4: what a process freed is the system's again, holes in its heap included."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drum import Files

import numpy as np

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.job import JobDir
from irlcrawl.base.memory import TRIM_S, Trim
from irlcrawl.config.keys import Config
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.worker.fetch import service

if TYPE_CHECKING:
    from irlcrawl.crawl.loop import CrawlLoop

PIECE, PIECES = 40_000, 2000


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


PROGRAM = """
import resource, sys
import numpy as np
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.memory import TRIM_S, Trim

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

clock = VirtualClock()
trim = Trim(clock, keep=sys.argv[1] == "keep")
before = pages()
for _ in range(10):
    batches = [np.ones(1_000_000, np.uint8) for _ in range(20)]
    del batches
print(pages() - before)
clock.advance(TRIM_S)
trim.now_and_then()
with open("/proc/self/statm") as stream:
    print(int(stream.read().split()[1]))
"""


def test_who_keeps_freed_memory_does_not_ask_for_it_again_until_all_is_given_back() -> None:
    """A tenth of a turn was page faults for batches that had just been freed."""
    runs = [[sys.executable, "-c", PROGRAM, word] for word in ("keep", "give")]
    (faults, after), (often, least) = (
        map(int, subprocess.run(run, capture_output=True, check=True, text=True).stdout.split()) for run in runs
    )
    assert faults < 10_000 < often
    assert after < least + 500


def test_i4_holes_between_what_lives_are_given_back() -> None:
    """Half a worker was freed memory that glibc kept."""
    clock = VirtualClock()
    trim = Trim(clock)
    pieces = [b"x" * PIECE for _ in range(PIECES)]
    kept = pieces[::2]
    before = resident()
    del pieces
    trim.now_and_then()  # too early
    assert not trim.due and resident() > before - PIECE * PIECES / 8
    clock.advance(TRIM_S)
    assert trim.due
    trim.now_and_then()
    assert not trim.due and resident() < before - PIECE * PIECES / 4
    assert len(kept) == PIECES // 2


SMALL = """
import sys
import threading
import numpy as np
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.memory import TRIM_S, Trim, plain_arrays

def resident():
    clock.advance(TRIM_S)
    trim.now_and_then()
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1])

def work():
    if sys.argv[1] == "plain":
        plain_arrays()
    before = resident()
    between = []
    for size in range(1, 1024):
        between.append(b"x" * 20_000)
        arrays = [np.empty(size, np.uint8) for _ in range(7)]
        del arrays
    between.clear()
    print(resident() - before)

clock = VirtualClock()
trim = Trim(clock)
work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_i4_small_blocks_that_numpy_kept_held_a_page_each() -> None:
    """For hours they came from all over the heap, 3.6 MB of them, and kept twice as much from being given back."""
    runs = [[sys.executable, "-c", SMALL, word] for word in ("plain", "numpy's")]
    plain, kept = (
        list(map(int, subprocess.run(run, capture_output=True, check=True, text=True).stdout.split())) for run in runs
    )
    assert max(plain) < 200 and kept[0] > 1000, "the second time numpy has what it keeps"


PLAIN = """
import numpy as np
from irlcrawl.base.memory import plain_arrays

before = np.arange(3)
plain_arrays()
array = np.zeros((1000, 3), np.int64)
array += before
array.resize((5, 3), refcheck=False)
joined = np.concatenate((array, array)).astype("S4")
assert np._core.multiarray.get_handler_name(joined) == "irlcrawl", "numpy was not told"
print(array.sum(), joined[9].tolist())
del before, array, joined
"""


TRACED = """
import tracemalloc
import numpy as np
from irlcrawl.base.memory import plain_arrays

tracemalloc.start()
plain_arrays()
arrays = [np.ones(1_000_000, np.uint8)]
print(tracemalloc.get_traced_memory()[0] < 1_500_000)
tracemalloc.stop()
plain_arrays()
arrays += [np.ones(size, np.uint8) for size in range(1000)]
print(np._core.multiarray.get_handler_name(arrays[-1]))
"""


def test_plain_arrays_of_a_traced_process_were_counted_twice_and_its_end_crashed() -> None:
    """What Python allocates by while tracemalloc runs is tracemalloc's, which is of no use when that has stopped."""
    run = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "True\nirlcrawl\n"), run.stderr


def test_plain_arrays_are_arrays() -> None:
    run = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, check=True, text=True)
    assert run.stdout == "15 [b'0', b'1', b'2']\n"


THREAD = """
import sys, threading
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.memory import TRIM_S, Trim, one_heap

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1])

if sys.argv[1] == "one":
    one_heap()
clock = VirtualClock()
trim = Trim(clock, keep=True)
before = resident()

def turn():
    pieces = [b"x" * 100_000 for _ in range(300)]
    del pieces
    clock.advance(TRIM_S)
    trim.now_and_then()
    print(resident() - before)

thread = threading.Thread(target=turn)
thread.start()
thread.join()
"""


def test_i4_what_a_thread_freed_is_given_back() -> None:
    """A frontier stayed as large as its largest turn: threads have heaps whose end malloc_trim leaves as it is."""
    runs = [[sys.executable, "-c", THREAD, word] for word in ("one", "many")]
    one, many = (int(subprocess.run(run, capture_output=True, check=True, text=True).stdout) for run in runs)
    assert one < 1000 < many


APART = """
import sys
from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.memory import Trim

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1])

trim = Trim(VirtualClock()) if sys.argv[1] == "apart" else None
bytearray(8 << 20)  # from now on glibc, left alone, takes as large a piece from the heap
before = resident()
for _ in range(50):
    pieces = [(bytearray(1_000_000), bytearray(2_000)) for _ in range(20)]
    kept = [small for _, small in pieces]
    del pieces
print(resident() - before)
"""


def test_i4_a_large_piece_leaves_no_hole_among_small_ones() -> None:
    """Workers were a sixth larger after half an hour: small pieces settled where large ones had been."""
    runs = [[sys.executable, "-c", APART, word] for word in ("apart", "left alone")]
    apart, alone = (int(subprocess.run(run, capture_output=True, check=True, text=True).stdout) for run in runs)
    assert apart < 500 < alone


PAGES = """
import gzip, random, resource
from irlcrawl.worker.archive.record import member
from irlcrawl.base.clock import VirtualClock
from irlcrawl.web.coding import decode
from irlcrawl.base.memory import Trim

trim = Trim(VirtualClock())
page = random.Random(1).randbytes(5000).hex().encode() * 25
packed = gzip.compress(page)
lives = [bytes(size) for size in (100_000, 10_000) for _ in range(400)]  # no holes that loading left are between it
for number in range(210):
    if number == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    member(b"request", 1)
    member(b"response" + packed, 1, len(packed))
    decode(packed, "gzip", 1 << 20)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 200 / (len(page) / resource.getpagesize()))
"""


def test_a_large_page_is_new_memory_once() -> None:
    """Half of what workers took in the kernel was page faults, for the memory of isal at each record and for two copies
    of a large page that was decoded, among others."""
    run = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, check=True, text=True)
    assert float(run.stdout) < 1.1


SEEDED = """
import sys
from irlcrawl.crawl import start as crawl
from irlcrawl.config.keys import Config
from irlcrawl.base.job import JobDir
from irlcrawl.crawl.seeds import read_seeds
from irlcrawl.terminal.progress import Progress

config = Config()
config.crawl.user_agent, config.crawl.workers = "Test/1 (+https://example.org/)", 1
forked, fork = [], crawl.fork_workers
def watched(job, lock, count, forget):
    forked.append(forget == seeds.clear)
    return fork(job, lock, count, forget)
crawl.fork_workers = watched
seeds = read_seeds(urls=["http://127.0.0.1:9/"])  # an address that is refused: nothing is asked
with JobDir(sys.argv[1]) as job:
    code = crawl.run_crawl(job, config, seeds, progress=Progress())
print(int(code), len(seeds), forked)
"""


def test_i4_seeds_stayed_in_memory_to_the_end_of_the_crawl(tmp_path: Path) -> None:
    """Those of the command that started it, in the frontier and, forked off it, in every worker."""
    command = [sys.executable, "-c", SEEDED, str(tmp_path / "job")]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip() == "16 0 [True]"


LOADED = """
import sys
import irlcrawl.cli.main
from irlcrawl.crawl import start as crawl
from irlcrawl.config.keys import Config
from irlcrawl.base.job import JobDir

class Loaded(Exception): pass
def fork(*_): raise Loaded
crawl.fork_workers = fork
job = JobDir(sys.argv[1])
job.acquire()
try:
    crawl.run_crawl(job, Config(), [], progress=None)
except Loaded:
    import numpy._core.multiarray as arrays
    print(arrays._get_madvise_hugepage())
"""


def test_i4_large_arrays_leave_no_huge_pages_in_the_heap(tmp_path: Path) -> None:
    """The kernel filled them up again after they had been given back: a frontier grew by 2 MiB in ten minutes."""
    command = [sys.executable, "-c", LOADED, str(tmp_path / "job")]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip() == "False"


def handler() -> object:
    """Who makes the arrays of this thread."""
    return np._core.multiarray.get_handler_name()


def test_i4_turns_make_plain_arrays(tmp_path: Path) -> None:
    clock, config = VirtualClock(), Config()
    config.crawl.user_agent = "Test/1 (+https://example.org/)"
    with JobDir(tmp_path / "job") as job, contextlib.closing(CrawlState.open(job, config, clock)) as state:
        turns = CrawlLoop(state, config, clock).turns
        assert turns._thread.submit(handler).result() == "irlcrawl" != handler()


def test_i4_threads_of_a_worker_make_plain_arrays(tmp_path: Path) -> None:
    async def look() -> object:
        ours, theirs = socket.socketpair()
        served = asyncio.ensure_future(service.serve(theirs, tmp_path, Files()))
        await asyncio.sleep(0)
        made_by = await asyncio.get_running_loop().run_in_executor(None, handler)
        ours.close()
        await served
        return made_by

    assert asyncio.run(look()) == "irlcrawl" != handler()
