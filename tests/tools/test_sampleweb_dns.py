"""The demo's name server: what it knows, what it denies, and that no message can break it."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from tools.sampleweb.dns import NoAnswer, Record, answer

NAMES = {"garden.test": "127.50.0.1"}


def query(name: str, kind: int = 1, number: int = 77) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def parts(reply: bytes | None) -> tuple[int, int, int, int]:
    """(number, response code, questions, answers)."""
    assert reply is not None
    number, flags, questions, answers = struct.unpack_from(">HHHH", reply)
    assert flags & 0x8000
    return number, flags & 15, questions, answers


def test_a_known_name_in_any_case() -> None:
    for name in ("garden.test", "GARDEN.test"):
        reply = answer(query(name), NAMES)
        assert parts(reply) == (77, 0, 1, 1)
        assert reply is not None and reply.endswith(bytes([127, 50, 0, 1])) and name.partition(".")[0].encode() in reply


def test_a_known_name_has_no_other_records() -> None:
    assert parts(answer(query("garden.test", kind=28), NAMES)) == (77, 0, 1, 0)


def test_other_names_do_not_exist() -> None:
    assert parts(answer(query("example.org"), NAMES)) == (77, 3, 1, 0)


def test_a_record_has_a_time_to_live_of_its_own() -> None:
    reply = answer(query("short.test"), {"short.test": Record("127.50.0.9", 7)})
    assert parts(reply) == (77, 0, 1, 1)
    assert reply is not None and reply.endswith(struct.pack(">IH", 7, 4) + bytes([127, 50, 0, 9]))


def test_a_name_whose_servers_are_silent_is_a_failure_and_not_a_missing_name() -> None:
    class Lame(dict[str, str | Record]):
        def get(self, name: str, default: object = None) -> str:
            raise NoAnswer(name)

    assert parts(answer(query("lame.test"), Lame())) == (77, 2, 1, 0)


@given(st.binary(max_size=80))
def test_nonsense_is_answered_or_ignored(message: bytes) -> None:
    reply = answer(message, NAMES)
    assert reply is None or reply[:2] == message[:2]


@given(st.integers(0, 32))
def test_a_cut_query_is_no_question(size: int) -> None:
    whole = query("garden.test")
    reply = answer(whole[: min(size, len(whole) - 1)], NAMES)
    assert reply is None or parts(reply)[1:] == (1, 0, 0)
