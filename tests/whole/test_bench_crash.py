"""`python -m bench crash`, small: real kills, judged by the server's log and the archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import _jobs, crash, outage
from tools.docsweb.sets import DocswebError, cache_dir, chosen, unpacked


@pytest.mark.slow
def test_real_kills_lose_nothing_and_repeat_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """I2, I3, I5 from outside."""
    try:
        _, missing = unpacked(chosen("gtk"), cache_dir())
    except DocswebError as error:
        pytest.skip(str(error))
    if missing:
        pytest.skip(str(missing))
    options = ["--kills", "3", "--every", "1", "--mirrors", "0", "--sets", "gtk", "--json", "--dir", str(tmp_path)]
    assert crash.main(options) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["lost"], told["twice"], told["broken_records"], told["early_requests"]) == (0, 0, 0, 0)
    assert sum(told["kills"].values()) == 3
    assert told["repeated"] <= told["open_visits"]


def test_a_broken_promise_is_said_and_ended_with_1() -> None:
    """They ended with 0 whatever had been lost, or charged."""
    kept = {"lost": 0, "twice": 0, "broken_records": 0, "early_requests": 0, "repeated": 3, "open_visits": 3}
    assert crash.broken_promises(kept) == []
    for name in crash.NONE_OF_THESE:
        assert crash.broken_promises({**kept, name: 2}) == [f"{name} is 2"]
    assert len(crash.broken_promises({**kept, "repeated": 4})) == 1


def test_what_is_broken_ends_a_benchmark_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = _jobs.parser("x", "What.").parse_args(["--json", "--dir", str(tmp_path)])
    assert _jobs.run(lambda *_: {"lost": 1}, options, "x", lambda told: [f"lost is {told['lost']}"]) == 1
    assert "bench x: lost is 1" in capsys.readouterr().err
    assert _jobs.run(lambda *_: {"lost": 0}, options, "x") == 0


def test_an_outage_that_somebody_was_charged_for_ends_with_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = dict.fromkeys(outage.NONE_OF_THESE, 0)
    monkeypatch.setattr(outage, "measure", lambda *_: told)
    assert outage.main(["--dir", str(tmp_path)]) == 0
    told["retries"] = 2
    assert outage.main(["--dir", str(tmp_path)]) == 1
