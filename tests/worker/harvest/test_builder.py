"""Harvest files and the robots log: what goes in comes out, duplicates only leave when they are duplicates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from drum import Batch, Damaged, Files, Segment

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.reasons import Class, Reason
from irlcrawl.base.rows import Carried
from irlcrawl.worker.harvest import rules_log
from irlcrawl.worker.harvest.builder import CHUNK_ROWS, WAITING_UNITS_MAX, Fact, HarvestBuilder, RecentKeys, UnitRows
from irlcrawl.worker.harvest.counters import COUNTERS
from irlcrawl.worker.harvest.rules_log import RulesLog, TornText
from irlcrawl.worker.harvest.sections import LABEL_ROWS

ARTICLE = [chr(97 + at % 26) * (at % 7 + 1) + chr(97 + at % 23) for at in range(300)]


def outcome(cls: int = Class.FETCHED, reason: int = Reason.OK, status: int = 200, size: int = 10) -> tuple[Any, ...]:
    return (1, 2, 3, 4, cls, reason, status, size, b"a line")


def link(key: int) -> tuple[Any, ...]:
    return (key, 1, 2, Carried(depth=3, source=2, priority=6, via=b"http://a.test/"), b"http://a.test/%d" % key)


def columns(path: Path, section: str) -> Batch:
    found = Segment.open(Files(), path).sections[section]
    return Batch.concat([Batch.empty(found.schema), *found.scan()])


def builder(place: Path, number: int = 0) -> HarvestBuilder:
    return HarvestBuilder(Files(), str(place), 7, VirtualClock(), number)


KEYS = st.integers(0, 30) | st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(KEYS) | KEYS))
def test_recent_keys_never_invent_and_find_repeats_at_once(calls: list[list[int] | int]) -> None:
    """Against a table of eight places: each has the last key of the calls before; what is the first of its call, and
    not there, is fresh. A call is of many keys or of one."""
    recent = RecentKeys(bits=3)
    table: dict[int, int] = {}
    for call in calls:
        keys = [call] if isinstance(call, int) else call
        fresh = [recent.one_fresh(call)] if isinstance(call, int) else recent.fresh(np.array(keys, np.uint64)).tolist()
        known = [key != 0 and table.get(key % 8) == key for key in keys]
        assert fresh == [not known[at] and key not in keys[:at] for at, key in enumerate(keys)]
        table.update((key % 8, key) for key in keys)


def test_sections_counters_and_position(tmp_path: Path) -> None:
    made = builder(tmp_path, number=5)
    assert made.empty and made.write((0, 0)) is None
    made.add(
        UnitRows(
            outcome(),
            links=[link(1), link(2), link(1)],
            pairs=[(8, 9, 7), (8, 9, 7)],
            scope=[b"any"],
            counts={"out_of_scope": 4},
        )
    )
    made.add(UnitRows(outcome(Class.RETRY, Reason.THROTTLED, 503), retry=(*link(3), 77.5)))
    made.add(UnitRows(outcome(Class.EXCLUDED, Reason.ROBOTS, -9998, 0)))
    made.add(UnitRows(outcome(Class.FAILED, Reason.TLS, -2, 0)))
    made.add(UnitRows(outcome(Class.NONE, Reason.OK, 200, 5), fact=Fact(4, 1.5, 1, 2.5, 0.5, 0, b"rules")))
    assert not made.empty
    name = made.write((2, 345))
    assert name == "harvest-0007-000005.seg"
    path = tmp_path / name
    assert columns(path, "links")["key"].tolist() == [1, 2]
    assert columns(path, "links")["url"].tolist() == [b"http://a.test/1", b"http://a.test/2"]
    assert columns(path, "pairs")["site"].tolist() == [9]
    assert columns(path, "retries")["due"].tolist() == [77.5]
    assert columns(path, "scope")["entry"].tolist() == [b"any"]
    assert columns(path, "outcomes")["line"].tolist() == [b"a line"] * 5
    fact = columns(path, "facts")
    pointer = (fact["rules_log"][0], fact["rules_offset"][0], fact["rules_length"][0])
    assert RulesLog.read(Files(), str(tmp_path), pointer) == b"rules"
    assert Segment.open(Files(), path).sections["outcomes"].meta == {
        "stream": 7, "number": 5, "warc": [2, 345],
        "counters": {
            **dict.fromkeys(COUNTERS, 0), "pages": 2, "bytes": 25, "links": 3, "duplicates": 1, "out_of_scope": 4,
            "retries": 1,
        },
    }  # fmt: skip
    assert made.empty and made.write((2, 345)) is None
    made.add(UnitRows(outcome(), links=[link(2), link(9)]))
    assert columns(tmp_path / (made.write((3, 0)) or ""), "links")["key"].tolist() == [9], "the stream remembers"


def test_many_links_are_partitioned_by_key_and_keep_their_order(tmp_path: Path) -> None:
    made = builder(tmp_path)
    keys = np.random.default_rng(1).integers(1, 2**64, LABEL_ROWS + 5000, dtype=np.uint64).tolist()
    for start in range(0, len(keys), 1000):
        made.add(UnitRows(outcome(), links=[link(key) for key in keys[start : start + 1000]]))
    assert made.nbytes > 40 * len(keys)
    section = Segment.open(Files(), tmp_path / (made.write((0, 1)) or "")).sections["links"]
    assert section.labelled and section.rows == len(keys)
    for part in (0, 100, 255):
        got = [k for batch in section.between(part, part) for k in batch["key"].tolist() if k >> 56 == part]
        assert got == [key for key in keys if key >> 56 == part]


def test_age_counts_from_the_first_unit(tmp_path: Path) -> None:
    clock = VirtualClock()
    made = HarvestBuilder(Files(), str(tmp_path), 0, clock)
    clock.advance(5)
    assert made.age == 0
    made.add(UnitRows(outcome()))
    clock.advance(3)
    made.add(UnitRows(outcome()))
    assert made.age == 3
    made.take((0, 0))
    assert made.age == 0


def test_the_robots_log_goes_on_where_it_was_and_shows_damage(tmp_path: Path) -> None:
    texts = [b"a", b"", b"c" * 100_000]
    pointers = []
    for text in texts:
        log = RulesLog(Files(), str(tmp_path), 3)
        pointers.append(log.append(text))
        log.sync()
        log.close()
    for text, pointer in zip(texts, pointers, strict=True):
        assert RulesLog.read(Files(), str(tmp_path), pointer) == text
    path = tmp_path / "robots-0003.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match=f"offset {pointers[2][1]}"):
        RulesLog.read(Files(), str(tmp_path), pointers[2])
    os.truncate(path, 20)
    with pytest.raises(Damaged):
        RulesLog.read(Files(), str(tmp_path), pointers[2])


def test_i5_a_flipped_length_of_a_robots_text_is_no_torn_end(tmp_path: Path) -> None:
    """One that reached behind the end of the log passed for a text that a crash had cut short: fsck did not see it, and
    recovery cut off the whole texts behind it. A checksum with a zero in it passed for a power loss."""
    log = RulesLog(Files(), str(tmp_path), 3)
    texts = [b"User-agent: *\nDisallow: /%d\n" % number for number in range(400)]
    zero_within = next(text for text in texts if 0 in xxhash.xxh3_64_digest(text))
    begins = [log.append(text)[1] for text in (texts[0], zero_within, b"", b"x")]
    log.close()
    path = tmp_path / "robots-0003.log"
    kept = path.read_bytes()
    for at in range(begins[0], len(kept)):
        for bit in (0, 3, 7):
            path.write_bytes(kept[:at] + bytes([kept[at] ^ 1 << bit]) + kept[at + 1 :])
            with pytest.raises(Damaged, match=f"offset {max(b for b in begins if b <= at)}") as caught:
                list(RulesLog.texts(Files(), str(path)))
            assert not isinstance(caught.value, TornText)
    for end in range(begins[0], len(kept) + 1):
        path.write_bytes(kept[:end])
        assert len(list(RulesLog.texts(Files(), str(path)))) == sum(b <= end for b in [*begins[1:], len(kept)])


def test_the_robots_log_is_on_the_disk_before_a_harvest_names_it(tmp_path: Path) -> None:
    done: list[str] = []

    class Watched(Files):
        def fsync(self, handle: int) -> None:
            done.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
            super().fsync(handle)

        def rename(self, old: Any, new: Any) -> None:
            done.append(f"named {os.path.basename(new)}")
            super().rename(old, new)

    made = HarvestBuilder(Watched(), str(tmp_path), 0, VirtualClock())
    made.add(UnitRows(outcome(Class.NONE), fact=Fact(4, 1.5, 1, 2.5, 0.5, 0, b"rules")))
    made.write((0, 0))
    assert done.index("robots-0000.log") < done.index("named harvest-0000-000000.seg")


def test_robots_logs_whose_answers_have_expired_go(tmp_path: Path) -> None:
    for stream in (1, 2):
        log = RulesLog(Files(), str(tmp_path), stream)
        log.append(b"User-agent: *\n")
        log.close()
    os.utime(tmp_path / "robots-0001.log", (1000.0, 1000.0))
    assert RulesLog.drop_old(Files(), str(tmp_path), before=2000.0, set_since=lambda stream: 0.0) == ["robots-0001.log"]
    assert os.listdir(tmp_path) == ["robots-0002.log"]


def test_a_robots_text_that_the_log_has_is_not_written_again(tmp_path: Path) -> None:
    """Each refresh of a host's robots.txt wrote all of it once more, for as long as the crawl ran."""
    clock = VirtualClock(1000.0)
    log = RulesLog(Files(), str(tmp_path), 3, clock)
    first, other = log.append(b"User-agent: *\n"), log.append(b"Disallow:\n")
    size = (tmp_path / "robots-0003.log").stat().st_size
    for _ in range(23):
        clock.advance(3600.0)
        assert [log.append(b"User-agent: *\n"), log.append(b"Disallow:\n")] == [first, other]
    assert (tmp_path / "robots-0003.log").stat().st_size == size
    clock.advance(2 * 3600.0)  # the log may be deleted a day from now: what is learnt now has to last as long
    again = log.append(b"User-agent: *\n")
    assert again[0] == 1_000_003 and again != first
    assert RulesLog.read(Files(), str(tmp_path), first) == RulesLog.read(Files(), str(tmp_path), again)


