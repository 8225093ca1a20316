"""A host of real documentation, crawled and given to the programs that people open archives with: warcio, fastwarc,
cdxj-indexer, pywb, py-wacz and ReplayWeb.page (wabac.js). Each has every page as its server had it, and in Chromium it
looks as it does there (page.requisites). What is expected is asked of the server itself, by the standard library."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from webcrawl import NO_GAPS, Crawl, check_warcs, warcs

from tests.whole import others
from tests.whole.browser import Browser
from tools.docsweb import oracle, serve
from tools.docsweb.sets import DocswebError
from tools.docsweb.web import Web

pytestmark = pytest.mark.slow
HOST = "gtk.test"
LOOKED_AT = 24
"""Pages that are opened in Chromium, evenly out of all."""
HERE = Path(__file__).parent


class Crawled(NamedTuple):
    job: Path
    web: Web
    bodies: dict[str, bytes]  # URL -> body, as the server has it
    wacz: Path
    cdxj: Path

    @property
    def mine(self) -> list[str]:
        """The URLs of one host."""
        return sorted(url for url in self.bodies if urlsplit(url).hostname == HOST)

    @property
    def addresses(self) -> dict[str, str]:
        return {host.name: host.address for served in self.web.sets for host in served.hosts}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    room = tmp_path_factory.mktemp("replay")
    job, settings = room / "job", NO_GAPS | {"page.links_max": 1_000_000, "page.requisites": "true"}
    try:
        with serve.running(room / "web", "gtk", mirrors=1) as web:  # a mirror brings revisit records
            ended = Crawl(job, f"127.0.0.1:{web.dns_port}", web.seeds, settings, web.network).run(110)
            assert ended.code == 0, ended.output
            bodies = {url: _asked(web, url) for url in oracle.expected(web)}
            for what, out in (("wacz", "job.wacz"), ("cdxj", "job.cdxj")):
                command = [sys.executable, "-m", "irlcrawl", "export", what, str(job), "-o", str(room / out), "--quiet"]
                subprocess.run(command, check=True)
            yield Crawled(job, web, bodies, room / "job.wacz", room / "job.cdxj")
    except DocswebError as error:
        pytest.skip(f"docsweb cannot be served: {error}")


def _asked(web: Web, url: str) -> bytes:
    """The body, and of a page that the server has not, its words for that."""
    parts = urlsplit(url)
    (host,) = (host for served in web.sets for host in served.hosts if host.name == parts.hostname)
    with contextlib.closing(web.connect(host)) as connection:
        connection.request("GET", parts._replace(scheme="", netloc="").geturl(), headers={"Host": parts.netloc})
        return connection.getresponse().read()


def _differing(expected: dict[str, bytes], shown: dict[str, str]) -> list[str]:
    return [url for url, body in expected.items() if shown.get(url) != hashlib.sha256(body).hexdigest()]


def test_warcio_and_fastwarc_accept_every_record(crawled: Crawled) -> None:
    check_warcs(crawled.job)
    python = others.python_with("fastwarc.warc")
    script = (
        "import sys; from fastwarc.warc import ArchiveIterator\n"
        "for path in sys.argv[1:]:\n"
        "    for record in ArchiveIterator(open(path, 'rb'), parse_http=False):\n"
        "        kind, whole = record.headers['WARC-Type'], record.verify_block_digest()\n"
        "        if kind == 'response':\n"
        "            record.parse_http()\n"
        "            whole = whole and record.verify_payload_digest()\n"
        "        print(kind, record.headers.get('WARC-Target-URI'), whole)"
    )
    told = subprocess.run([python, "-c", script, *map(str, warcs(crawled.job))], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr[-2000:]
    lines = [line.split(" ") for line in told.stdout.splitlines()]
    assert [line for line in lines if line[2] != "True"] == []
    met = {line[1] for line in lines if line[0] in ("response", "revisit")}
    assert crawled.bodies.keys() <= met and any(line[0] == "revisit" for line in lines)


def test_cdxj_indexer_makes_the_same_index(crawled: Crawled, tmp_path: Path) -> None:
    script = "import sys; from cdxj_indexer.main import write_cdx_index as w; w(sys.argv[1], sys.argv[2:], {'sort': 1})"
    python, theirs = others.python_with("cdxj_indexer.main"), tmp_path / "theirs.cdxj"
    subprocess.run([python, "-c", script, str(theirs), *map(str, warcs(crawled.job))], check=True)
    assert crawled.cdxj.read_text() == theirs.read_text()


def test_py_wacz_accepts_the_package(crawled: Crawled) -> None:
    script = "import sys; from wacz.main import main; sys.exit(main(['validate', '-f', sys.argv[1]]))"
    python = others.python_with("wacz.main")
    told = subprocess.run([python, "-c", script, str(crawled.wacz)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


@contextlib.contextmanager
def _pywb(crawled: Crawled, directory: Path) -> Iterator[str]:
    """The address of the collection that a pywb serves."""
    command = [others.python_with("pywb"), str(HERE / "pywb_server.py"), str(directory), *map(str, warcs(crawled.job))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                if line.strip().isdigit():
                    break
            else:
                raise AssertionError("pywb does not serve")
            yield f"http://127.0.0.1:{int(line)}/t"
        finally:
            server.kill()


def test_pywb_has_every_page_of_both_hosts(crawled: Crawled, tmp_path: Path) -> None:
    with _pywb(crawled, tmp_path) as address:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        shown = {}
        for url in crawled.bodies:
            connection.request("GET", f"/t/2id_/{url}")
            response = connection.getresponse()
            body = response.read()
            packed = response.getheader("Content-Encoding") == "gzip"
            shown[url] = hashlib.sha256(gzip.decompress(body) if packed else body).hexdigest()
        connection.close()
    assert _differing(crawled.bodies, shown) == []


WORDS = "document.title + '\\n' + document.body.innerText"
FRAMED = """(url => new Promise(done => {
    document.body.innerHTML = "";
    document.body.style.margin = 0;
    const frame = document.createElement("iframe");
    frame.style.cssText = "border: 0; width: 100vw; height: 100vh; display: block";
    frame.onload = () => done(frame.contentDocument.title + "\\n" + frame.contentDocument.body.innerText);
    frame.src = url;
    document.body.append(frame);
}))(%s)"""
"""Replay stands in a frame of a page of its own origin, as its makers have it."""


def _looked_at(crawled: Crawled) -> list[str]:
    """Some pages, evenly out of all."""
    pages = [url for url in crawled.mine if b"<body" in (body := crawled.bodies[url]) and b"<center>" not in body]
    return pages[:: max(1, len(pages) // LOOKED_AT)]


@pytest.fixture(scope="module")
def served(crawled: Crawled) -> dict[str, tuple[str, bytes]]:
    """URL -> title and words, and a picture, of the page as its server has it."""
    with Browser(others.chromium(), crawled.addresses) as browser:
        seen = {}
        for url in _looked_at(crawled):
            browser.open(url)
            seen[url] = browser.ask(WORDS), browser.picture()
        return seen


def test_pywb_shows_the_pages_in_chromium(
    crawled: Crawled, served: dict[str, tuple[str, bytes]], tmp_path: Path
) -> None:
    with _pywb(crawled, tmp_path) as address, Browser(others.chromium(), {}) as browser:
        browser.open(f"{address}/../static/")
        for url, (words, picture) in served.items():
            assert len(words) > 100 and browser.ask(FRAMED % json.dumps(f"{address}/2mp_/{url}")) == words, url
            assert browser.picture() == picture, url


@contextlib.contextmanager
def _wabac(package: Path, browser: Browser) -> Iterator[str]:
    """The address at which wabac.js, a service worker in the browser, shows the package."""
    files = {
        "/": (b"<!DOCTYPE html><title>wabac.js</title>", "text/html"),
        "/sw.js": ((others.replay_web_page() / "sw.js").read_bytes(), "text/javascript"),
        "/job.wacz": (package.read_bytes(), "application/wacz"),
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            data, media_type = files.get(self.path.partition("?")[0], (b"", ""))
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            start, end = 0, len(data)
            if asked and asked[1]:
                start, end = int(asked[1]), min(int(asked[2]) + 1 if asked[2] else end, end)
            elif asked:
                start = max(0, end - int(asked[2]))
            self.send_response(404 if not media_type else 206 if asked else 200)
            self.send_header("Content-Type", media_type or "text/plain")
            self.send_header("Content-Length", str(end - start))
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(data[start:end])

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            browser.open(f"{address}/")
            added = browser.ask("""(async () => {
                await navigator.serviceWorker.register("/sw.js?useHashCheck=1");
                const worker = (await navigator.serviceWorker.ready).active;
                return new Promise(done => {
                    navigator.serviceWorker.addEventListener("message", ({data}) => {
                        if (data.msg_type == "collAdded" || data.error) done(JSON.stringify(data));
                    });
                    const sourceUrl = location.origin + "/job.wacz";
                    worker.postMessage({msg_type: "addColl", name: "t", file: {sourceUrl}});
                });
            })()""")
            assert "collAdded" in added, added
            browser.open(f"{address}/")  # now under the service worker
            yield f"{address}/w/t"
        finally:
            server.shutdown()


VERIFICATION = """(async () => {
    const asked = indexedDB.open("db:t");
    const db = await new Promise(done => asked.onsuccess = () => done(asked.result));
    const all = db.transaction("verification").objectStore("verification").getAll();
    return new Promise(done => all.onsuccess = () => done(all.result));
})()"""
BODIES = """(async urls => {
    const shown = {};
    for (const url of urls) {
        const body = await (await fetch("/w/t/id_/" + url)).arrayBuffer();
        const digest = await crypto.subtle.digest("SHA-256", body);
        shown[url] = Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join("");
    }
    return shown;
})(%s)"""


def test_wabac_js_accepts_the_package_and_has_every_page(crawled: Crawled) -> None:
    with Browser(others.chromium(), {}) as browser, _wabac(crawled.wacz, browser) as address:
        shown = browser.ask(BODIES % json.dumps(crawled.mine))
        assert _differing({url: crawled.bodies[url] for url in crawled.mine}, shown) == [], address
        told = browser.ask("fetch('/w/api/c/t?all=1').then(answer => answer.json())")
    assert sorted(page["url"] for page in told["pages"]) == sorted(crawled.web.seeds)
    assert _checked(crawled.wacz, crawled.web.seeds[0])["pages/pages.jsonl"] is True


def _checked(package: Path, page: str) -> dict[str, bool]:
    """Part of the package -> whether its hash is what wabac.js makes of it, after this page was shown."""
    with Browser(others.chromium(), {}) as browser, _wabac(package, browser) as address:
        browser.ask(FRAMED % json.dumps(f"{address}/mp_/{page}"))
        found = browser.ask(VERIFICATION)
    return {re.sub(r":\d+-\d+$", "", one["id"].removeprefix("default")): one["matched"] for one in found}


def test_wabac_js_says_of_the_package_what_it_says_of_one_by_py_wacz(crawled: Crawled, tmp_path: Path) -> None:
    """It takes the hash of a block of the index over what is unpacked, py-wacz over what is packed, as we do; and looks
    up that of the index of the index by another name than it noted."""
    script = "import sys; from wacz.main import main; sys.exit(main(['create', '-o', *sys.argv[1:]]))"
    theirs, python = tmp_path / "theirs.wacz", others.python_with("wacz.main")
    told = subprocess.run(
        [python, "-c", script, str(theirs), "--detect-pages", *map(str, warcs(crawled.job))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    ours, others_said = (_checked(package, crawled.web.seeds[0]) for package in (crawled.wacz, theirs))
    parts = {"indexes/index.cdx.gz", "indexes/index.idx", "signature"}  # theirs has no list of pages
    assert {name: ours[name] for name in parts} == {name: others_said[name] for name in parts}


def test_wabac_js_shows_the_pages(crawled: Crawled, served: dict[str, tuple[str, bytes]]) -> None:
    with Browser(others.chromium(), {}) as browser, _wabac(crawled.wacz, browser) as address:
        for url, (words, picture) in served.items():
            assert browser.ask(FRAMED % json.dumps(f"{address}/mp_/{url}")) == words, url
            assert browser.picture() == picture, url
