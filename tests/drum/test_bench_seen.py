"""The benchmark measures what it says: the stream it promises, exact verdicts, one JSON line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.__main__ import main
from bench.seen import splitmix64, stream


def test_the_stream_is_one_tenth_new_and_the_rest_repeats() -> None:
    keys = np.concatenate(list(stream(300_000, 1000, seed=3)))
    known = set(splitmix64(np.arange(1000, dtype=np.uint64)).tolist())
    new = 0
    for key in keys.tolist():
        if key not in known:
            known.add(key)
            new += 1
    assert new / len(keys) == pytest.approx(0.1, rel=0.05)
    numbers = splitmix64(np.arange(1000 + new, dtype=np.uint64))
    assert known == set(numbers.tolist()), "new URLs are numbered one after another"
    _, counts = np.unique(keys, return_counts=True)
    assert counts.max() > len(keys) / 4, "⌊count·u¹⁰⌋ favours the first URLs"


def test_splitmix64_is_the_published_function() -> None:
    assert splitmix64(np.arange(2, dtype=np.uint64)).tolist() == [
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4,
    ]  # fmt: skip


def test_it_prints_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["seen", "--json", "--links", "1500000", "--store", "50000", "--merge-rows", "20000"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bench"] == "seen"
    assert found["merges"] >= 5
    assert found["keys_per_cpu_s"] > 0
    assert found["store_keys_after"] - 50_000 == pytest.approx(150_000, rel=0.05)
    assert {"keys_per_s", "peak_rss_bytes", "bytes_read_per_link", "bytes_written_per_link"} <= found.keys()


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sen"]) == 4
    assert "no benchmark 'sen'; there are:" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "seen" in capsys.readouterr().out
