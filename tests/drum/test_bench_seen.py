"""The benchmark measures what it says: the stream it promises, exact verdicts of every system, one JSON line each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.__main__ import main
from bench.seen import beside, curves, plan, systems, table
from bench.seen.ours import DrumSystem, PythonSet
from bench.seen.register import register
from bench.seen.run import Order, Wrong, measure
from bench.seen.stream import Keys, by_site, splitmix64, stream, urls_of
from irlcrawl.base.keys import SITE_BITS

FIELDS = {
    "system", "store_keys", "keys", "keys_per_cpu_s", "keys_per_s", "read_bytes_per_key", "write_bytes_per_key",
    "disk_bytes_per_stored_key", "peak_rss_bytes", "verdict_delay_keys_max", "np_sort_ns",
}  # fmt: skip


def new_in(keys: Sequence[int], known: set[int]) -> int:
    """Brute force: how many were not known; they are now."""
    before = len(known)
    known.update(keys)
    return len(known) - before


@pytest.mark.parametrize("count", [0, 1000])
@pytest.mark.parametrize("uniform", [False, True])
def test_the_stream_is_one_tenth_new_and_tells_which(count: int, uniform: bool) -> None:
    known = set(splitmix64(np.arange(count, dtype=np.uint64)).tolist())
    keys: list[int] = []
    for batch in stream(300_000, count, seed=3, uniform=uniform):
        keys += batch.keys.tolist()
        assert new_in(batch.keys.tolist(), known) == batch.new
    new = len(known) - count
    assert new / len(keys) == pytest.approx(0.1, rel=0.05)
    numbers = splitmix64(np.arange(count + new, dtype=np.uint64))
    assert known == set(numbers.tolist()), "new URLs are numbered one after another"
    _, counts = np.unique(np.array(keys, np.uint64), return_counts=True)
    assert (counts.max() > len(keys) / 5) is not uniform, "⌊count·u¹⁰⌋ favours the first URLs"


def test_splitmix64_is_the_published_function() -> None:
    assert splitmix64(np.arange(2, dtype=np.uint64)).tolist() == [
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4,
    ]  # fmt: skip


def test_urls_differ_as_their_numbers_do() -> None:
    for length in (70, 110):
        urls = urls_of(np.arange(1000, dtype=np.uint64) << np.uint64(20), length).tolist()
        assert len(set(urls)) == 1000
        assert {len(url) for url in urls} == {length}
        assert all(url.startswith(b"http://www.site-") and url.endswith(b".html") for url in urls)


@pytest.mark.parametrize("count", [0, 5, 40_000, (1 << 20) + 5])
def test_ascending_keys_are_those_of_the_first_numbers(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "AT_ONCE", 1 << 18)
    keys = np.concatenate([*systems.ascending(count, tmp_path, parts=4), np.empty(0, np.uint64)])
    assert np.array_equal(keys, np.sort(splitmix64(np.arange(count, dtype=np.uint64))))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "uniform"),
    [*((name, False) for name in register()), ("drum", True), ("mercator-b", True), ("mercator-b+cache", True)],
)
def test_every_system_finds_what_is_new(name: str, uniform: bool, tmp_path: Path) -> None:
    """`measure` compares number and checksum of the verdicts with the stream's own."""
    kind = register()[name]
    ram_bytes = (1 if kind.module == "" else 64) << 20
    runs = plan.Bench(tmp_path, ram_bytes, 1, 0.8, 0, say=print)
    order = Order(name, "", 50_000, 400_000, ram_bytes, warm=1 << 18, uniform=uniform)
    try:
        row = runs.run(order)
    except plan.Failed as error:
        assert "make bench-venv" in str(error), error
        pytest.skip(str(error))
    assert row.keys() >= FIELDS
    assert row["falsely_seen"] == 0 or name == "bloom"
    assert row["new_keys"] == pytest.approx(0.1 * (400_000 + (1 << 18)), rel=0.05)
    assert name != "mercator-b" or row["merges"] >= 3
    assert not list(tmp_path.glob("run-*"))
    assert (tmp_path / f"seeded-{kind.seeded_as or name}-50000").exists() is kind.on_disk


def test_drum_hands_the_aux_of_every_new_key_back(tmp_path: Path) -> None:
    row = measure(Order("drum", str(tmp_path / "a"), 0, 300_000, 32 << 20, aux_bytes=70))
    assert row["aux_bytes_emitted"] == 70 * int(str(row["new_keys"]))
    with pytest.raises(systems.Refused, match="aux"):
        measure(Order("set", str(tmp_path / "b"), 0, 1000, 32 << 20, aux_bytes=70))


