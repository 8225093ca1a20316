"""`python -m tools.manpage`: the manual page irlcrawl(1), made of the parsers of the command line.

    python -m tools.manpage > irlcrawl.1
    python -m tools.manpage --markdown > commands.md     # the same for the documentation site

`python -m tools.dist` puts it into the distributions.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import irlcrawl
from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli.main import VERBS, _Parser
from irlcrawl.crawl.status import ENDED

SYNOPSIS = "polite crawler of the web that one person runs on one machine"
CODES = {
    ExitCode.CONFIG: "configuration, command line or seeds are wrong; nothing was touched",
    ExitCode.LOCKED: "the directory is in use by a running crawl",
    **ENDED,
}


class Option(NamedTuple):
    """What a person writes (`--seeds FILE`), and what it does."""

    usage: str
    help: str


class Command(NamedTuple):
    name: str
    usage: str
    help: str
    options: list[Option]


def commands() -> list[Command]:
    """Every verb with its arguments, but for options that only repeat a configuration key."""
    found = []
    for name, verb in VERBS.items():
        parser = _Parser(f"irlcrawl {name}", usage=verb.usage, description=verb.help, allow_abbrev=False)
        verb.arguments(parser)
        options = [
            Option(_usage(action), (action.help or "") % {"default": action.default})
            for action in parser._actions
            if action.help not in (None, argparse.SUPPRESS) and "--help" not in action.option_strings
        ]
        found.append(Command(name, verb.usage.replace("%(prog)s", f"irlcrawl {name}"), verb.help, options))
    return found


def _usage(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    takes = "" if action.nargs == 0 else metavar or "|".join(action.choices or ()) or action.dest.upper()
    if takes and action.option_strings and action.nargs == "?":
        takes = f"[{takes}]"
    return f"{', '.join(action.option_strings)} {takes}".strip()


def page() -> Iterator[str]:
    """Lines of roff, in the macros of man(7)."""
    yield f'.TH IRLCRAWL 1 "" "irlcrawl {irlcrawl.__version__}" "User Commands"'
    yield from (".SH NAME", rf"irlcrawl \- {SYNOPSIS}", ".SH SYNOPSIS", ".B irlcrawl", r"\fIVERB\fR \fIJOB\fR ...")
    yield ".SH DESCRIPTION"
    yield r"\fIJOB\fR is the directory of a crawl. Every configuration key is explained by \fBirlcrawl config\fR."
    yield ".SH VERBS"
    for command in commands():
        yield f".SS {_escaped(command.name)}"
        yield from (f".B {_escaped(command.usage)}", ".PP", _escaped(_sentence(command.help)))
        for option in command.options:
            yield from (".TP", f".B {_escaped(option.usage)}", _escaped(_sentence(option.help)))
    yield ".SH EXIT STATUS"
    for code, text in sorted(CODES.items()):
        yield from (".TP", f".B {int(code)}", _escaped(_sentence(text)))
    yield from (".SH FILES", ".TP", r".I JOB/irlcrawl.toml", "The configuration that the crawl goes by.")
    yield from (".TP", r".I JOB/warcs", "Archives.", ".TP", r".I JOB/logs/crawl.log", "A line for every outcome.")


def markdown() -> Iterator[str]:
    """The same as a page of the documentation site."""
    yield from ("# Commands", "", "Each has `--help`. `JOB` is the directory of a crawl.", "")
    for command in commands():
        yield from (f"## {command.name}", "", f"`{command.usage}`", "", _sentence(command.help), "")
        if command.options:
            yield from ("| argument | what it does |", "|---|---|")
            for option in command.options:
                yield f"| `{_cell(option.usage)}` | {_cell(_sentence(option.help))} |"
            yield ""


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ")")) else ".")


def _escaped(text: str) -> str:
    """Text that roff takes as it is: no escapes, no request at the start of a line, hyphens that can be copied."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


def main() -> None:
    lines = markdown() if sys.argv[1:] == ["--markdown"] else page()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
