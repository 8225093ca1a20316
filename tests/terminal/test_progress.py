"""What a person sees of a long check."""

from __future__ import annotations

import pytest

from irlcrawl.terminal.progress import LineBar, TerminalBar, urls


def test_a_long_check_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    bar = LineBar(clock=lambda: now)
    bar.stage("archives", 1000)
    bar.read(400)
    now = 11.0
    bar.read(100)
    assert capsys.readouterr().err == "archives: 1.0 kB\narchives: 50% of 1.0 kB\n"
    terminal = TerminalBar()
    terminal.stage("archives", 1000)
    terminal.read(500)
    terminal.note("note: [x] is told as it is")
    bar.stage("what waits", 26, urls)
    terminal.stage("what waits", 26, urls)
    terminal.read(13)
    terminal.close()
    err = capsys.readouterr().err
    assert "what waits: 26 URLs\n" in err
    assert "1.0 kB of 1.0 kB" in err.splitlines()[-2], "what was skipped is over: it was 26 of 1,000"
    assert "13 URLs of 26 URLs" in err.splitlines()[-1]
    assert "archives" in err and "note: [x] is told as it is" in err


def test_nothing_is_said_of_work_that_has_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    """`irlcrawl snapshot` into a file or pipe said `: 100% of `."""
    bar = LineBar(clock=lambda: 1e6)
    bar.read(50)
    assert capsys.readouterr().err == ""
