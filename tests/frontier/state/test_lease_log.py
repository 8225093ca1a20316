"""leases.log: what a cut, a reboot or damage leaves of it."""

from __future__ import annotations

import os
import struct

from drum.codec import KEY_FUNCTION
from drum.errors import UnknownVersion
from drum.files import Files

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from irlcrawl.frontier.politeness.clocks import Promise
from irlcrawl.frontier.state import lease_log
from irlcrawl.frontier.state.lease_log import LeaseLog

PROMISES = st.lists(
    st.builds(Promise, st.integers(0, 3), st.integers(0, 2**64 - 1), st.floats(0, 1e6)), min_size=1, max_size=8
)


@given(PROMISES, PROMISES)
@settings(max_examples=20, deadline=None)
def test_every_cut_of_the_log_gives_the_whole_rows_before_it(
    tmp_path_factory: pytest.TempPathFactory, first: list[Promise], second: list[Promise]
) -> None:
    files, path = Files(), os.fspath(tmp_path_factory.mktemp("log") / "leases.log")
    log = LeaseLog(files, path)
    log.roll(first)
    log.append(second)
    log.close()
    data = files.read(path)
    header = len(data) - 24 * (len(first) + len(second))
    for length in range(len(data), -1, -1):
        files.truncate(path, length)
        found = LeaseLog.read(files, path)
        if length < header:
            assert found.rebooted and not found.promises
        else:
            assert not found.rebooted and found.promises == (first + second)[: (length - header) // 24]


def test_a_new_log_replaces_the_old_one_and_goes_on(tmp_path: object) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    log = LeaseLog(files, path)
    with pytest.raises(ValueError, match="before roll"):
        log.append([])
    log.roll([])
    log.append([Promise(0, 1, 1.0)])
    log.roll([Promise(0, 2, 2.0)])
    log.append([Promise(1, 3, 0.5)])
    assert LeaseLog.read(files, path).promises == [Promise(0, 2, 2.0), Promise(1, 3, 0.5)]
    assert files.listdir(os.fspath(str(tmp_path))) == ["leases.log"]
    log.close()


def test_a_reboot_a_missing_log_and_damage_inside_are_told(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    assert LeaseLog.read(files, path).rebooted
    log = LeaseLog(files, path)
    log.roll([Promise(0, 1, 1.0), Promise(0, 2, 2.0)])
    log.close()
    assert not LeaseLog.read(files, path).rebooted

    data = bytearray(files.read(path))
    data[-30] ^= 1  # in the row before the last
    with open(path, "wb") as file:
        file.write(data)
    assert LeaseLog.read(files, path) == lease_log.Found([], rebooted=True)

    log.roll([Promise(0, 1, 1.0)])
    log.close()
    monkeypatch.setattr(lease_log, "boot_id", lambda files: "0" * 36)
    found = LeaseLog.read(files, path)
    assert found.rebooted and found.promises == [Promise(0, 1, 1.0)]
    monkeypatch.setattr(lease_log, "boot_id", lambda files: "")
    assert LeaseLog.read(files, path).rebooted


@pytest.mark.parametrize("sector", [0, 1, 2])
def test_a_sector_that_power_left_empty_is_told_from_a_flipped_byte(tmp_path: object, sector: int) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    log = LeaseLog(files, path)
    log.roll([Promise(0, number, 1.0) for number in range(1, 61)])
    log.close()
    data = files.read(path)
    assert len(data) // 512 == 2 and LeaseLog.check(files, path) is None

    def checked(now: bytes) -> tuple[int, bool] | None:
        with open(path, "wb") as file:
            file.write(now)
        return LeaseLog.check(files, path)

    begin, end = sector * 512, min(sector * 512 + 512, len(data))
    first = 0 if not sector else 52 + (begin - 52) // 24 * 24
    assert checked(data[:begin] + bytes(end - begin) + data[end:]) == (first, True)
    assert checked(b"") == (0, True)
    for at in range(begin, end - 24):
        found = checked(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert found is not None and found[0] <= at and not found[1]


def test_the_log_names_its_key_function(tmp_path: object) -> None:
    files, path = Files(), f"{tmp_path}/leases.log"
    log = LeaseLog(files, path)
    log.roll([Promise(0, 1, 1.0)])
    log.close()
    data = files.read(path)
    assert data[:8] == b"irlLEAS1" and struct.unpack_from("<I", data, 44) == (KEY_FUNCTION,)
    header = data[:44] + struct.pack("<I", KEY_FUNCTION + 1)
    with open(path, "wb") as file:
        file.write(header + struct.pack("<I", xxhash.xxh32_intdigest(header)) + data[52:])
    with pytest.raises(UnknownVersion, match="keys by"):
        LeaseLog.read(files, path)
