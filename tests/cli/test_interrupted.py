"""Ctrl-C while Python loads the crawler: it was a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from irlcrawl.base.exit_codes import ExitCode

LOADING = """
class Loading:
    def find_spec(self, name, *_):
        if name == "irlcrawl.{module}":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Loading())
"""
WITHIN = {
    "cli": LOADING.format(module="cli.main"),
    "what a crawl needs": LOADING.format(module="crawl.start"),
    "a dataclass": """
from irlcrawl.cli import verbs_crawl as verbs
class Interrupting:
    def __set_name__(self, *_):
        raise KeyboardInterrupt
verbs.crawl = lambda *_: type("Class", (), {"field": Interrupting()})
""",
}
COMMAND = """
import sys
{within}
from irlcrawl.__main__ import main
sys.argv[1:] = ["crawl", {job!r}, "http://127.0.0.1:9/", "--user-agent", "x/1 (+http://a.test/)"]
sys.exit(main())
"""


SIGNALLED = """
import signal
from irlcrawl.base.job import JobDir
signal.signal({number}, signal.SIG_DFL)  # whoever runs the tests may ignore it: a shell does, in the background
text = "import signal; signal.raise_signal({number}); signal"
JobDir.check_configured = lambda _: exec(text)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_dataclass_is_made_was_death_by_sigint(number: int, tmp_path: Path) -> None:
    """Of `python -m irlcrawl`, one in thirty in the first second: where it hit text that Python executes."""
    code = COMMAND.format(within=SIGNALLED.format(number=int(number)), job=str(tmp_path / "job"))
    (tmp_path / "begun.py").write_text(f"import sys; sys.path.insert(0, {os.getcwd()!r})\n{code}")
    words = [sys.executable, "-m", "begun"]  # only of a module does Python look at what it remembers
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


@pytest.mark.parametrize("within", WITHIN)
def test_an_interrupt_before_anything_was_begun_is_no_traceback(within: str, tmp_path: Path) -> None:
    job = tmp_path / "job"
    code = COMMAND.format(within=WITHIN[within], job=str(job))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")
    assert not job.exists()
