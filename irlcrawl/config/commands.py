"""Which commands of a configuration may run: those that the operator has allowed for this JOB on this machine.

A configuration, and a JOB with one in it, may come from a stranger, unpacked by the user that runs the crawl: owner and
mode of the file then say nothing. So a command runs only if the operator typed it (an option of `crawl` or `resume`,
`irlcrawl set`) or said once that what the files say is theirs (`--allow-commands`). That is remembered outside JOB, a
line for each command: a digest of JOB's path, the key and the command, so another JOB, place or word asks again.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.terminal import words

KEYS = ("archive.on_warc_closed", "hooks.command", "cluster.ray")
"""The last is no command; but a Ray cluster is given the user's token, and what it answers is unpickled."""
_MEANS = {
    "": "this command would run as you",
    "cluster.ray": "who answers there gets your token, and could run code as you",
}
FILE = Path("irlcrawl") / "allowed-commands"
"""Below $XDG_STATE_HOME, or ~/.local/state."""


def named(config: Config) -> dict[str, str]:
    """The commands of a configuration, by key."""
    texts = {key: getattr(getattr(config, key.split(".")[0]), key.split(".")[1]) for key in KEYS}
    return {key: text for key, text in texts.items() if text.strip()}


def allow(job: Path, commands: Mapping[str, str]) -> None:
    """They may run for a crawl in `job` from now on. Where that cannot be remembered stderr says so."""
    known = _known()
    digests = [_digest(job, key, text) for key, text in commands.items()]
    lines = "".join(f"{digest}\n" for digest in digests if digest not in known)
    if not lines:
        return
    file = _file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as stream:
            stream.write(lines)
    except OSError as error:
        told = f"irlcrawl: {file}: {error.strerror}; --allow-commands will be needed again"
        print(words.shown(told), file=sys.stderr)


def check(job: Path, commands: Mapping[str, str]) -> None:
    """ConfigError for a command that the operator has not allowed for a crawl in `job`."""
    known = _known() if commands else frozenset()
    for key, text in commands.items():
        if _digest(job, key, text) not in known:
            raise ConfigError(
                f"{key} = {text!r}: a file says so, and {_MEANS.get(key, _MEANS[''])}; if it is yours, give the option "
                "--allow-commands once (of crawl and resume), or set it: irlcrawl set JOB "
                f"{key}={'HOST:PORT' if key in _MEANS else 'COMMAND'}"
            )


def _digest(job: Path, key: str, text: str) -> str:
    parts = (os.path.realpath(job), key, text)
    return hashlib.sha256(b"\0".join(part.encode("utf-8", "surrogateescape") for part in parts)).hexdigest()


def _file() -> Path:
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".local/state") / FILE


def _known() -> frozenset[str]:
    """The digests; none where others could have written them."""
    try:
        with open(_file(), encoding="ascii", errors="replace") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return frozenset()
            return frozenset(stream.read().split())
    except OSError:
        return frozenset()