class Forgetful(PythonSet):
    """Takes the last new key of a batch for seen."""

    def check(self, keys: Keys) -> Keys:
        return super().check(keys)[:-1]


class Swapping(PythonSet):
    """Hands on as many keys as it should, one of them a wrong one."""

    def check(self, keys: Keys) -> Keys:
        new = super().check(keys)
        new[0] ^= np.uint64(1)
        return new


@pytest.mark.parametrize("liar", [Forgetful, Swapping])
def test_wrong_verdicts_give_no_number(liar: type[PythonSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.seen.run.register", lambda: {"set": liar})
    with pytest.raises(Wrong, match="set found"):
        measure(Order("set", str(tmp_path), 0, 100_000, 1 << 20))


def test_it_prints_a_json_line_for_each_system_and_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--json", "--keys", "2e5", "--store", "0,50000", "--systems", "drum,set", "--dir", str(tmp_path)]
    assert main(["seen", *options]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["system"], row["store_keys"]) for row in rows] == [
        ("drum", 0), ("set", 0), ("drum", 50_000), ("set", 50_000),
    ]  # fmt: skip
    kept = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["system"], row["keys_per_s"]) for row in kept] == [(row["system"], row["keys_per_s"]) for row in rows]
    for row in rows:
        assert row.keys() >= FIELDS
        assert row["keys"] == 200_000
        assert row["keys_per_cpu_s"] > 0
        assert row["verdict_delay_keys_max"] <= 200_000


def test_a_missing_library_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(systems.Missing, match="the package rocksdict is not installed: make bench-venv"):
        systems.library("no_such_module", "rocksdict")


def test_what_it_does_not_know_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sen"]) == 4
    assert "no benchmark 'sen'; there are:" in capsys.readouterr().err
    assert main(["seen", "--systems", "drum,redis"]) == 4
    assert "no system 'redis'; there are: drum, rocksdb" in capsys.readouterr().err
    assert main(["seen", "--store", "12"]) == 4
    assert "without --keys, --store is of 0, 2e7, 1e8 and 1e9" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "seen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bench", "options", "said"),
    [
        ("seen", ["--keys", "0"], "argument --keys: a whole number of at least 1, not 0"),
        ("seen", ["--keys", "many"], "argument --keys: invalid number value: 'many'"),
        ("seen", ["--keys", "1e5", "--store", "1e5,-5"], "argument --store: a whole number of at least 0, not -5"),
        ("seen", ["--keys", "1e5", "--duplicates", "1.5"], "argument --duplicates: a share is from 0 to 1, not 1.5"),
        ("seen", ["--keys", "1e5", "--ram-mib", "0"], "argument --ram-mib: a whole number of at least 1, not 0"),
        ("seen", ["--keys", "1e5", "--aux-bytes", "-3"], "argument --aux-bytes: a whole number of at least 0, not -3"),
        ("seen", ["--keys", "1e5", "--rounds", "nan"], "argument --rounds: a whole number of at least 1, not nan"),
        ("model", ["--ram-mib", "0"], "argument --ram-mib: a whole number of at least 1, not 0"),
        ("model", ["--surviving", "0"], "argument --surviving: a share is above 0 to 1, not 0"),
        ("dedupe", ["--line-bytes", "3"], "argument --line-bytes: a whole number of at least 20, not 3"),
    ],
)
def test_numbers_that_make_no_sense_were_tracebacks(
    bench: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([bench, *options])
    assert ended.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(said)


def test_a_directory_that_cannot_be_made_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["seen", "--keys", "1e5", "--systems", "drum", "--dir", "/dev/null/x"]) == 4
    assert "bench seen --dir: [Errno 20] Not a directory: '/dev/null/x'" in capsys.readouterr().err


def test_a_stream_of_repeats_alone_has_one_key(tmp_path: Path) -> None:
    row = measure(Order("drum", str(tmp_path / "a"), 0, 300_000, 1 << 22, duplicates=1.0))
    assert (row["new_keys"], row["keys"]) == (1, 300_000)


