"""A few seconds of what `python -m tests.fuzz` does for hours, and what it found."""

from __future__ import annotations

import gzip
import os
import random
from contextlib import suppress
from pathlib import Path

from drum import Damaged, Files

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.lists import ranked_floors
from irlcrawl.config.toml import apply, load, override
from irlcrawl.crawl.seeds import SeedsError, read_ranks
from irlcrawl.worker.archive.reader import records
from irlcrawl.worker.archive.unit import Unit
from irlcrawl.worker.fetch.wire import Decoder, WireError
from tests.fuzz import __main__ as fuzzer
from tests.fuzz.mutate import BYTES_MAX, mutated
from tests.fuzz.parsers import FOUND, PARSERS, Parser


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), data=st.binary(max_size=200))
def test_a_parser_gives_what_it_promised_or_refuses(name: str, seed: int, data: bytes) -> None:
    seeds, check = PARSERS[name]()
    check(data)
    check(mutated(seeds, random.Random(seed))[:8192])


@pytest.mark.parametrize("name", sorted(os.listdir(FOUND)) if FOUND.is_dir() else [])
def test_what_was_found_is_found_no_more(name: str) -> None:
    PARSERS[name.partition("-")[0]]()[1]((FOUND / name).read_bytes())


def test_what_is_found_is_kept_once_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(data: bytes) -> None:
        assert b"\0" not in data
        data.decode()

    monkeypatch.setitem(PARSERS, "tried", lambda: Parser([b"\0", b"\xff"], check))
    monkeypatch.setattr(fuzzer, "FOUND", tmp_path / "found")
    assert not fuzzer.fuzz("tried", 0.05, 5)
    kept = sorted(path.name.partition("-")[0] for path in (tmp_path / "found").iterdir())
    assert kept == ["tried", "tried"]
    monkeypatch.setitem(PARSERS, "tried", lambda: Parser([b""], lambda data: None))
    assert fuzzer.fuzz("tried", 0.01, 5)


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=3), st.integers(0, 2**32))
def test_a_mutation_is_one_of_its_seed_and_bounded(seeds: list[bytes], seed: int) -> None:
    assert len(mutated(seeds, random.Random(seed))) <= BYTES_MAX
    assert mutated(seeds, random.Random(seed)) == mutated(seeds, random.Random(seed))


@pytest.mark.parametrize("text", [b"[" * 5000, b'{"a":' * 5000])
def test_a_unit_of_many_brackets_in_a_strangers_archive_ended_its_reader(text: bytes) -> None:
    """By a RecursionError, which nobody takes for damage."""
    with pytest.raises(ValueError, match="not so deep"):
        Unit.from_json(text, b"http://a.test/")


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "[" + "a." * 5000 + "a]", "a = " + "9" * 5000])
def test_a_configuration_of_many_brackets_was_a_traceback(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError):
        load(tmp_path / "x.toml")
    with suppress(ConfigError):
        override(f"{text[:10]}={text[4:]}")


def test_a_frame_of_many_brackets_ended_its_reader_by_another_error_than_a_wire_error() -> None:
    body = b"[" * 5000
    with pytest.raises(WireError, match="not JSON"):
        list(Decoder().feed(len(body).to_bytes(4, "little") + body))


def test_a_number_of_seconds_with_hundreds_of_digits_was_a_traceback() -> None:
    with pytest.raises(ConfigError, match=r"fetch\.read_seconds"):
        apply(Config(), override("fetch.read_seconds=" + "3" * 400))


def test_a_rank_of_thousands_of_digits_was_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "ranks").write_text("1" * 5000 + ",a.test\n")
    with pytest.raises(SeedsError, match="is not rank,domain"):
        read_ranks(str(tmp_path / "ranks"), 10)
    config = Config()
    config.budgets.ranks_file = str(tmp_path / "ranks")
    with pytest.raises(ConfigError, match="is not rank,domain"):
        ranked_floors(config)


def test_a_record_whose_length_has_thousands_of_digits_is_damage(tmp_path: Path) -> None:
    record = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nx\r\n\r\n"
    (tmp_path / "x.warc.gz").write_bytes(gzip.compress(record))
    with pytest.raises(Damaged, match="without a length"):
        list(records(Files(), str(tmp_path / "x.warc.gz")))
