"""Work on archives, several at a time, each in a process of its own that gives way to others (a crawl, above all)."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from multiprocessing import forkserver, resource_tracker
from typing import TypeVar

from drum.files import Damaged

from irlcrawl.base.job import JobError

T = TypeVar("T")
R = TypeVar("R")

NICENESS = 10
_PR_SET_PDEATHSIG = 1


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def each(
    work: Callable[[T], R], items: Sequence[T], jobs: int, damaged: list[Damaged]
) -> Generator[tuple[T, R], None, None]:  # fmt: skip
    """(item, work(item)) as they are done. With `jobs` of 1, or one item, all is done in this process. `work` is a
    function of a module, or a partial of one. Items of which it says that they are Damaged are left out: what is wrong
    with them is added to `damaged`. Raises what `work` raises else; JobError if a process was killed. A caller that
    stops taking items, or is interrupted, does not wait for the rest."""
    with closing(_tried(partial(_try, work), items, min(jobs, len(items)))) as tried:
        for item, done in tried:
            if isinstance(done, Damaged):
                damaged.append(done)
            else:
                yield item, done


def _try(work: Callable[[T], R], item: T) -> R | Damaged:
    try:
        return work(item)
    except Damaged as error:
        return error


def _tried(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Generator[tuple[T, R], None, None]:
    """(item, work(item)) as they are done."""
    if jobs < 2:
        for item in items:
            yield item, work(item)
        return
    # Processes are forked from one that has no threads: the one that draws a progress bar has.
    context = multiprocessing.get_context("forkserver")
    _start_server()
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, context, _begin) as pool:
        running: dict[Future[R], T] = {}
        left = iter(items)
        try:
            for item in left:
                running[pool.submit(work, item)] = item
                if len(running) > jobs:  # one waits, so that no process does
                    yield from _done(running)
            while running:
                yield from _done(running)
        except BrokenProcessPool:
            raise JobError("a process of the export was killed, perhaps for want of memory; try fewer --jobs") from None
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            raise


def _start_server() -> None:
    """The process that forks others keeps signals of the terminal from them until `_begin` does: one that came while
    they loaded their modules gave tracebacks."""
    resource_tracker.ensure_running()  # before: at its end it lets SIGINT through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _done(running: dict[Future[R], T]) -> Iterator[tuple[T, R]]:
    """Wait for at least one."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


def _begin() -> None:
    """The process ends with its parent, and leaves signals of the terminal to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(NICENESS)