def test_ratios_need_five_rounds() -> None:
    def rounds(count: int) -> list[plan.Row]:
        return [
            {"case": "c", "system": name, "round": i, "keys_per_cpu_s": speed * (i + 1), "falsely_seen": 0}
            for i in range(count)
            for name, speed in (("drum", 100), ("lmdb", 10 + i))
        ]

    assert all("drum_times" not in row for row in table.medians(rounds(4)))
    drum, lmdb = table.medians(rounds(5))
    assert drum["keys_per_cpu_s"] == 300
    assert lmdb["drum_times"] == [8.33, 7.14, 10.0]
    assert lmdb["rounds"] == 5


def test_a_copied_store_shares_only_what_never_changes(tmp_path: Path) -> None:
    source = tmp_path / "store"
    source.mkdir()
    (source / "00000001.seg").write_bytes(b"x")
    (source / "catalog.log").write_bytes(b"y")
    systems.clone(source, tmp_path / "copy", DrumSystem.immutable)
    assert (tmp_path / "copy" / "00000001.seg").stat().st_nlink == 2
    assert (tmp_path / "copy" / "catalog.log").stat().st_nlink == 1
    assert (tmp_path / "copy" / "catalog.log").read_bytes() == b"y"


def test_curves_are_drawn_from_the_printed_lines(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="make bench-venv")
    row = {"repeats": "skewed", "new_keys": 10, "read_bytes_per_key": 1.0, "write_bytes_per_key": 0.5}
    rows = [
        {**row, "system": name, "store_keys": size, "keys_per_cpu_s": speed}
        for name, size, speed in (("drum", 100, 9), ("drum", 10, 10), ("lmdb", 10, 2), ("lmdb", 100, 1))
    ]
    assert curves.points([*rows, {**rows[0], "repeats": "uniform"}])["drum"] == [(15, 10, 1.5), (105, 9, 1.5)]
    (tmp_path / "rows").write_text("\n".join(map(json.dumps, rows)))
    assert curves.main([str(tmp_path / "rows"), str(tmp_path / "a.svg")]) == 0
    assert curves.main([str(tmp_path / "rows"), str(tmp_path / "b.svg")]) == 0
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes(), "the same rows, the same file"


def test_curves_of_nothing_are_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments, or with a file that is not there, it was a traceback."""
    with pytest.raises(SystemExit, match="2"):
        curves.main([])
    assert "ROWS.jsonl" in capsys.readouterr().err
    assert curves.main([str(tmp_path / "none"), str(tmp_path / "a.svg")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_what_takes_too_long_is_left_out_and_what_is_never_tried_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of hours was allowed three of them, and then ended the whole benchmark."""
    monkeypatch.setattr(plan, "RUN_SECONDS_MAX", 0.01)
    said: list[str] = []
    runs = plan.Bench(tmp_path, 1 << 20, 1, 0.9, 0, said.append)
    case = plan.Case("c", 0, 1000, 1000, 0, left_out=(("lmdb", "it is large"),))
    assert list(runs.rounds((case,), ["set", "lmdb"], 2)) == []
    assert "LEFT OUT lmdb on c: it is large" in said
    assert said.count("SKIPPED set on c: not done after 0.01 seconds") == 1
    assert not any("lmdb, 1,000 links" in words for words in said)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_merge_beside_a_crawl_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("LINKS", 3_000_000), ("SETTLE_SECONDS", 1.0), ("BEFORE_SECONDS", 3.0)):
        monkeypatch.setattr(beside, name, value)
    if main(["seen", "--beside-crawl", "--json", "--store", "2e5", "--workers", "1", "--dir", str(tmp_path)]) != 0:
        pytest.skip(capsys.readouterr().err)
    row = json.loads(capsys.readouterr().out)
    assert row["fetch_rate_before"] > 0
    assert row["lease_wait_ms_p50"] <= row["lease_wait_ms_p99"] <= row["lease_wait_ms_max"]
    assert row["new_keys"] == pytest.approx(300_000, rel=0.05)
    assert not (tmp_path / "beside").exists()


@pytest.mark.parametrize("zipf", [False, True])
def test_keys_go_by_site(zipf: bool) -> None:
    numbers = np.arange(100_000, dtype=np.uint64)
    keys = by_site(50, zipf)(numbers)
    assert len(np.unique(keys)) == len(keys) and np.array_equal(keys, by_site(50, zipf)(numbers))
    sizes = np.sort(np.unique(keys >> np.uint64(64 - SITE_BITS), return_counts=True)[1])[::-1]
    assert len(sizes) <= 50 and (sizes[0] > 5 * sizes[20] if zipf else sizes[0] < 3 * sizes[-1])
