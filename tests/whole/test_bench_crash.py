"""`python -m bench crash`, small: real kills, judged by the server's log and the archives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench import _jobs, crash, outage
from tools.docsweb import serve
from tools.docsweb.sets import DocswebError, cache_dir, chosen, unpacked


@pytest.mark.slow
def test_real_kills_lose_nothing_and_repeat_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """I2, I3, I5 from outside."""
    try:
        _, missing = unpacked(chosen("gtk"), cache_dir())
        serve.program("nginx")
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


def test_a_payload_that_was_stored_for_another_url_is_not_lost(tmp_path: Path) -> None:
    """58,612 of 129,735 pages were called lost: those of mirrors, stored as `revisit`."""
    record = "WARC/1.1\r\nWARC-Type: {}\r\nWARC-Record-ID: <urn:uuid:{}>\r\nWARC-Target-URI: http://{}/\r\n"
    record += "WARC-Date: 2026-01-01T00:00:0{}Z\r\n{}Content-Length: 0\r\n\r\n\r\n\r\n"
    refers = "WARC-Refers-To-Target-URI: http://{}/\r\nWARC-Refers-To-Date: 2026-01-01T00:00:00Z\r\n"
    records = [
        record.format("response", 1, "a", 0, ""),
        record.format("revisit", 2, "b", 1, refers.format("a")),
        record.format("revisit", 3, "c", 2, refers.format("d")),
    ]
    (tmp_path / "x.warc.gz").write_bytes(b"".join(gzip.compress(one.encode()) for one in records))
    found, broken = crash.archive(tmp_path)
    assert sorted(found) == ["http://a/", "http://b/", "http://c/"]
    assert broken == 1  # the page d is not there


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
