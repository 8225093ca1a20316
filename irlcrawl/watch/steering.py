"""From what the page asks for to a verb of the command line. Each is run as a process of its own, as a person would: so
it checks, answers, and is logged alike, and works for a crawl that does not run.

The page may do less than a person at a shell: a person with its token must not be able to run commands or to read files
by way of the configuration. Arguments reach no shell, and none can be taken for an option.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from irlcrawl.config.keys import ConfigError

ARGUMENTS_MAX, ARGUMENT_CHARS_MAX = 100, 4096
SEEDS_BYTES_MAX = 32 << 20
ANSWER_CHARS_MAX = 100_000
SECONDS_MAX = 600.0

SECTIONS = frozenset(("limits", "politeness", "scope", "fetch", "page", "budgets", "frontier", "revisit", "robots"))
KEYS_AT_SHELL = frozenset(("machine_clocks", "headers", "signature_agent"))
SITE_KEYS = frozenset((
    "gap_host_seconds", "bytes_per_second", "hours", "time_zone", "pages_max", "depth_max", "budget_min", "types",
    "length_max", "block", "pause", "revisit_weight", "revisit_every_min_seconds", "revisit_every_max_seconds",
))  # fmt: skip


class Asked(NamedTuple):
    """arguments: behind `irlcrawl`. text: for its standard input."""

    arguments: list[str]
    text: str | None = None


def _plain(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    return [verb, job, *arguments]


def _named(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    """Names, and `pattern:RE2`."""
    patterns = [text.removeprefix("pattern:") for text in arguments if text.startswith("pattern:")]
    names = [text for text in arguments if not text.startswith("pattern:")]
    return [verb, job, *(f"--pattern={pattern}" for pattern in patterns), *names]


def _prefer(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    if len(arguments) != 2:
        raise ConfigError("prefer takes a host or a URL, and a weight or `off`")
    what, weight = arguments
    if what.startswith("-"):
        raise ConfigError(f"{what}: a host or a URL comes first")
    return [verb, job, what, "--off" if weight == "off" else f"--weight={weight}"]


def _retry(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    """`reason=...`, `status=...`, `host=...`."""
    if not arguments or any(text.partition("=")[0] not in ("reason", "status", "host") for text in arguments):
        raise ConfigError("retry takes reason=..., status=... or host=...")
    return [verb, job, *(f"--{text}" for text in arguments)]


def _set(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    if not arguments:
        raise ConfigError("set takes SECTION.KEY=VALUE")
    for text in arguments:
        if not may_set(text):
            raise ConfigError(f"{text.partition('=')[0]}: is set at a shell only (`irlcrawl set`), not from this page")
    return [verb, job, *arguments]


def may_set(text: str) -> bool:
    """Whether this is `section.key=...` or `site."name".key=...` of a key that leads to no file and no command."""
    if match := re.match(r'site\.(?:"[^"=]+"|[\w-]+)\.(\w+)=', text, re.ASCII):
        return match[1] in SITE_KEYS
    match = re.match(r"(\w+)\.(\w+)=", text, re.ASCII)
    return (
        match is not None and match[1] in SECTIONS and not match[2].endswith("_file") and match[2] not in KEYS_AT_SHELL
    )


def _none(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    if arguments:
        raise ConfigError(f"{verb} takes no arguments")
    return [verb, job]


def _slow(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    """What keeps the crawl from being faster."""
    return [*_none(job, "why", arguments), "--slow"]


def _one(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    if len(arguments) != 1:
        raise ConfigError(f"{verb} takes one URL, host or site")
    return [verb, job, *arguments]


def _seeds(job: str, verb: str, arguments: Sequence[str]) -> list[str]:
    return [*_none(job, verb, arguments), "--seeds=-"]


VERBS: dict[str, Callable[[str, str, Sequence[str]], list[str]]] = {
    "seeds": _seeds, "retry": _retry, "set": _set, "block": _named, "unblock": _named, "pause": _plain,
    "unpause": _plain, "prefer": _prefer, "stop": _none, "why": _one, "slow": _slow,
    "report": _none,
}  # fmt: skip


def asked(job: Path, request: Any) -> Asked:
    """What a request `{"verb", "arguments", "text"}` asks for. ConfigError."""
    if not isinstance(request, dict) or not isinstance(request.get("verb"), str) or request["verb"] not in VERBS:
        raise ConfigError(f"no verb of this page; its verbs are {', '.join(VERBS)}")
    verb, arguments, text = request["verb"], request.get("arguments", []), request.get("text")
    if not isinstance(arguments, list) or len(arguments) > ARGUMENTS_MAX:
        raise ConfigError(f"{verb}: arguments are a list of at most {ARGUMENTS_MAX} texts")
    for argument in arguments:
        if not isinstance(argument, str) or not 0 < len(argument) <= ARGUMENT_CHARS_MAX:
            raise ConfigError(f"{verb}: an argument is a text of at most {ARGUMENT_CHARS_MAX} characters")
        weight = verb == "prefer" and re.fullmatch(r"-?\d{1,9}", argument, re.ASCII)
        if (argument.startswith("-") and not weight) or not argument.isprintable():
            raise ConfigError(f"{verb}: {argument[:100]!r}: begins with `-`, or has characters that cannot be printed")
    if verb == "seeds" and not (isinstance(text, str) and text.strip()):
        raise ConfigError("seeds takes a URL a line")
    return Asked(VERBS[verb](os.fspath(job), verb, arguments), text if verb == "seeds" else None)


async def run(what: Asked) -> tuple[int, str]:
    """(exit code, what it said). OSError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "irlcrawl", *what.arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    try:
        said, _ = await asyncio.wait_for(process.communicate((what.text or "").encode("utf-8", "replace")), SECONDS_MAX)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return process.returncode, said.decode("utf-8", "replace")[:ANSWER_CHARS_MAX].strip()
