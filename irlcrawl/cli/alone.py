"""Whether this process has JOB to itself, for the verbs that write to it."""

from __future__ import annotations

from irlcrawl.base.job import JobDir
from irlcrawl.crawl.control import ControlError, NotOurs, ask


def check_alone(job: JobDir) -> None:
    """JobLocked when a crawl answers although its locks could be had."""
    try:
        alone = ask(job.socket, "status") is None
    except NotOurs:
        alone = True
    except ControlError:
        alone = False
    if not alone:
        raise job.unlocked_in_use()
