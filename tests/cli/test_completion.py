"""Completion in bash, zsh and fish: verbs, options and files, as each shell offers them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from irlcrawl.cli.main import VERBS

CONTRIB = Path(__file__).resolve().parents[2] / "contrib"
TYPED = {
    "un": ["unblock", "unpause"],
    "retry my-crawl --re": ["--reason"],
    "worker-node --fr": ["--frontier"],
    "status my": ["my-crawl"],
}
"""What stands behind `irlcrawl `, and what is offered for its last word."""
IRLCRAWL = f"{sys.executable} -m irlcrawl"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "my-crawl").mkdir()
    return tmp_path


def run(shell: str, here: Path, script: str) -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its completion was not tried")
    name = here / "script"
    name.write_text(script)
    command = [shell, *({"fish": ["--no-config"], "zsh": ["-f"]}.get(shell, [])), str(name)]
    environment = {**os.environ, "HOME": str(here), "TERM": "dumb"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=here, check=True, stdin=subprocess.DEVNULL, env=environment
    )
    return done.stdout


def test_bash_is_offered_verbs_options_and_files(here: Path) -> None:
    lines = [f'irlcrawl() {{ {IRLCRAWL} "$@"; }}', f"source '{CONTRIB}/irlcrawl.bash'"]
    for typed in ("", *TYPED):
        words = [f"'{word}'" for word in ("irlcrawl", *(typed.split() or [""]))]
        lines.append(
            f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _irlcrawl; echo "${{COMPREPLY[@]}}"'
        )
    verbs, *told = run("bash", here, "\n".join(lines)).splitlines()
    assert sorted(verbs.split()) == sorted(VERBS)
    assert [line.split() for line in told] == list(TYPED.values())


def test_fish_is_offered_verbs_with_what_they_do_options_and_files(here: Path) -> None:
    asked = "".join(f"complete -C 'irlcrawl {typed}'; echo\n" for typed in TYPED)
    script = f"""
        function irlcrawl; {IRLCRAWL} $argv; end
        source {CONTRIB}/irlcrawl.fish
        complete -C 'irlcrawl '; echo
        {asked}
    """
    verbs, *told = run("fish", here, script).strip().split("\n\n")
    assert dict(line.split("\t") for line in verbs.splitlines()) == {name: verb.help for name, verb in VERBS.items()}
    assert [[line.split("\t")[0].rstrip("/") for line in lines.splitlines()] for lines in told] == list(TYPED.values())


ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ./init; echo r''eady'
zpty -r shell said '*ready*'
for typed in {typed}; do
    zpty -w -n shell "irlcrawl $typed"$'\\C-X'
    zpty -r shell said '*<irlcrawl*>*'
    print -r -- "${{${{said##*<irlcrawl }}%%>*}}"
done
zpty -d shell
"""
INIT = """
irlcrawl() {{ {irlcrawl} "$@"; }}
autoload -U compinit; compinit -u -D
source '{contrib}/_irlcrawl'
complete-and-tell() {{ zle complete-word; print -r -- "<$BUFFER>"; BUFFER=; }}
zle -N complete-and-tell; bindkey '^X' complete-and-tell
PS1=
"""


def test_an_interactive_zsh_completes_verbs_options_and_files(here: Path) -> None:
    (here / "init").write_text(INIT.format(irlcrawl=IRLCRAWL, contrib=CONTRIB))
    wanted = {"unp": ["unpause"], **{typed: offered for typed, offered in TYPED.items() if typed != "un"}}
    typed = " ".join(f"'{one}'" for one in wanted)
    told = run("zsh", here, ZSH.format(typed=typed)).splitlines()
    assert [line.rstrip(" /").split()[-1:] for line in told] == list(wanted.values())
