"""The completion for bash: verbs, options and files, as bash asks for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from irlcrawl.cli.main import VERBS

SCRIPT = Path(__file__).resolve().parents[2] / "contrib" / "irlcrawl.bash"


def completed(cwd: Path, *words: str) -> list[str]:
    typed = " ".join(f"'{word}'" for word in ("irlcrawl", *words))
    script = f"""
        irlcrawl() {{ '{sys.executable}' -m irlcrawl "$@"; }}
        source '{SCRIPT}'
        COMP_WORDS=({typed}); COMP_CWORD={len(words)}
        _irlcrawl && printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=cwd, check=True)
    return told.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("",), [*VERBS]),
        (("un",), ["unblock", "unpause"]),
        (("retry", "my-crawl", "--re"), ["--reason"]),
        (("status", "my"), ["my-crawl"]),
    ],
)
def test_bash_is_offered_verbs_options_and_files(tmp_path: Path, words: tuple[str, ...], expected: list[str]) -> None:
    (tmp_path / "my-crawl").mkdir()
    assert sorted(completed(tmp_path, *words)) == sorted(expected)
