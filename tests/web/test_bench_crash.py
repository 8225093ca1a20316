"""`python -m bench crash`, small: real kills, judged by the server's log and the archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import crash
from tools.docsweb.sets import DocswebError, cache_dir, chosen, unpacked


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
