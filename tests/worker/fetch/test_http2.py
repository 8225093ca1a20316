"""HTTP/2 over TLS: where it is spoken, what of it reaches the archive, and what servers can do with it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.reasons import Reason
from irlcrawl.config.keys import Config
from irlcrawl.worker.archive.record import request_and_response
from irlcrawl.worker.fetch import http2
from irlcrawl.worker.fetch.client import Client
from irlcrawl.worker.fetch.http import BODY_FREE_BYTES, Fetched, Request
from irlcrawl.worker.fetch.http2 import FRAME_BODY_BYTES, FRAMES_MAX, Http2Reader
from irlcrawl.worker.fetch.response import BrokenBody, NotHttp
from irlcrawl.worker.fetch.wants import Wants
from tests.worker.fetch.http2_server import Answer, Http2Server, Talk, frame, page
from tests.worker.harvest.test_process import unit

DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4


def configured(http2: str = "offered", **fetch: Any) -> Config:
    config = Config()
    config.crawl.user_agent = "Testbot/1.0 (+https://example.org/bot; bot@example.org)"
    config.fetch.http2 = http2
    config.fetch.read_seconds, config.fetch.total_seconds = 0.5, 5.0
    for name, value in fetch.items():
        setattr(config.fetch, name, value)
    return config


def asked_of(server: Http2Server, target: str = "/", bound: int = 4 << 20, **more: Any) -> Request:
    return Request(f"https://a.test{target}".encode(), "https", "a.test", server.port, target, "127.0.0.1", bound,
                   **more)  # fmt: skip


def run(config: Config, use: Callable[[Client], Awaitable[Any]]) -> Any:
    async def body() -> Any:
        client = Client(config, SystemClock())
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(body())


def get(server: Http2Server, *targets: str, config: Config | None = None, **more: Any) -> list[Fetched]:
    async def use(client: Client) -> list[Fetched]:
        return [await client.fetch(asked_of(server, target, **more)) for target in targets or ("/",)]

    results: list[Fetched] = run(config or configured(), use)
    return results


def test_a_response_is_kept_as_http_1_would_have_carried_it_and_the_archive_says_so() -> None:
    with Http2Server({"/": page(b"<p>x", ("x-odd", "a b"), status="404")}) as server:
        (fetched,) = get(server)
    assert fetched.reason is Reason.OK and fetched.status == 404 and fetched.exchange is not None
    assert fetched.exchange.header == b"HTTP/1.1 404 \r\ncontent-type: text/html\r\nx-odd: a b\r\n\r\n"
    assert fetched.exchange.body == b"<p>x"
    assert fetched.exchange.request.startswith(f"GET / HTTP/1.1\r\nHost: a.test:{server.port}\r\nUser-Agent:".encode())
    for record in request_and_response(unit(), fetched.exchange, "<urn:x>"):
        assert b"\r\nWARC-Protocol: h2\r\n" in record.split(b"\r\n\r\n")[0]


def test_a_request_says_what_one_of_http_1_says() -> None:
    config = configured(headers=["X-Ours: yes"])
    with Http2Server({"/?q": page(b"x")}) as server:
        get(server, "/?q", config=config, fields=(("If-None-Match", '"a"'),))
        (fields,) = server.asked
    assert fields.pop(":authority") == f"a.test:{server.port}"
    assert fields == {
        ":method": "GET", ":scheme": "https", ":path": "/?q", "if-none-match": '"a"', "x-ours": "yes",
        "user-agent": "Testbot/1.0 (+https://example.org/bot; bot@example.org)",
        "accept": "text/html,application/xhtml+xml,*/*;q=0.5", "accept-encoding": "gzip, br, zstd",
    }  # fmt: skip


def test_a_connection_is_used_again_for_many_requests_and_no_more_than_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http2, "REQUESTS_MAX", 3)
    with Http2Server({"/": page(b"x")}) as server:
        assert [fetched.reason for fetched in get(server, *["/"] * 4)] == [Reason.OK] * 4
        assert server.connections == 2


@pytest.mark.parametrize(("mode", "reason"), [("off", Reason.TLS), ("needed", Reason.OK), ("offered", Reason.OK)])
def test_a_server_that_refuses_everything_else_is_asked_in_http_2(mode: str, reason: Reason) -> None:
    with Http2Server({"/": page(b"x")}) as server:
        results = get(server, "/", "/", config=configured(mode))
        assert [fetched.reason for fetched in results] == [reason] * 2
        assert len(server.asked) == (0 if mode == "off" else 2)


def test_a_server_that_speaks_http_2_no_more_is_asked_in_http_1_again() -> None:
    async def use(client: Client) -> list[Fetched]:
        first = await client.fetch(asked_of(server))
        server.only = ("http/1.1",)
        client._pool.close()
        return [first, *[await client.fetch(asked_of(server)) for _ in range(2)]]

    with Http2Server({"/": page(b"x")}) as server:
        first, second, third = run(configured("needed"), use)
    assert (first.reason, second.reason) == (Reason.OK, Reason.CONNECT), "that is asked again"
    assert third.exchange is not None and third.exchange.body == b"in 1.1 ."


def test_a_server_that_refuses_whatever_it_is_offered_is_left_with_its_alert() -> None:
    with Http2Server({}, only=("acme-tls/1",)) as server:
        first, second = get(server, "/", "/", config=configured("needed"))
    assert first.reason is second.reason is Reason.TLS and "no application protocol" in first.detail


@pytest.mark.parametrize(("mode", "body"), [("off", b"in 1.1 ."), ("needed", b"in 1.1 ."), ("offered", b"in 2")])
def test_of_both_http_2_is_spoken_only_where_it_is_offered(mode: str, body: bytes) -> None:
    with Http2Server({"/": page(b"in 2")}, only=("h2", "http/1.1")) as server:
        (fetched,) = get(server, config=configured(mode))
    assert fetched.exchange is not None and fetched.exchange.body == body


def test_a_server_that_asks_for_http_1_is_asked_in_it_the_next_time() -> None:
    async def refuses(talk: Talk) -> None:
        await talk.raw(frame(RST, 0, talk.stream, (13).to_bytes(4, "big")))

    with Http2Server({"/": refuses}, only=("h2", "http/1.1")) as server:
        first, second = get(server, "/", "/")
    assert first.reason is Reason.LOST and "HTTP_1_1_REQUIRED" in first.detail
    assert second.exchange is not None and second.exchange.body == b"in 1.1 ."


def test_a_long_body_comes_through_the_windows_and_is_cut_at_its_bound() -> None:
    long = bytes(range(256)) * (3 * BODY_FREE_BYTES // 256)
    with Http2Server({"/": page(long)}) as server:
        whole, cut = get(server, "/", bound=len(long)) + get(server, "/", bound=2 * BODY_FREE_BYTES)
    assert whole.exchange is not None and whole.exchange.body == long and whole.exchange.truncated is None
    assert cut.exchange is not None and cut.exchange.body == long[: 2 * BODY_FREE_BYTES]
    assert cut.exchange.truncated == "length" and cut.reason is Reason.OK


def test_a_page_that_is_not_wanted_is_left_at_its_header() -> None:
    with Http2Server({"/": page(b"x" * 100_000)}) as server:
        (fetched,) = get(server, wants=Wants(["image/*"], 0))
    assert fetched.unwanted is Reason.UNWANTED_TYPE and fetched.exchange is not None and not fetched.exchange.body


async def early_hints(talk: Talk) -> None:
    talk.h2.send_headers(talk.stream, [(":status", "103"), ("link", "</x>")])
    await page(b"x")(talk)


async def trailers(talk: Talk) -> None:
    await talk.head()
    await talk.body(b"x", end=False)
    talk.h2.send_headers(talk.stream, [("x-sum", "1")], end_stream=True)
    await talk.flush()


async def no_body(talk: Talk) -> None:
    await talk.head(status="200", end=True)


async def unchanged(talk: Talk) -> None:
    await talk.head(("content-length", "5"), status="304")
    await talk.raw(frame(DATA, END_STREAM, talk.stream))


async def resets_without_error(talk: Talk) -> None:
    await talk.head()
    await talk.body(b"x", end=False)
    await talk.raw(frame(RST, 0, talk.stream, bytes(4)))


async def goes_in_error_but_ends(talk: Talk) -> None:
    await talk.head()
    await talk.raw(frame(GOAWAY, 0, 0, talk.stream.to_bytes(4, "big") + b"\0\0\0\2"))
    await talk.body(b"x")


async def goes_in_peace(talk: Talk) -> None:
    await talk.head()
    await talk.raw(frame(GOAWAY, 0, 0, talk.stream.to_bytes(4, "big") + bytes(4)))
    await talk.body(b"x")


async def pings(talk: Talk) -> None:
    await talk.raw(frame(PING, 0, 0, b"12345678") * 20)
    await page(b"x")(talk)


@pytest.mark.parametrize(("answer", "body", "connections"), [
    (early_hints, b"x", 1), (trailers, b"x", 1), (no_body, b"", 1), (goes_in_peace, b"x", 2), (pings, b"x", 1),
    (unchanged, b"", 2), (resets_without_error, b"x", 2), (goes_in_error_but_ends, b"x", 2),
])  # fmt: skip
def test_what_servers_may_do(answer: Answer, body: bytes, connections: int) -> None:
    with Http2Server({"/": answer}) as server:
        results = get(server, "/", "/")
        assert server.connections == connections
    assert [(f.reason, f.exchange and f.exchange.body) for f in results] == [(Reason.OK, body)] * 2


def test_a_server_that_said_farewell_between_two_requests_is_connected_to_anew() -> None:
    async def then_goes(talk: Talk) -> None:
        await page(b"x")(talk)
        await talk.raw(frame(GOAWAY, 0, 0, talk.stream.to_bytes(4, "big") + bytes(4)))

    with Http2Server({"/": then_goes}) as server:
        results = get(server, "/", "/")
    assert [fetched.reason is Reason.OK or fetched.stale for fetched in results] == [True, True]


# Servers that misbehave: (what is said, the reason, bytes of body kept)


def says(*pieces: bytes, head: bool = False, forever: bytes = b"") -> Answer:
    async def answer(talk: Talk) -> None:
        if head:
            await talk.head(("content-type", "text/html"))
        stream = talk.stream.to_bytes(4, "big")
        for piece in pieces:
            await talk.raw(piece.replace(STREAM.to_bytes(4, "big"), stream))
        while forever:
            await talk.raw(forever.replace(STREAM.to_bytes(4, "big"), stream))

    return answer


STREAM = 0x7A6B5C4D  # stands for that of the request
OK_BLOCK = b"\x88"  # :status 200, as HPACK has it
HOSTILE: dict[str, tuple[Answer, Reason, int]] = {
    "continuation-flood": (says(frame(HEADERS, 0, STREAM, OK_BLOCK), forever=frame(CONTINUATION, 0, STREAM) * 100),
                           Reason.PROTOCOL, 0),
    "continuations-of-kilobytes": (
        says(frame(HEADERS, 0, STREAM, OK_BLOCK), forever=frame(CONTINUATION, 0, STREAM, b"\x88" * 16_000)),
        Reason.PROTOCOL, 0),
    "10000-headers": (says(frame(HEADERS, END_HEADERS, STREAM, OK_BLOCK + b"\x00\x01x\x01y" * 4000)),
                      Reason.PROTOCOL, 0),
    "hpack-bomb": (says(frame(HEADERS, END_HEADERS, STREAM,
                              OK_BLOCK + b"\x40\x01x\x7f\xe1\x1e" + b"y" * 4000 + b"\xbe" * 12_000)),
                   Reason.PROTOCOL, 0),
    "hpack-nonsense": (says(frame(HEADERS, END_HEADERS, STREAM, b"\xff\xff\xff\xff\xff\xff")), Reason.PROTOCOL, 0),
    "settings-flood": (says(forever=frame(SETTINGS) * 100), Reason.PROTOCOL, 0),
    "ping-flood": (says(forever=frame(PING, 0, 0, b"12345678") * 100), Reason.PROTOCOL, 0),
    "window-flood": (says(forever=frame(WINDOW, 0, 0, b"\0\0\0\1") * 100), Reason.PROTOCOL, 0),
    "window-overflow": (says(frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2), Reason.PROTOCOL, 0),
    "1xx-flood": (says(forever=frame(HEADERS, END_HEADERS, STREAM, b"\x08\x03103" + b"\x00\x01x\x01y" * 100)),
                  Reason.PROTOCOL, 0),
    "rapid-reset": (says(frame(RST, 0, STREAM, bytes(4))), Reason.LOST, 0),
    "refused-stream": (says(frame(RST, 0, STREAM, b"\0\0\0\7")), Reason.LOST, 0),
    "goes-without-us": (says(frame(GOAWAY, 0, 0, bytes(8))), Reason.LOST, 0),
    "giant-frame": (says(b"\xff\xff\xff\x00\x00" + STREAM.to_bytes(4, "big")), Reason.PROTOCOL, 0),
    "frame-of-unknown-kind": (says(forever=frame(200, 255, STREAM, b"x") * 100), Reason.PROTOCOL, 0),
    "data-before-header": (says(frame(DATA, END_STREAM, STREAM, b"x")), Reason.PROTOCOL, 0),
    "push": (says(frame(5, END_HEADERS, STREAM, b"\0\0\0\2" + OK_BLOCK)), Reason.PROTOCOL, 0),
    "http-1-where-http-2-was-agreed": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"), Reason.PROTOCOL, 0),
    "zero-window": (says(frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0")), Reason.TIMEOUT, 0),
    "line-break-in-field": (says(frame(HEADERS, END_HEADERS, STREAM, OK_BLOCK + b"\x00\x01x\x04a\r\nb")),
                            Reason.PROTOCOL, 0),
    "status-of-words": (says(frame(HEADERS, END_HEADERS, STREAM, b"\x08\x02OK")), Reason.PROTOCOL, 0),
    "reset-in-body": (says(frame(DATA, 0, STREAM, b"xyz"), frame(RST, 0, STREAM, b"\0\0\0\2"), head=True),
                      Reason.LOST, 3),
    "goes-in-body": (says(frame(DATA, 0, STREAM, b"xyz"), frame(GOAWAY, 0, 0, bytes(8)), head=True), Reason.LOST, 3),
    "empty-data": (says(frame(DATA, 0, STREAM, b"xyz"), head=True, forever=frame(DATA, 0, STREAM) * 100),
                   Reason.LOST, 3),
    "padding": (says(frame(DATA, 0, STREAM, b"xyz"), head=True, forever=frame(DATA, 8, STREAM, b"\xff" + bytes(255))),
                Reason.LOST, 3),
    "beyond-the-window": (says(head=True, forever=frame(DATA, 0, STREAM, b"x" * 16_384)), Reason.OK, 100_000),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_server_costs_its_request_alone(name: str) -> None:
    answer, reason, kept = HOSTILE[name]
    with Http2Server({"/": answer, "/good": page(b"good")}) as server:
        bad, good = get(server, "/", "/good", bound=100_000)
    assert bad.reason is reason, bad.detail
    assert kept == (0 if bad.exchange is None else len(bad.exchange.body))
    assert good.exchange is not None and good.exchange.body == b"good"


def test_of_a_body_that_is_not_as_long_as_it_said_the_last_frame_was_lost() -> None:
    reader = Http2Reader(65_536)
    reader.begin(1 << 20)
    reader.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    header = OK_BLOCK + b"\x0f\x0d\x013"  # content-length: 3
    with pytest.raises(BrokenBody):
        reader.feed(frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, header) + frame(DATA, 8, 1, b"\x02hello\0\0"))
    assert bytes(reader.body) == b"hello" and not reader.done


def test_a_page_that_comes_row_by_row_is_read_to_its_end() -> None:
    """2,000 frames of 60 bytes counted as a flood."""
    reader = Http2Reader(65_536)
    reader.begin(1 << 20)
    reader.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    reader.feed(frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, OK_BLOCK))
    for _ in range(2000):
        reader.feed(frame(DATA, 0, 1, b"r" * 60))
    reader.feed(frame(DATA, END_STREAM, 1, b"."))
    assert reader.done and len(reader.body) == 120_001


def test_frames_are_counted_whatever_they_carry() -> None:
    """A frame costs ten microseconds: ten megabytes of single bytes would take minutes."""
    reader = Http2Reader(65_536)
    reader.begin(1 << 20)
    reader.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    reader.feed(frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, OK_BLOCK))
    frames = 2
    with pytest.raises(BrokenBody, match="without end"):
        while True:
            reader.feed(frame(DATA, 0, 1, b"x"))
            frames += 1
    assert frames == FRAMES_MAX + len(reader.body) // FRAME_BODY_BYTES


def test_any_cut_of_the_frames_is_read_alike() -> None:
    frames = frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, OK_BLOCK) + frame(DATA, END_STREAM, 1, b"xyz")

    def read(size: int) -> tuple[bytes | None, bytes]:
        reader = Http2Reader(65_536)
        reader.begin(100)
        reader.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        for at in range(0, len(frames), size):
            reader.feed(frames[at : at + size])
        assert reader.done and reader.reusable
        return reader.header, bytes(reader.body)

    assert {read(size) for size in (1, 2, 7, 1000)} == {(b"HTTP/1.1 200 \r\n\r\n", b"xyz")}


@pytest.mark.parametrize("name", ["x y", "x:y", "", "x\r"])
def test_a_field_that_would_end_its_line_is_refused(name: str) -> None:
    with pytest.raises(NotHttp, match="cannot carry"):
        http2.http1_header([(b":status", b"200"), (name.encode(), b"z")])


def test_a_worker_that_meets_no_http_2_loads_none() -> None:
    script = "import sys, irlcrawl.worker.fetch.service; print('h2' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
