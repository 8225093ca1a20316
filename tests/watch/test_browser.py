"""The operator's page in a real browser: what it shows, hostile names, keyboard, narrow windows, accessibility.

Needed, and not among the locked dependencies: Debian's `chromium`, Python's `playwright`, and axe-core of npm
(`npm install -g axe-core`, or IRLCRAWL_AXE names its axe.min.js). What is missing is named by the tests that skip.
With IRLCRAWL_PICTURES=1 the pictures of docs/watch.md are made anew.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drum import Files

import pytest

from irlcrawl.base.job import JobDir
from irlcrawl.base.reasons import Reason
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.control_server import serve
from irlcrawl.crawl.history import History
from tests.crawl.virtual_crawl import Answer, Crawl, Killed, Web

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: the page was not tried in a browser"
)
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "museum", "library", "harbour", "observatory", "orchard", "almanac", "chronicle", "lighthouse", "archive", "atlas",
    "botany", "cinema", "dialect", "estuary", "folklore", "geology", "herald", "islands", "journal", "kitchen",
    "lexicon", "meadow", "nursery", "opera", "poetry", "quarry", "railway", "seminar", "theatre", "university",
)  # fmt: skip
HOSTILE = "/<img src=x onerror=alert(1)>'><script>alert(2)</script>"


def web() -> Web:
    """Thirty sites of all sizes, with what hurts: robots.txt, redirects, errors, a dead host, a busy one, and names
    that were made to hurt an operator. Each page leads to the next ones."""
    found = Web()
    for number, name in enumerate(NAMES):
        pages = 40 + 160 // (number + 1)
        others = [f"http://{NAMES[(number * 7 + step) % len(NAMES)]}.example/" for step in range(1, 5)]
        first = f"http://{name}.example/"
        found.page(first, [f"{first}{page}" for page in range(8)] + [*others, f"{first}missing", HOSTILE])
        for page in range(pages):
            found.page(f"{first}{page}", [first, *(f"{first}{more}" for more in range(page + 1, min(page + 9, pages)))])
            found.answers[f"{first}{page}"].body += b" " * (97 * (page * page + number) % 40_000)
        found.answers[f"{first}1"] = Answer(301, {"location": "/2"})
        delay = b"Crawl-delay: 60\n" if number % 6 == 5 else b""
        found.answers[f"{first}robots.txt"] = Answer(200, {}, b"User-agent: *\nDisallow: /7\n" + delay)
    found.moods["opera.example"] = lambda url, now: Answer(reason=Reason.TIMEOUT)
    found.moods["quarry.example"] = lambda url, now: Answer(503)
    return found


class Played:
    """A crawl that was stopped in the middle of virtual time, and what it said of itself then."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        crawl = Crawl(path, web(), [f"http://{name}.example/" for name in NAMES[:5]], monkeypatch, workers=2)
        crawl.config.politeness.gap_host_seconds = 15.0
        crawl.config.limits.pages = 5000
        crawl.names.answers |= {
            f"{name}.example": f"192.0.2.{number // 5 * 3 + 10}" for number, name in enumerate(NAMES)
        }
        draw = random.Random(1)
        crawl.on_request = lambda url: setattr(crawl.web, "fetch_s", min(draw.lognormvariate(-1, 1), 8.0))
        self.record: dict[str, Any] = {}

        async def sampled(crawl: Crawl) -> None:
            assert crawl.loop is not None
            told = History(Files(), crawl.job().history)
            for _ in range(900):
                told.tick(crawl.clock.now(), crawl.loop.status)
                await asyncio.sleep(1)
            self.record = crawl.loop.status()
            crawl.kill()

        with pytest.raises(Killed):
            crawl.run(sampled)
        self.job = crawl.job()
        with self.job as job:
            job.write_config(to_toml(crawl.config))
        self.steered: list[dict[str, Any]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Its control socket answers, on a thread."""
        over, begun = threading.Event(), threading.Event()

        def steer(request: dict[str, Any]) -> dict[str, Any]:
            self.steered.append(request)
            return {"changed": [f"{request['verb']} {' '.join(request['arguments'])}: done"], "hints": []}

        async def main() -> None:
            control = await serve(self.job.socket, {"status": lambda request: self.record, "steer": steer})
            begun.set()
            await asyncio.to_thread(over.wait)
            await control.close()

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        begun.wait()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return Played(tmp_path_factory.mktemp("played") / "slow-museums", monkeypatch)


def watch(job: JobDir) -> list[str]:
    return [sys.executable, "-m", "irlcrawl", "watch", os.fspath(job.path), "--http", "127.0.0.1:0"]


@pytest.fixture
def address(played: Played) -> Iterator[str]:
    """Of the page, with its token."""
    with played.running(), subprocess.Popen(watch(played.job), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def browser(played: Played) -> Iterator[Any]:
    """After `played`, whose event loop cannot run beside playwright's."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed (Debian: chromium): the page was not tried in a browser")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


class Page:
    """A page that was loaded, and all that went wrong on it."""

    def __init__(
        self, browser: Any, address: str, width: int = 1400, height: int = 1000, scheme: str = "light"
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="UTC", locale="en-GB"
        )
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append("a script of a stranger ran"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("#panels article")
        self.page.wait_for_selector("#charts path.line")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))


