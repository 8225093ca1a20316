"""The parsers of bytes from outside: seeds, and a check that raises if what must hold does not.

What holds of all: no exception but the promised one, the same twice, and output within its bound.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from drum import Batch, Catalog, Damaged, Files, Ragged, Segment, SegmentWriter
from drum.catalog import UnknownVersion

import brotlicffi
import numpy as np
import zstandard

from irlcrawl.base.clock import SystemClock
from irlcrawl.base.steps import at_once
from irlcrawl.base.url import HREF_CHARS_MAX, SeedError, canonical, host_of, named_host, seed_url, split
from irlcrawl.config.keys import URL_RULES, Config, ConfigError, Page, Site, UrlRule, Urls
from irlcrawl.config.lists import opt_outs, parameter_names
from irlcrawl.config.toml import load, override
from irlcrawl.crawl.control_server import ControlServer
from irlcrawl.crawl.seeds import SeedsError, read_ranks, read_seeds
from irlcrawl.export import pages
from irlcrawl.export.archives import Archive, Capture
from irlcrawl.export.formats import json_line
from irlcrawl.export.links import rows_of
from irlcrawl.terminal.progress import Bar
from irlcrawl.web import tdmrep
from irlcrawl.web.coding import decode
from irlcrawl.web.opt_out import OptOuts
from irlcrawl.web.retry_after import as_logged, seconds_asked
from irlcrawl.web.robots import Rules, verdict
from irlcrawl.web.spelling import Spelling
from irlcrawl.worker.archive import crawl_log, payloads, redo
from irlcrawl.worker.archive.reader import Record, records
from irlcrawl.worker.archive.record import split_response, wire_header
from irlcrawl.worker.archive.unit import Exchange, Unit
from irlcrawl.worker.archive.warc import WarcWriter, warcinfo_values
from irlcrawl.worker.fetch.chunks import BadChunk, LfChunks, ends_in_lf
from irlcrawl.worker.fetch.http2 import FRAME_BODY_BYTES, FRAMES_MAX, Http2Reader
from irlcrawl.worker.fetch.repair import repaired
from irlcrawl.worker.fetch.response import BrokenBody, NotHttp, ResponseReader
from irlcrawl.worker.fetch.wire import Decoder, WireError, encode
from irlcrawl.worker.harvest.process import process
from irlcrawl.worker.page import charset, entries, lastmods, links, metas, requisites, scan, sitemaps
from irlcrawl.worker.page.fingerprint import fingerprint
from tests.worker.harvest.test_process import LOCATION, context, unit
from tests.worker.harvest.test_process import exchange as page_exchange

FOUND = Path(__file__).parent / "found"
"""Inputs that a parser once failed for, one a file: PARSER-HASH."""
BASE = b"http://a.test/dir/page?q"
BODY_BYTES_MAX = 5000
HEADER_BYTES_MAX = 2000
PAGE = (
    b"<!doctype html><html><head><meta charset=utf-8><title>A page</title><base href='/b/'><link rel=canonical href=/c>"
    b"<meta http-equiv=refresh content='0;url=/r'><script>var x = '<a href=/no>' + \"/yes.html\";</script></head><body>"
    b"<!-- <a href=/no> --><a href=\"/1?a=b&amp;c=%C3%A4#f\" rel=nofollow>one</a><a href='//b.test/2'>two</a><p hidden>"
    b"<a href=3>three</a></p><template><a href=/no></a></template><svg><a xlink:href='"
    b"/4'>4</a></svg><iframe src=5 srcdoc="
    b"'&lt;a href=6&gt;'></iframe><noscript><img src=x><a href=/7></noscript><textarea"
    b"><a href=/no></textarea></body></html>"
)
NEEDS = (
    b'<meta name=testbot content=noindex><link rel=stylesheet href=a.css><style>/* x */ @import "b.css";'
    b" b { c: url( 'd' ) }</style><script src=e.js>'<img src=no>'</script><img srcset='f 1x, g 2x' src=\"h\">"
    b"<video poster=i></video><!-- <img> --><textarea><img src=no></textarea><svg><image xlink:href=j /></svg>"
    b"<input type=image src=k><iframe src=l></iframe><p style='background: url(m)'>"
)
SITEMAP = (
    b'<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>'
    b"http://a.test/1?a=1&amp;b=2</loc><lastmod>2020-01-01</lastmod></url><!-- <loc>/n"
    b"o</loc> --><url><loc><![CDATA[ /2 ]]>"
    b"</loc><priority>1.0</priority><changefreq>daily</changefreq></url></urlset>"
)
FEED = (
    b'<rss version="2.0"><channel><link>http://a.test/</link><item><link>/1</link></it'
    b'em><atom:link href="/f" rel="self"/>'
    b'</channel></rss><feed><entry><link rel="alternate" href="/2"/></entry></feed>'
)
ROBOTS = (
    b"User-agent: *\nDisallow: /no\nAllow: /no/but\nDisallow: /*.php$\nCrawl-delay: 2."
    b"5\n\nUser-agent: testbot\nDisallow:\n"
    b"Sitemap: http://a.test/s.xml\n# comment\rallow:/%7Eb\xc3\xa4*\n"
)
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5\r"
    b"\nX-Robots-Tag: bot: nofollow, noindex\r\n"
    b"Link: </x>; rel=\"canonical\", <y>; rel=next; anchor=z\r\nRefresh: 3; url='/r'\r"
    b"\nConnection: keep-alive\r\n\r\nhello"
)
FRAMES = b"".join(
    len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    for kind, flags, stream, payload in (
        (4, 0, 0, b"\0\3\0\0\0\x64"), (4, 1, 0, b""), (1, 4, 1, b"\x08\x03103\0\1x\1y"), (8, 0, 0, b"\0\0\0\1"),
        (1, 0, 1, b"\x88\x5f\x09text/html"), (9, 4, 1, b"\0\1x\1y"), (6, 0, 0, b"12345678"),
        (7, 0, 0, b"\0\0\0\1\0\0\0\0"), (0, 8, 1, b"\2hello\0\0"), (0, 1, 1, b"!"),
    )
)  # fmt: skip
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n"


class Parser(NamedTuple):
    seeds: list[bytes]
    check: Callable[[bytes], None]


def _pieces(data: bytes) -> list[bytes]:
    """Cut where its own bytes say."""
    cuts = sorted({sum(data[:20]) % (len(data) + 1), len(data) // 3, (data[-1] if data else 0) % (len(data) + 1)})
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _read(pieces: list[bytes]) -> tuple[object, ...]:
    reader = ResponseReader(HEADER_BYTES_MAX)
    reader.begin(BODY_BYTES_MAX)
    end = ""
    try:
        for piece in pieces:
            reader.feed(piece)
            if reader.done or reader.over:
                break
        if not (reader.done or reader.over):
            reader.end()
    except (NotHttp, BrokenBody) as error:
        end = type(error).__name__
    assert len(reader.body) <= BODY_BYTES_MAX and (reader.header is None or len(reader.header) <= HEADER_BYTES_MAX)
    assert reader.header is None or 200 <= reader.status <= 999
    said = (reader.header, bytes(reader.body), reader.over, reader.faults, end)
    reader.close()
    return said


def http(data: bytes) -> None:
    whole = _read([data])
    if len(data) > HEADER_BYTES_MAX:  # the bound is looked at when a piece came
        return
    assert _read(_pieces(data)) == whole
    assert _read([data[at : at + 1] for at in range(len(data))]) == whole


def _read_http2(pieces: list[bytes]) -> tuple[object, ...]:
    reader = Http2Reader(HEADER_BYTES_MAX)
    reader.begin(BODY_BYTES_MAX)
    said, end = reader.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), ""
    try:
        for piece in pieces:
            reader.feed(piece)
            said += reader.outgoing()
            if reader.over:
                break
    except (NotHttp, BrokenBody) as error:
        end = type(error).__name__
    assert len(reader.body) <= BODY_BYTES_MAX and (reader.header is None or len(reader.header) <= HEADER_BYTES_MAX)
    assert len(said) <= 400 + 2 * sum(map(len, pieces)) + 30 * (FRAMES_MAX + BODY_BYTES_MAX // FRAME_BODY_BYTES)
    assert reader.header is None or (200 <= reader.status <= 999 and reader.header.count(b"\r\n\r\n") == 1)
    return reader.header, bytes(reader.body), reader.over, reader.done, end


def http2(data: bytes) -> None:
    assert _read_http2([data]) == _read_http2(_pieces(data))


def repair(data: bytes) -> None:
    found = repaired(data)
    if found is not None:
        assert len(found[0]) <= len(data) + data.count(b"\n") + 40  # a line that ended in LF ends in CRLF
        assert repaired(found[0]) is None
    ends_in_lf(data)


def chunks(data: bytes) -> None:
    def read(pieces: list[bytes]) -> tuple[bytes, str]:
        reader, body = LfChunks(), b""
        try:
            for piece in pieces:
                for out in reader.feed(piece):
                    body += out
        except BadChunk:
            return body, "bad"
        return body, "done" if reader.done else ""

    assert read([data]) == read(_pieces(data)) and len(read([data])[0]) <= len(data)


def coding(data: bytes) -> None:
    names = ("gzip", "deflate", "br", "zstd", "gzip, br", "zstd, gzip, x-gzip, deflate", "identity", "no such")
    name = names[data[0] % len(names)] if data else ""
    body, cut = decode(data[1:], name, 10_000)
    assert len(body) <= 10_000 and decode(data[1:], name, 10_000) == (body, cut)
    assert len(decode(data[1:], name, 100)[0]) <= 100


def charsets(data: bytes) -> None:
    kind, _, body = data.partition(b"\n")
    codec = charset.sniff(body, kind.decode("latin-1"))
    text = charset.decode(body, codec)
    assert len(text) <= len(body) + 1
    with mock.patch.object(charset, "PIECE_BYTES", 7):
        assert at_once(charset.recoding(body, codec)) == text.encode("utf-8", "replace")


def page(data: bytes) -> None:
    params = Page(scripts=True, links_max=50)
    found = links.extract(data, "text/html", BASE, params)
    assert len(found.links) <= 50 and len(dict(found.links)) == len(found.links)
    for url, _ in found.links:
        assert canonical(url) == url and split(url)
    read = links.read(data, "utf-8", "text/html", params)
    with mock.patch.object(scan, "WINDOW_BYTES", 2 + len(data) % 61):
        again = links.read(data, "utf-8", "text/html", params)
    if len(read.references) <= 200:
        assert (list(again.references.items()), again.unvouched) == (list(read.references.items()), read.unvouched)
    links.extract(data, "application/xhtml+xml", BASE, params)
    assert 0 < fingerprint(data) < 1 << 64 and fingerprint(data) == fingerprint(data)


def needs(data: bytes) -> None:
    whole = at_once(requisites.of_page(data))
    with mock.patch.object(requisites, "WINDOW_BYTES", 13 + len(data) % 61):
        assert at_once(requisites.of_page(data)) == whole
    text = data.decode("utf-8", "replace")
    assert len(requisites.of_css(text)) <= requisites.REFERENCES_MAX and list(requisites.of_srcset(text)) is not None
    assert all(name in ("robots", "testbot") for name, _ in at_once(metas.named(data, ("robots", "testbot"))))


def sitemap(data: bytes) -> None:
    for kind in ("text/xml", "text/plain", "application/x-gzip"):
        whole = sitemaps.listed(data, kind, BASE, as_text=True)
        with mock.patch.object(sitemaps, "WINDOW_BYTES", 1 + len(data) % 61 + len(data) // 100):
            assert sitemaps.listed(data, kind, BASE, as_text=True) == whole
        assert whole is None or all(canonical(url) == url for url in whole[0])
    ranks = at_once(entries.ranks(data, BASE))
    assert all(canonical(url) == url and 0 < rank <= entries.RANK_MAX for url, rank in ranks.items())
    at_once(lastmods.changed_since(data, BASE, 0.0, 2e9))
    assert len(list(entries.of_list(data, "text/xml", BASE, 10_000))) <= sitemaps.LINKS_MAX
    at_once(sitemaps.unpacking(data, b"http://a.test/s.xml.gz", 10_000))


def robots(data: bytes) -> None:
    rules = Rules(data, "testbot")
    assert rules.crawl_delay is None or 0 <= rules.crawl_delay < float("inf")
    for path in (b"/", b"/no", b"/no/but", b"/a.php", b"/%7Eb%C3%A4x", b"/robots.txt", b"/" + b"a" * 500):
        assert verdict(data, "testbot", path)[0] == rules.allowed(path)
    assert rules.allowed(b"/robots.txt")
    assert len(at_once(sitemaps.of_robots(data, b"http://a.test/robots.txt"))[0]) <= sitemaps.OF_ROBOTS_MAX


def tdm(data: bytes) -> None:
    text = tdmrep.lines(data)
    assert len(text) <= tdmrep.LINES_BYTES_MAX and text.isascii() and text.count("\n") <= tdmrep.RULES_MAX
    rules = Rules(text.encode(), "testbot")
    assert len(rules._tdm) == text.count("\n") and rules.allowed(b"/") and rules.crawl_delay is None
    for path in (b"/", b"/a/b.jpg", b"/" + b"a" * 500):
        assert all(wish.startswith("tdm-") and "\n" not in wish for wish in rules.tdm_for(path))


@cache
def _spelling() -> Spelling:
    patterns = [UrlRule("^http://[0-9]", ["slashes"]), UrlRule("x//", [], ["b", "c*"])]
    return Spelling(Urls(merge=sorted(URL_RULES)), {"a.test": Site(parameters=["a"])}, patterns)


def urls(data: bytes) -> None:
    for url in (canonical(data), canonical(data, BASE)):
        if url is not None and len(url) <= HREF_CHARS_MAX:  # a longer one is parsed no more
            assert canonical(url) == url and url.isascii() and b" " not in url and b"#" not in url
            scheme, host, port, target = split(url)
            assert scheme in ("http", "https") and host and 0 < port < 65_536 and target.startswith("/")
            assert host_of(url) == host
            spelled = _spelling().of(url)
            assert canonical(spelled) == spelled and _spelling().of(spelled) == spelled
    text = data.decode("utf-8", "surrogateescape")
    for parse in (seed_url, named_host):
        try:
            parse(text)
        except SeedError as error:
            assert str(error)


def headers(data: bytes) -> None:
    found = Exchange(BASE, "192.0.2.1", b"", b"HTTP/1.1 200 OK\r\n" + data, b"")
    for name, value in found.fields:
        assert name == name.lower() and b"\n" not in value
    text = data.decode("latin-1")
    list(links.link_header([text], nofollow=True))
    links.robots_header([text], "testbot")
    assert links.refresh_target(text) != ""
    charset.of_content_type(text)
    asked = seconds_asked(text, 1e9, text)
    assert asked is None or asked >= 0
    as_logged(text, text)
    assert found.status in range(1000)


def whole_page(data: bytes) -> None:
    head, _, body = data.partition(b"\n\n")
    line = head.replace(b"\r", b"").replace(b"\n", b" ")
    asked = page_exchange(body, b"X: " + line, line or b"X: y")
    found = process(unit(), asked, LOCATION, context())
    assert "unparsed" not in found.counts
    crawl_log.parse(found.outcome[-1].rstrip(b"\n"))
    assert found == process(unit(), asked, LOCATION, context()) and len(found.links) <= 50_000


@cache
def _directory() -> Path:
    """In memory where the system has such a place."""
    return Path(tempfile.mkdtemp(prefix="irlcrawl-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))


@cache
def _archive() -> bytes:
    at = _directory() / "warcs"
    at.mkdir()
    info = warcinfo_values(software="x", user_agent="x", operator="x", is_part_of="x")
    writer = WarcWriter(
        Files(), str(at), "IC", 1, info=info, roll_bytes=1 << 20, gzip_level=1, clock=SystemClock()
    )  # fmt: skip
    writer.append(unit(), page_exchange(PAGE))
    writer.append(unit(detail="x"), None)
    writer.close()
    (file,) = at.iterdir()
    return gzip.decompress(file.read_bytes())


def warc(data: bytes) -> None:
    packed = data[:1] == b"z"
    body = data[1:] if packed else gzip.compress(data, 1)
    path = _directory() / "x.warc.gz"
    path.write_bytes(body)
    try:
        for record in records(Files(), str(path)):
            assert len(record.block) <= 1 << 24
            if record.kind == "response":
                redo.exchange_of(unit(), record, None)
    except (Damaged, ValueError):
        pass
    try:
        header, _ = split_response(data)
        wire_header(header)
    except ValueError:
        pass


def units(data: bytes) -> None:
    with suppress(ValueError):
        Unit.from_json(data, BASE)


def log(data: bytes) -> None:
    try:
        entry = crawl_log.parse(data)
    except crawl_log.BadLine:
        return
    try:
        again = crawl_log.parse(crawl_log.format_entry(entry).rstrip(b"\n"))
    except crawl_log.BadLine:  # a day that no calendar has
        return
    assert crawl_log.format_entry(again) == crawl_log.format_entry(entry)


def control(data: bytes) -> None:
    answer = ControlServer(Path("x"), {"status": lambda request: {}})._answer(data, "user")
    assert json.dumps(answer)


def wire(data: bytes) -> None:
    def read(pieces: list[bytes]) -> list[object]:
        decoder, messages = Decoder(), list[object]()
        try:
            for piece in pieces:
                messages += decoder.feed(piece)
        except WireError:
            messages.append("error")
        return messages

    assert len(read([data])) <= len(data)


def lists(data: bytes) -> None:
    if any(decode(data, name, 1 << 20)[1] for name in ("gzip", "zstd")):  # a list takes as long as what it unpacks to
        return
    path = _directory() / "list"
    path.write_bytes(data)
    parsers: list[Callable[[], object]] = [
        lambda: read_seeds([str(path)]), lambda: read_ranks(str(path), 10), lambda: parameter_names(str(path)),
        lambda: load(path), lambda: override(data.decode("utf-8", "replace")),
    ]  # fmt: skip
    for parse in parsers:
        try:
            parse()
        except (SeedsError, ConfigError) as error:
            assert str(error)


def catalogue(data: bytes) -> None:
    root = _directory() / "state"
    root.mkdir(exist_ok=True)
    for file in root.iterdir():
        file.unlink()
    (root / "catalog-000000.log").write_bytes(data)
    with suppress(Damaged, UnknownVersion):
        Catalog.open(root, readonly=True).close()


def segment(data: bytes) -> None:
    path = _directory() / "x.seg"
    path.write_bytes(data)
    with suppress(Damaged, UnknownVersion):
        for section in Segment.open(Files(), path).sections.values():
            for batch in section.scan():
                assert batch.rows >= 0
            section.verify()


@cache
def _segment() -> bytes:
    path = _directory() / "seed.seg"
    with SegmentWriter(Files(), path) as writer:
        rows = Batch({"key": np.arange(9, dtype=np.uint64), "url": Ragged.from_list([b"a%d" % n for n in range(9)])})
        writer.section("x", {"key": "u8", "url": "bytes"}, sorted_by="key", block_rows=4).append(rows)
    return path.read_bytes()


def cdxj(data: bytes) -> None:
    path = _directory() / "x.cdxj"
    path.write_bytes(data)
    try:
        for known in payloads.told(str(path), 0, Bar):
            assert len(known.sha1) == 20 and b"\n" not in known.date
    except ValueError as error:
        assert str(error)


def optouts(data: bytes) -> None:
    path = _directory() / "optouts"
    path.write_bytes(data)
    try:
        list_ = OptOuts(opt_outs(str(path)))
    except ConfigError as error:
        assert str(error)
        return
    for url in (b"http://a.test/x?y", b"http://[::1]:81/", b"https://b.a.test./"):
        assert list_.of(url) == list_.of(url)


def exported(data: bytes) -> None:
    """As `irlcrawl export` reads a page: a capture of any type."""
    kind, _, body = data.partition(b"\n")
    header = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind.replace(b"\r", b"") + b"\r\n\r\n"
    fields = {"warc-type": "response", "warc-target-uri": BASE.decode(), "warc-date": "2020-01-01T00:00:00Z"}
    capture = Capture(Record(0, 9, fields, b""), Exchange(BASE, "", b"", header, body), False)
    row = pages.row_of(capture, Archive("x.warc.gz", "x.warc.gz", 9, 0), pages.Asked())
    json_line([column.name for column in pages.columns(pages.Asked())], row).decode()
    for link in rows_of(capture):
        assert split(link[1].encode())


@cache
def _catalogue() -> bytes:
    root = _directory() / "seed"
    root.mkdir()
    with_line = Catalog.open(root)
    with_line.close()
    return next(root.glob("catalog-*.log")).read_bytes()


def _codings() -> list[bytes]:
    text = PAGE * 3
    one = [gzip.compress(text), zlib.compress(text), brotlicffi.compress(text), zstandard.compress(text)]
    return [bytes([number]) + body for number, body in enumerate(one)] + [b"\4" + brotlicffi.compress(one[0])]


_LINE = (
    b"20200101000000000 200 12 http://a.test/x L http://a.test/ text/html #001 20200101000000000+12 sha1:ABC - "
    b"outcome=fetched,reason=ok,warc=x.warc.gz@1+2"
)

PARSERS: dict[str, Callable[[], Parser]] = {
    "http": lambda: Parser([HEAD, CHUNKED, CHUNKED.replace(b"\r\n", b"\n"), b"HTTP/1.1 103 X\r\n\r\n" + HEAD], http),
    "http2": lambda: Parser([FRAMES, FRAMES[:80]], http2),
    "repair": lambda: Parser([HEAD[:-5], CHUNKED[:47] + b"\r\n"], repair),
    "chunks": lambda: Parser([CHUNKED[47:], b"5\nhello\n0\n\n", b"A;x\r\n0123456789\r\n0\r\n\r\n"], chunks),
    "coding": lambda: Parser(_codings(), coding),
    "charset": lambda: Parser([b"text/html\n" + PAGE, b"text/html; charset=big5\n" + bytes(range(256)),
                               b"x\n<?xml version='1.0' encoding=\"euc-jp\"?>", b"\n\xff\xfe<\0a\0"], charsets),
    "page": lambda: Parser([PAGE, PAGE[300:], b"<ul><li hidden><a href=1><li style='display:none'><a href=2></ul>"],
        page),
    "requisites": lambda: Parser([PAGE, NEEDS], needs),
    "sitemap": lambda: Parser([SITEMAP, FEED, b"http://a.test/1\nhttp://a.test/2\r\n",
        gzip.compress(SITEMAP)], sitemap),
    "robots": lambda: Parser([ROBOTS], robots),
    "tdm": lambda: Parser([
        b'[{"location": "/a/*.jpg$", "tdm-reservation": 1, "tdm-policy": "https://a.test/p"}, {"location": "/", '
        b'"tdm-reservation": 0}]'], tdm),
    "urls": lambda: Parser([b"http://a.test/a/../b;jsessionid=1?utm_x=1&b=%7e#f",
        b"HTTPS://User@\xc3\xa4.Test:443/%2e%2e/",
                            b"//[::1]:80/", b"a?b=c&a=d", b"http://1.2.3/x//index.html?", b"http:\\\\a.test\\"], urls),
    "headers": lambda: Parser([HEAD, b"120", b"Fri, 31 Dec 1999 23:59:59 GMT",
        b"a: nofollow, b: none\r\n  x"], headers),
    "whole_page": lambda: Parser([b"Link: </x>; rel=next\n\n" + PAGE, b"Content-Type: text/xml\n\n" + SITEMAP,
                                  b"Content-Encoding: gzip\n\n" + gzip.compress(PAGE)], whole_page),
    "warc": lambda: Parser([_archive(), b"z" + gzip.compress(_archive()), b"HTTP/1.1 200 OK\r\n\r\nx"], warc),
    "units": lambda: Parser([unit().to_json().encode(), unit(detail="x",
        robots={"robots": 1}).to_json().encode()], units),
    "log": lambda: Parser([_LINE, found_line()], log),
    "control": lambda: Parser([b'{"cmd": "status"}\n', b'{"cmd": ["status"]}', b"[1]"], control),
    "wire": lambda: Parser([encode({"t": "ping"}) * 2, encode({"t": "visit", "x": [1, 2.5, None, "\u20ac"]})], wire),
    "lists": lambda: Parser([b"http://a.test/\nb.test\n# c\n", b"1,a.test\n2,b.test\n", b"utm_*\nref # x\n",
                             b"[crawl]\nuser_agent = 'x'\n", b"fetch.read_seconds=3", gzip.compress(b"a.test")], lists),
    "catalogue": lambda: Parser([_catalogue()], catalogue),
    "segment": lambda: Parser([_segment()], segment),
    "cdxj": lambda: Parser([
        b'test,a)/ 20200101000000 {"url": "http://a.test/", "mime": "text/html", "digest": "' + b"A" * 32 + b'"}\n',
        b"!OpenWayback-CDXJ 1.0\n"], cdxj),
    "optouts": lambda: Parser([
        b"host a.test 2020-01-01 asked\nsite b.test 2020-01-01\nurl http://c.test/x 2020-01-01 # no\n"
        b"match ^http://d\\.test/ 2020-01-01 x\n"], optouts),
    "exported": lambda: Parser([b"text/html\n" + PAGE, b"text/xml\n" + SITEMAP, b"application/rss+xml\n" + FEED,
        b"application/xhtml+xml; charset=utf-8\n" + PAGE, b"text/html\n<script type='application/ld+json'>{\"@type\":"
        b" [\"A\"], \"b\": {\"@type\": \"C\"}}</script><meta property=og:title content=x>", b"\n%PDF-1.4"], exported),
}  # fmt: skip


def found_line() -> bytes:
    line: bytes = process(unit(), page_exchange(PAGE), LOCATION, context()).outcome[-1]
    return line.rstrip(b"\n")


__all__ = ["PARSERS", "Config", "Parser"]
