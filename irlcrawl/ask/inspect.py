"""JOB in words: its configuration, its outcomes, its files, and the next command to run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from irlcrawl.base.job import JobDir, command
from irlcrawl.base.job_files import CONFIG, CRAWL_LOG, HISTORY, LOGS, OPEN, STATE, WARC_SUFFIXES, WARCS
from irlcrawl.config.keys import Config, keys, value_of
from irlcrawl.config.toml import load_stored
from irlcrawl.crawl import status
from irlcrawl.terminal import words


def describe(job: JobDir, name: str) -> list[str]:
    """Lines of text; `name` is JOB as the person wrote it. Raises JobDamaged, ControlError, drum's Damaged, OSError."""
    record = status.read_status(job)  # first: another version's configuration is no damage
    config = load_stored(job.config_file)
    return [
        f"{job.path}: a crawl by irlcrawl",
        "",
        "What was asked for (other keys have their defaults)",
        *_indent(_changed(config)),
        "",
        "How far it is",
        *_indent(status.lines(record)),
        "",
        "What is on the disk",
        *_indent(_places(job)),
        "",
        "What to do next",
        *_indent(_next(name, str(record["state"]))),
    ]


def _indent(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _changed(config: Config) -> Iterator[str]:
    for key in keys():
        if key.single and (value := value_of(config, key)) != key.default:
            yield f"{key.path} = {', '.join(value) if isinstance(value, list) else value}"
    for rule in config.priority:
        yield f"priority: {rule.match} {rule.weight:+d}"
    for again in config.revisit_rule:
        given = (f"{name} {value:g}" for name, value in vars(again).items() if name != "match" and value is not None)
        yield f"revisit_rule: {again.match} {', '.join(given)}"
    for spelled in config.url_rule:
        given = (f"{name} {value}" for name, value in vars(spelled).items() if name != "match" and value is not None)
        yield f"url_rule: {spelled.match} {', '.join(given)}"
    for site, overrides in config.site.items():
        given = (f"{name} {value}" for name, value in vars(overrides).items() if value is not None)
        yield f"{site}: {', '.join(given)}"


def _places(job: JobDir) -> Iterator[str]:
    closed, open_ = _measure(job.warcs, WARC_SUFFIXES), _measure(job.warcs, OPEN)
    text = f"{words.plural(closed[0], 'archive file')}, {words.size(closed[1])}"
    if open_[0]:
        text += f", and {open_[0]} not closed yet, {words.size(open_[1])}"
    yield f"{WARCS + '/':<16}{text}: WARC 1.1, for any tool that reads it; never deleted"
    yield f"{STATE + '/':<16}{words.plural(*_files(job.state))}: what is known and what waits; needed to go on"
    yield f"{LOGS + '/':<16}{words.plural(*_files(job.logs))}: {CRAWL_LOG} has a line for every outcome"
    if job.history.exists():
        yield f"{HISTORY:<16}how it went, for up to a year: `irlcrawl watch`"
    yield f"{CONFIG:<16}the configuration it last ran with"


def _files(directory: Path) -> tuple[int, str, str]:
    number, size = _measure(directory)
    return number, f"file, {words.size(size)}", f"files, {words.size(size)}"


def _measure(directory: Path, suffix: str | tuple[str, ...] = "") -> tuple[int, int]:
    """(files, bytes) of the files in `directory` that end with `suffix`; a running crawl may delete some meanwhile."""
    number = size = 0
    if not directory.is_dir():
        return 0, 0
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(suffix):
                try:
                    size += entry.stat().st_size
                except FileNotFoundError:
                    continue
                number += 1
    return number, size


def _next(name: str, state: str) -> Iterator[str]:
    if state in status.ALIVE:
        now = [
            (("status", name, "--watch"), "watch it"),
            (("stop", name), "end it cleanly; it can go on later"),
        ]
    else:
        now = [(("resume", name), "go on, or with URLs: add seeds")]
    always = [
        (("urls", name, "--status", "failed"), "what could not be fetched, and why"),
        (("urls", name, "--status", "excluded"), "what was left out, and why"),
        (("get", name, "URL"), "a page out of the archive"),
    ]
    lines = [(command(*parts), what) for parts, what in (*now, *always)]
    width = max(len(line) for line, _ in lines)
    yield from (f"{line:{width}}   {what}" for line, what in lines)
