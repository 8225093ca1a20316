"""A crawl, from a locked JOB to an exit code: what `irlcrawl crawl` calls when everything has been checked."""

from __future__ import annotations

import gc
import importlib
import os
from typing import TYPE_CHECKING

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir
from irlcrawl.base.memory import one_heap, plain_arrays
from irlcrawl.config.keys import Config
from irlcrawl.worker.fetch.process import fork_workers

if TYPE_CHECKING:
    from irlcrawl.terminal.progress import Progress

SHARED = (
    "drum",  # first: it sees to how numpy sorts, which must not be loaded yet
    "uvloop", "irlcrawl.worker.fetch.wire", "irlcrawl.worker.harvest.builder", "irlcrawl.worker.harvest.context",
    "irlcrawl.worker.archive.warc", "irlcrawl.worker.archive.crawl_log",
)  # fmt: skip
"""With what these load, all that both frontier and workers need."""


def run_crawl(job: JobDir, config: Config, seeds: list[bytes], *, progress: Progress) -> ExitCode:
    """Write the configuration into JOB and crawl until done, stopped or at a limit. JOB's lock is held by the caller.
    `seeds` is emptied once they are on the disk: a million of them would take 285 MB, in workers too, to the end.
    Raises OSError (the disk), JobError (JOB cannot be written), Damaged."""
    assert job.lock_fds, "whoever runs a crawl holds its lock"
    gc.disable()  # loading makes objects that stay: a third of its time went into looking for garbage among them
    one_heap()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing here multiplies matrices
    # Else the heap where a large array once lay is made of huge pages for ever, which the kernel fills up again
    # whenever memory.py gives them back: a frontier grew by one every ten minutes.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    for name in SHARED:
        importlib.import_module(name)
    gc.freeze()  # a collection would write to memory that all processes have in common
    workers = fork_workers(job.path, job.lock_fds, config.crawl.workers or os.cpu_count() or 1, seeds.clear)
    from irlcrawl.crawl.supervisor import Supervisor

    plain_arrays()
    gc.freeze()
    gc.enable()
    try:
        return Supervisor(job, config, progress).run(seeds, workers)
    finally:
        gc.freeze()  # the process is about to end: spare it a last look
