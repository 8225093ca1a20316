"""`python -m bench feed`: workers that answer at once, behind both carriers."""

from __future__ import annotations

import json

import pytest

from bench.__main__ import main


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["tcp", "pipes"])
def test_a_frontier_feeds_workers_that_answer_at_once(carrier: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--pages", "1500", "--seeds", "800", "--machines", "1", "--workers", "2", "--harvest-seconds", "1"]
    assert main(["feed", "--carrier", carrier, "--json", *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pages"] == 1500 and told["links_a_page"] > 5 and told["links_waiting"] == 0
    assert (told["bytes_a_page_in"] > 50) == (carrier == "tcp")