def test_a_large_robots_log_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a crash, which may have left ends of both that no harvest names."""
    monkeypatch.setattr(rules_log, "ROLL_BYTES", 1000)
    synced: list[str] = []

    class Watched(Files):
        def fsync(self, handle: int) -> None:
            synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
            super().fsync(handle)

    log = RulesLog(Watched(), str(tmp_path), 3, VirtualClock())
    texts = [b"%d" % number * 300 for number in range(9)]
    pointers = [log.append(text) for text in texts]
    assert [pointer[0] for pointer in pointers] == [3] * 4 + [1_000_003] * 4 + [2_000_003]
    log.sync()
    assert set(synced) == {"robots-0003.log", "robots-1000003.log", "robots-2000003.log"}
    assert [RulesLog.read(Files(), str(tmp_path), pointer) for pointer in pointers] == texts
    log.close()
    for part in ("robots-1000003.log", "robots-2000003.log"):
        with open(tmp_path / part, "ab") as stream:
            stream.write(b"torn")
    again = RulesLog(Files(), str(tmp_path), 3, VirtualClock())
    again.recover()
    more = again.append(b"more")
    assert more == (2_000_003, pointers[-1][1] + 12 + 300, 4)
    assert not (tmp_path / "robots-1000003.log").read_bytes().endswith(b"torn")


def test_i4_what_a_robots_log_remembers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_log, "KNOWN_MAX", 10)
    log = RulesLog(Files(), str(tmp_path), 3, VirtualClock())
    pointers = [log.append(b"%d" % number) for number in range(100)]
    assert len(log._known) == 10
    assert log.append(b"99") == pointers[99] and log.append(b"0") != pointers[0]


def test_yields_tell_pages_with_content_not_met_before(tmp_path: Path) -> None:
    made = builder(tmp_path)
    for site, content, bare in ((7, 5, False), (7, 5, False), (8, 0, False), (8, 6, False), (9, 7, True)):
        made.add(UnitRows(outcome(), site=site, content=content, bare=bare))
    name = made.write((0, 0))
    assert name is not None
    told = columns(tmp_path / name, "yields")
    assert list(zip(told["key"].tolist(), told["novel"].tolist())) == [(7, 1), (7, 0), (8, 0), (8, 1), (9, 0)]


def test_a_page_whose_content_is_known_is_not_sketched(tmp_path: Path) -> None:
    said = b"".join(b"\0%s" % letters.encode() for letters in ARTICLE)
    made = builder(tmp_path)
    for content in (1, 1, 2, 1):
        made.add(UnitRows(outcome(), site=9, content=content, words=said))
    harvest = made.take((0, 0))
    assert harvest is not None and harvest.counters["near_duplicates"] == 1
    harvest.write()
    assert columns(tmp_path / harvest.file, "yields")["novel"].tolist() == [0, 0, 0]  # the first one waits
    assert columns(tmp_path / harvest.file, "near").rows == 2


def test_pages_of_many_links_waited_together_and_held_the_loop(tmp_path: Path) -> None:
    """Their rows were made into columns at once, when one of them was the last that waits."""
    made = builder(tmp_path)
    for content in range(1, 4):
        links = [link(10_000 * content + at) for at in range(CHUNK_ROWS)]
        made.add(UnitRows(outcome(), links=links, site=9, content=content, words=b"\0word"))
        assert made.counters["links"] == content * CHUNK_ROWS


def test_units_keep_their_order_where_pages_wait_to_be_sketched_together(tmp_path: Path) -> None:
    """What waits counts to the memory held, brings its robots.txt at once, and is in the harvest, however few wait."""
    words = [b"".join(b"\0%s" % letters.encode() for letters in said) for said in (ARTICLE, [*ARTICLE, "more"])]
    units = [
        UnitRows((*outcome()[:-1], b"%d" % number), links=[link(number + 1)], site=9, content=number + 1, words=said)
        for number, said in enumerate([b"", words[0], b"", words[1]] * WAITING_UNITS_MAX)
    ]
    made = builder(tmp_path)
    held = [made.nbytes]
    for unit in units:
        made.add(unit)
        held.append(made.nbytes)
    assert held[2] - held[1] > len(words[0])
    assert (
        made.add(UnitRows(outcome(Class.NONE), words=words[0], fact=Fact(4, 1.5, 1, 2.5, 0.5, 0, b"rules"))) is not None
    )
    name = made.write((1, 0))
    assert name is not None
    lines = columns(tmp_path / name, "outcomes")["line"].tolist()
    assert lines == [*(b"%d" % number for number in range(len(units))), b"a line"]
    assert columns(tmp_path / name, "links").rows == len(units)
    assert columns(tmp_path / name, "near")["open"].tolist() == [1, *[0] * (len(units) // 2 - 1)]
    assert made.empty and made.nbytes == 0