@contextmanager
def opened(browser: Any, address: str, **more: Any) -> Iterator[Page]:
    page = Page(browser, address, **more)
    try:
        yield page
    finally:
        page.context.close()


def test_it_shows_the_crawl_asks_nobody_else_and_says_no_error(browser: Any, address: str, played: Played) -> None:
    with opened(browser, address) as shown:
        assert shown.text("h1") == "slow-museums" and shown.text("#state") == "running"
        assert f"{played.record['fetched']:,}" in shown.text("#tiles")
        assert {"Where URLs wait", "Why hosts wait", "Errors by reason", "Slowest hosts", "Largest hosts", "Addresses",
                "Budgets and limits", "Budgets of sites",
                "Failing hosts"} <= set(shown.page.locator("#panels h3").all_inner_texts())  # fmt: skip
        assert shown.page.locator("#charts path.line").count() >= 6
        assert shown.page.locator("#recent tr").count() == 50
        assert "token" not in shown.page.url, "it does not stay in the address"
        assert {re.match(r"http://[^/]+", url)[0] for url in shown.asked} == {address.partition("/#")[0]}  # type: ignore[index]
        assert shown.wrong == []


def test_hostile_names_are_text(browser: Any, address: str, played: Played) -> None:
    name, before = "<img src=x onerror=alert(3)>.example", played.record
    played.record = {**before, "largest_addresses": {name: 3}, "slowest_hosts": {name: 2.0}}
    assert "alert(2)" in played.job.crawl_log.read_text(errors="replace")
    try:
        with opened(browser, address) as shown:
            shown.page.locator("#panels", has_text="onerror").wait_for()
            assert shown.page.locator("main img, main script, main iframe, main a").count() == 0
            assert shown.wrong == []
    finally:
        played.record = before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_nothing(browser: Any, address: str, scheme: str, width: int) -> None:
    script = axe()
    with opened(browser, address, width=width, scheme=scheme) as shown:
        shown.page.evaluate(script)
        found = shown.page.evaluate("axe.run()")
        told = [
            (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found["violations"]
        ]
        assert told == [] and len(found["passes"]) > 20
        shown.page.evaluate("document.getElementById('sure').showModal()")
        assert shown.page.evaluate("axe.run()")["violations"] == []


def axe() -> str:
    path = os.environ.get("IRLCRAWL_AXE", "")
    if not path and shutil.which("npm"):
        root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True).stdout.strip()
        path = os.path.join(root, "axe-core", "axe.min.js")
    if not os.path.isfile(path):
        pytest.skip("axe-core is not installed (npm install -g axe-core): accessibility was not checked")
    return Path(path).read_text()


