"""JOB/logs/steering.log: who steered the crawl, when, how, and what came of it. A line each time, tab-separated:

    time (UTC), user, verb, arguments (JSON), result

A line is on the disk before the verb answers, and after what it changed is: a change that was answered is in it.
"""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Sequence
from typing import NamedTuple

from drum import Files

from irlcrawl.base.job import JobDir

RESULT_MAX = 4000
"""Characters of a result that are kept; of the arguments as many."""


class Steered(NamedTuple):
    time: str
    by: str
    verb: str
    arguments: str
    result: str


def user_name(uid: int | None = None) -> str:
    """The name of a user, this process's own by default; the number where it has none."""
    number = os.getuid() if uid is None else uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def note(job: JobDir, files: Files, now: float, by: str, verb: str, arguments: Sequence[str], result: str) -> None:
    """Write a line, durable on return. now: unix seconds. OSError."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    said = json.dumps(list(arguments), ensure_ascii=False)[:RESULT_MAX]
    line = "\t".join([at, by, verb, said, " ".join(result.split())[:RESULT_MAX]]) + "\n"
    handle = files.append(job.steering_log)
    try:
        files.write(handle, line.encode("utf-8", "backslashreplace"))
        files.fsync(handle)
    finally:
        files.close(handle)


def note_start(job: JobDir, files: Files, now: float, edited: Sequence[str], given: Sequence[str]) -> None:
    """Write down what a start has changed: what it found edited in irlcrawl.toml, and what it was given. OSError."""
    for arguments, changed in ((["irlcrawl.toml was edited"], edited), ([], given)):
        if changed:
            note(job, files, now, user_name(), "start", arguments, "; ".join(changed))


def read(job: JobDir) -> list[Steered]:
    """Every line, the oldest first; a torn last one is left out. OSError."""
    try:
        text = job.steering_log.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    parts = (line.split("\t") for line in text.split("\n")[:-1])
    return [Steered(*fields) for fields in parts if len(fields) == len(Steered._fields)]
