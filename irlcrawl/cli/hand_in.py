"""Handing URLs to a crawl, whether it runs or not: a harvest of the seeds' stream is written beside the state, and the
running crawl gives it its name, or it lies there under its name for the next start."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from irlcrawl.base.job import JobDir, JobError, JobLocked, command
from irlcrawl.base.job_files import SEEDS_STREAM, harvest_name, returns_name
from irlcrawl.cli.alone import check_alone
from irlcrawl.config.toml import load_stored
from irlcrawl.crawl.control import ask
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import unheard

if TYPE_CHECKING:
    from drum import Catalog

ROUNDS, ANSWER_SECONDS, WAIT_SECONDS = 5, 30.0, 2.0
"""A crawl that starts, ends, or takes in other URLs meanwhile is asked again so often."""

Make: TypeAlias = "Callable[[Catalog, Callable[[int], str]], str | None]"
"""Writes the harvest to the path that its number gives; what the journal is to say of it, or None if there is nothing
to hand in. FileNotFoundError when a turn deleted meanwhile what it read."""


def hand_in(job: JobDir, verb: str, arguments: Sequence[str], make: Make) -> bool:
    """Whether a running crawl took it, or has no need to. JobError when it did not, several times; JobLocked."""
    for left in reversed(range(ROUNDS)):
        running = ask(job.socket, "status") is not None
        try:
            if (_beside if running else _alone)(job, verb, arguments, make):
                return running
        except JobLocked:  # by a crawl that starts: soon it answers
            if not left:
                raise
    raise JobError(f"{job.locked_by()}, which starts or ends, or takes in other URLs, each time; run the command again")


def _catalog(job: JobDir) -> Catalog | None:
    """None before the first commit."""
    from irlcrawl.frontier.state import formats

    try:
        return formats.look(job.state)
    except FileNotFoundError:
        return None


def _alone(job: JobDir, verb: str, arguments: Sequence[str], make: Make) -> bool:
    from drum import Files

    from irlcrawl.crawl import journal

    with job:
        check_alone(job)
        if (catalog := _catalog(job)) is None or catalog.get("crawl") is None:
            if verb == "seeds":
                raise JobError(f"{job.path}: its crawl ended before it took any seeds; start it with all of them")
            return True
        told = make(catalog, lambda number: os.fspath(job.state / harvest_name(SEEDS_STREAM, number)))
        if told is not None:
            journal.note(job, Files(), time.time(), journal.user_name(), verb, arguments, told)
    return True


def _beside(job: JobDir, verb: str, arguments: Sequence[str], make: Make) -> bool:
    """False when the crawl did not take this one, and may take another."""
    from irlcrawl.crawl.returns import BUSY, TAKEN

    if (catalog := _catalog(job)) is None:
        job.wait_unlocked(WAIT_SECONDS)
        return False
    path = job.state / returns_name(os.getpid())
    try:
        told = make(catalog, lambda number: os.fspath(path))
        if told is None:
            return True
        request = {"file": path.name, "verb": verb, "arguments": list(arguments), "result": told}
        answer = ask(job.socket, "hand_in", seconds=ANSWER_SECONDS, **request)
    except FileNotFoundError:  # a turn took in, and deleted, what had waited for it
        return False
    finally:
        path.unlink(missing_ok=True)  # one that was taken has another name now
    if answer == BUSY:
        job.wait_unlocked(WAIT_SECONDS)
    return bool(answer == TAKEN)


def tell_handed_in(name: str, urls: int, running: bool) -> None:
    with unheard(sys.stdout):
        if running:
            print(f"handed {words.plural(urls, 'seed')} to the crawl that runs; see {command('status', name)}")
        else:
            print(f"{words.plural(urls, 'seed')} for the next start\ngo on:     {command('resume', name)}")


def hand_in_seeds(job: JobDir, urls: list[bytes]) -> bool:
    """Whether the crawl runs, and took them."""
    config = load_stored(job.config_file)

    def make(catalog: Catalog, path_of: Callable[[int], str]) -> str:
        from drum.sectors import Sectors

        from irlcrawl.crawl.returns import Drawing, of_seeds
        from irlcrawl.crawl.seeding import write_harvest

        drawing = Drawing(job, catalog, Sectors(), of_seeds(urls))
        again = list(drawing.rows(config))
        number, seed = drawing.number, catalog.get("crawl")["seed"]
        write_harvest(Sectors(), path_of(number), number, config, seed, urls, again)
        return f"{words.plural(len(urls), 'seed')}, {sum(drawing.counts.values())} of them to be asked again"

    shown = [url.decode("ascii", "backslashreplace") for url in urls[:20]]
    return hand_in(job, "seeds", shown + ["..."] * (len(urls) > 20), make)
