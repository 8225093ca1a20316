"""A crawl, from a locked JOB to an exit code: what `irlcrawl crawl` calls when everything has been checked."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from irlcrawl.config import Config
from irlcrawl.fetch.process import start_worker
from irlcrawl.job import ExitCode, JobDir

if TYPE_CHECKING:
    from irlcrawl.seeds import Seed
    from irlcrawl.watch.progress import Progress


def run_crawl(job: JobDir, config: Config, seeds: Sequence[Seed], *, progress: Progress) -> ExitCode:
    """Write the configuration into JOB and crawl until done, stopped or at a limit. JOB's lock is held by the caller.
    Raises OSError (the disk), JobError (JOB cannot be written), Damaged."""
    assert job.lock_fd is not None, "whoever runs a crawl holds its lock"
    first = start_worker(job.path, job.lock_fd)  # it loads while we do
    gc.disable()  # loading makes objects that stay: a third of its time went into looking for garbage among them
    from irlcrawl.frontier.supervisor import Supervisor

    gc.freeze()
    gc.enable()
    try:
        return Supervisor(job, config, progress).run(seeds, first)
    finally:
        gc.freeze()  # the process is about to end: spare it a last look
