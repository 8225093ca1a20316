"""Values that make no sense are wrong usage of a benchmark or a tool, told at once and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import main
from tools.docsweb import __main__ as docsweb
from tools.sampleweb import __main__ as sampleweb
from tools.simweb import __main__ as simweb

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


TOOLS = {"docsweb": docsweb.main, "sampleweb": sampleweb.main, "simweb": simweb.main}
WRONG_OF_TOOLS = {
    "docsweb up DIR --mirrors -1": "--mirrors: a whole number of at least 0, not -1",
    "docsweb up DIR --port 99999": "--port: a whole number from 0 to 65535, not 99999",
    "docsweb up FILE": "no directory can be made at",
    "docsweb audit DIR --gap-host -1": "--gap-host: a number of at least 0, not -1",
    "sampleweb serve FILE": "no directory can be made at",
    "sampleweb demo --dir FILE": "no directory can be made at",
    "simweb serve DIR --addresses 0": "--addresses: a whole number from 1 to 64, not 0",
    "simweb serve DIR --speed -1": "--speed: a number of at least 0, not -1",
    "simweb measure --pages 0": "--pages: a whole number of at least 1, not 0",
}


@pytest.mark.parametrize("words", WRONG_OF_TOOLS)
def test_a_tool_refuses_it_too(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    name, *rest = words.replace("DIR", str(tmp_path / "new")).replace("FILE", str(tmp_path / "file")).split()
    with pytest.raises(SystemExit) as ended:
        TOOLS[name](rest)
    assert ended.value.code == 2
    assert WRONG_OF_TOOLS[words] in capsys.readouterr().err
