"""Values that make no sense are wrong usage of a benchmark, told at once and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import main

WRONG = {
    "budgets --fetches 0": "--fetches: a whole number of at least 1, not 0",
    "budgets --rate 0": "--rate: a number above 0, not 0",
    "budgets --seeds 5-1": "--seeds: no numbers in 5-1",
    "budgets --seeds one": "--seeds: invalid number value: 'one'",
    "budgets --jobs 0": "--jobs: a whole number of at least 1",
    "budgets --policies mine": "--policies: no 'mine'; there are breadth-first,",
    "budgets --set wheels=4": "--set: no parameter 'wheels'; there are seed,",
    "budgets --set farms=many": "--set: farms is a whole number, not 'many'",
    "budgets --set good_share=2": "--set: good_share is from 0 to 1, not 2",
    "budgets --set site_pages_mean=0": "--set: site_pages_mean is above 0, not 0",
    "budgets --arrivals -4": "--arrivals: a whole number of at least 1",
    "budgets --plots nowhere": "--plots: there is no nowhere/budgets.jsonl; a run with --curves nowhere writes it",
    "crash --every 0": "--every: a number above 0, not 0",
    "crawl --rounds 1.5": "--rounds: a whole number of at least 1, not 1.5",
    "outage --seconds inf": "--seconds: a number above 0, not inf",
    "politeness --hosts 0": "--hosts: a whole number of at least 1",
    "resume --seen 1000 --queued 1e6": "--queued: 1000000 URLs are among --seen 1000",
    "soak --hours nan": "--hours: a number above 0, not nan",
    "worker --lease 0": "--lease: a whole number of at least 1",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_value_that_makes_no_sense_is_refused_by_name(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert WRONG[words] in capsys.readouterr().err


@pytest.mark.parametrize("name", ["budgets", "crash", "crawl", "outage", "resume", "soak"])
def test_a_directory_that_cannot_be_made_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SystemExit) as ended:
        main([name, "--dir", str(file)])
    assert ended.value.code == 2
    assert f"--dir: no directory can be made at {file}: File exists" in capsys.readouterr().err
