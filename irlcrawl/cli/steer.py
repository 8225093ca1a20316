"""Asking for a change of how a crawl goes on: of the crawl that runs, or of what its next start does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobLocked, command
from irlcrawl.cli.alone import check_alone
from irlcrawl.cli.hand_in import ROUNDS, WAIT_SECONDS
from irlcrawl.config.keys import ConfigError
from irlcrawl.crawl.control import ask
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import unheard

ANSWER_SECONDS = 30.0


def steer(path: str, verb: str, arguments: Sequence[str]) -> int:
    """Do a verb of crawl/steering.py, and print what it changed. ConfigError, JobError."""
    job = JobDir(path).require()
    job.check_usable()
    for _ in range(ROUNDS):
        answer = ask(job.socket, "steer", seconds=ANSWER_SECONDS, verb=verb, arguments=list(arguments))
        if answer is None and (answer := _steer_at_rest(job, verb, arguments)) is not None:
            return _tell(path, verb, answer, running=False)
        if answer is not None and not answer.get("busy"):
            return _tell(path, verb, answer, running=True)
        job.wait_unlocked(WAIT_SECONDS)
    raise JobLocked(f"{job.locked_by()}, which does not answer (it may be starting or ending); try again")


def _steer_at_rest(job: JobDir, verb: str, arguments: Sequence[str]) -> dict[str, Any] | None:
    """None when a crawl has JOB after all."""
    from irlcrawl.crawl.steering import steer_at_rest

    try:
        with job:
            check_alone(job)
            steering = steer_at_rest(job, verb, arguments, time.time())
    except JobLocked:
        return None
    return {"changed": steering.changed, "hints": steering.hints}


def _tell(path: str, verb: str, answer: dict[str, Any], running: bool) -> int:
    if refused := answer.get("refused"):
        raise ConfigError(refused)
    with unheard(sys.stdout):
        for line in answer["changed"]:
            print(words.shown(line))
        if not answer["changed"]:
            unread = verb == "reload" and not running
            print("irlcrawl.toml is read when the crawl goes on" if unread else "nothing changed: it was so already")
            return ExitCode.DONE
        go_on = "crawl" if verb == "pause" else "resume"  # which would end the pause
        print("the crawl goes on with it within seconds" if running else f"go on:     {command(go_on, path)}")
        for hint in answer["hints"]:
            print(words.shown(hint.replace("irlcrawl retry JOB", command("retry", path))))
    return ExitCode.DONE