@pytest.mark.parametrize("width", [1920, 1024, 768, 390, 320])
def test_nothing_sticks_out_of_a_narrow_window(browser: Any, address: str, width: int) -> None:
    with opened(browser, address, width=width) as shown:
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        out = """[...document.querySelectorAll('main *')].filter(node => node.getBoundingClientRect().right > innerWidth
                 + 1 && !node.closest('.scroll, pre')).map(node => node.outerHTML.slice(0, 100))"""
        assert shown.page.evaluate(out) == []


def test_a_keyboard_is_enough(browser: Any, address: str, played: Played) -> None:
    with opened(browser, address) as shown:
        page = shown.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.name") == "range":
                break
        with page.expect_request(lambda request: "seconds=21600" in request.url):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Pages per second: ")
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        assert " at " in shown.text("#charts .read")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid", "the focus is seen"
        page.focus("#verb")
        page.keyboard.type("Block")
        page.keyboard.press("Tab")
        page.keyboard.type("spam.example")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#sure[open]")
        assert page.evaluate("document.activeElement.value") == "no", "the harmless answer has the focus"
        page.keyboard.press("Enter")
        assert not played.steered
        page.click("#do")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        page.locator("#said", has_text="spam.example: done").wait_for()
        assert [(one["verb"], one["arguments"]) for one in played.steered] == [("block", ["spam.example"])]
        assert shown.wrong == []
    played.steered.clear()


def test_steering_waits_for_the_token(browser: Any, address: str, played: Played) -> None:
    plain, _, token = address.partition("#token=")
    with opened(browser, plain) as shown:
        page = shown.page
        assert page.is_disabled("#do") and page.is_visible("#unlock")
        page.click("#unlock")
        page.fill("#token", "wrong-wrong-wrong-wrong")
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
        assert page.is_disabled("#do")
        page.click("#unlock")
        page.fill("#token", token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#deed:not([disabled])")
        page.click("[data-verb=pause]")
        page.locator("#said", has_text="pause").wait_for()
        assert [one["verb"] for one in played.steered] == ["pause"]
        page.reload()
        page.wait_for_selector("#deed:not([disabled])")
    played.steered.clear()


def test_a_killed_crawl_is_shown_and_a_page_without_its_server_says_so(browser: Any, played: Played) -> None:
    command = [
        sys.executable,
        "-m",
        "irlcrawl",
        "watch",
        os.fspath(played.job.path),
        "--http",
        "127.0.0.1:0",
        "--private",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            with opened(browser, address) as shown:
                assert shown.text("#state") == "killed" and shown.page.locator("#recent tr").count() == 50
                process.terminate()
                process.wait()
                shown.page.evaluate("look()")
                shown.page.wait_for_selector("#trouble:not([hidden])")
                assert "does not answer" in shown.text("#trouble")
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("name", "width", "height", "scheme"),
    [("watch-wide", 1280, 1180, "light"), ("watch-dark", 1280, 620, "dark"), ("watch-narrow", 390, 1500, "light")],
)
def test_pictures_for_the_documents(
    browser: Any, address: str, tmp_path: Path, name: str, width: int, height: int, scheme: str
) -> None:
    with opened(browser, address, width=width, height=height, scheme=scheme) as shown:
        shown.page.wait_for_timeout(500)
        session = shown.context.new_cdp_session(shown.page)
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": 75})
        picture = base64.b64decode(taken["data"])
        assert 10_000 < len(picture) < 150_000
        where = ROOT / "docs" if os.environ.get("IRLCRAWL_PICTURES") else tmp_path
        (where / f"{name}.webp").write_bytes(picture)
        shown.page.screenshot(path=str(tmp_path / f"{name}.png"), full_page=True)
