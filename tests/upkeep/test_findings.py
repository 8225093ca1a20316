"""What a person sees of a long check."""

from __future__ import annotations

import pytest

from irlcrawl.upkeep.findings import Lines, TerminalBar


def test_a_long_check_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    bar = Lines(clock=lambda: now)
    bar.stage("archives", 1000)
    bar.read(400)
    now = 11.0
    bar.read(100)
    assert capsys.readouterr().err == "archives: 1.0 kB\narchives: 50% of 1.0 kB\n"
    terminal = TerminalBar()
    terminal.stage("archives", 1000)
    terminal.read(500)
    terminal.say("note: [x] is told as it is")
    terminal.stage("what waits", 26)
    terminal.close()
    err = capsys.readouterr().err
    assert "1.0/1.0 kB" in err.splitlines()[-2] and "0/26 bytes" in err.splitlines()[-1]  # it was 26 of 1,000
    assert "archives" in err and "note: [x] is told as it is" in err
