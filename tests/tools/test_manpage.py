"""The manual page: every verb and option is there, and it is roff that man takes without a warning."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.cli.main import VERBS
from tools.manpage import CODES, commands, markdown, page


def test_every_verb_and_option_is_explained() -> None:
    text = "\n".join(page())
    for command in commands():
        assert f".SS {command.name}".replace("-", r"\-") in text
        assert all(option.help for option in command.options), command.name
    assert [command.name for command in commands()] == list(VERBS)
    for option in ("--seeds FILE", "--dry-run", "--slow", "--measure"):
        assert option.replace("-", r"\-") in text
    assert text.count(".SS") == "\n".join(markdown()).count("\n## ")


def test_defaults_and_choices_were_written_as_argparse_has_them() -> None:
    """`(default: %(default)s)`, and `--by BY`."""
    usages = {option.usage: option.help for command in commands() for option in command.options}
    assert usages["--lists K"].endswith("(default: 1)") and not any("%(" in text for text in usages.values())
    assert {"--by site|host", "--http [ADDRESS]"} <= set(usages)


def test_every_exit_code_is_explained() -> None:
    assert set(CODES) == set(ExitCode)
    told = [line.removeprefix(".B ") for line in page()]
    codes = [int(line) for line in told if line.isdigit()]
    assert codes == sorted(ExitCode), "those of configuration came first"


def test_man_takes_it(tmp_path: object) -> None:
    lint = next((tool for tool in ("mandoc", "groff") if shutil.which(tool)), None)
    if lint is None:
        pytest.skip("neither mandoc nor groff is at hand to check the manual page")
    command = (
        ["mandoc", "-T", "lint", "-W", "warning"] if lint == "mandoc" else ["groff", "-man", "-Tutf8", "-ww", "-z"]
    )
    done = subprocess.run(command, input="\n".join(page()) + "\n", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
