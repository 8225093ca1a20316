"""What the hosts of the sample web do that files cannot: redirect, wait, refuse, compress, and never end."""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import parse_qs, unquote

import brotlicffi

from tools.sampleweb.server import Ask, Reply

SITE = Path(__file__).parent / "site"

HOSTS = {
    "garden.test": "127.50.0.1",
    "library.garden.test": "127.50.0.2",
    "orchard.test": "127.50.0.3",
    "calendar.test": "127.50.0.4",
    "sloth.test": "127.50.0.5",
    "busy.test": "127.50.0.6",
    "vault.test": "127.50.0.7",
    "shut.test": "127.50.0.8",
}
HTTPS_HOSTS = {"vault.test"}
UNSERVED = {"ruin.test": "127.50.0.99", "intranet.test": "10.1.2.3"}
"""Names that resolve where nothing listens, and where no crawl may go. `lost.test` does not resolve at all."""

REDIRECTS = {
    "/apple": (301, "/fruit/apples.html"),
    "/pear": (302, "/pears"),
    "/pears": (307, "fruit/pear.html"),
    "/fruit/pear.html": (308, "pears.html"),
    "/plum": (302, "/damson"),
    "/damson": (302, "/plum"),
    "/self": (302, "/self"),
    "/over-the-wall": (301, "{{garden.test}}/about.html"),
}
ALIASES = {"/beds/übersicht.html": "/beds/overview.html"}
"""A path outside ASCII is for crawlers to meet, not for checkouts on every file system."""

WISHES = {
    ("garden.test", "/about.html"): [("X-Robots-Tag", "noai, noimageai"), ("X-Robots-Tag", "otherbot: noindex")],
    ("garden.test", "/pond.html"): [
        ("Content-Usage", "train-ai=n"), ("tdm-reservation", "1"), ("tdm-policy", "https://garden.test/tdm.json"),
    ],
}  # fmt: skip
"""What headers say about the use of a page. Others say it in the page (map.html, hush.html), the library in its
robots.txt."""

SLOTH_SECONDS = 1.0
RETRY_AFTER_SECONDS = 1
CATALOGUE_LINES = 20_000


class SampleWeb:
    """The handler of a tools.sampleweb.server. `origin_of` gives the origin (no slash at its end) of a host name."""

    def __init__(self, origin_of: Callable[[str], str]) -> None:
        self.origin_of = origin_of
        self.asked: Counter[tuple[str, str]] = Counter()

    async def __call__(self, ask: Ask) -> Reply:
        self.asked[ask.host, ask.path] += 1
        times = self.asked[ask.host, ask.path]
        if ask.host == "orchard.test" and ask.path in REDIRECTS:
            status, target = REDIRECTS[ask.path]
            return Reply(status, headers=[("Location", self._filled(target))])
        if ask.host == "orchard.test" and ask.path == "/spiral":
            turn = int(parse_qs(ask.target.partition("?")[2]).get("turn", ["0"])[0])
            return Reply(302, headers=[("Location", f"/spiral?turn={turn + 1}")])
        if ask.host == "calendar.test" and ask.path != "/robots.txt":
            return month_page(ask.path)
        if ask.host == "busy.test" and ask.path != "/robots.txt" and times == 1:
            return Reply(429, b"One moment, please.\n", "text/plain", [("Retry-After", str(RETRY_AFTER_SECONDS))])
        if ask.host == "shut.test" and ask.path == "/robots.txt" and times == 1:
            return Reply(503, b"Out of order.\n", "text/plain")
        if ask.host == "sloth.test":
            await asyncio.sleep(SLOTH_SECONDS)
            if ask.path == "/drip":
                return Reply(200, drip(), "text/plain")
        if ask.host == "garden.test" and ask.path == "/catalogue.txt":
            return Reply(200, b"".join(b"seed %06d\n" % n for n in range(CATALOGUE_LINES)), "text/plain")
        return self._file(ask)

    def _filled(self, text: str) -> str:
        return re.sub(r"\{\{([a-z.]+)\}\}", lambda m: self.origin_of(m[1]), text)

    def _file(self, ask: Ask) -> Reply:
        """A file of site/HOST, or 404; a folder without its slash redirects; compressed where the client may want
        it."""
        root = SITE / ask.host
        plain = unquote(ask.path)
        path = root / ALIASES.get(plain, plain).lstrip("/")
        if not path.resolve().is_relative_to(root):
            return Reply(404, b"Not found.\n", "text/plain")
        if path.is_dir():
            if not ask.path.endswith("/"):
                return Reply(301, headers=[("Location", ask.path + "/")])
            path /= "index.html"
        if not path.is_file():
            return Reply(404, b"<!DOCTYPE html><title>Not found</title><p>Nothing grows here.\n")
        body, kind = path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        headers: list[tuple[str, str]] = []
        if kind == "text/html":
            if b"{{" in body:
                body = self._filled(body.decode()).encode()
            body, headers = compressed(body, ask.headers.get("accept-encoding", ""), ask.host)
        return Reply(200, body, kind, headers + WISHES.get((ask.host, ask.path), []))


def compressed(body: bytes, accepted: str, host: str) -> tuple[bytes, list[tuple[str, str]]]:
    """The body in a coding the client accepts: the library prefers br, everybody else gzip."""
    codings = {coding.partition(";")[0].strip() for coding in accepted.split(",")}
    if host == "library.garden.test" and "br" in codings:
        return brotlicffi.compress(body), [("Content-Encoding", "br")]
    if "gzip" in codings:
        return gzip.compress(body), [("Content-Encoding", "gzip")]
    return body, []


def month_page(path: str) -> Reply:
    """A month of a calendar that goes on for ever in both directions, with a week view of each month besides."""
    match = re.fullmatch(r"/(\d{4,6})/(\d\d?)(/week)?", path)
    year, month = (int(match[1]), int(match[2])) if match else (2008, 4)
    ahead, back = year * 12 + month, year * 12 + month - 2
    links = "".join(
        f'<li><a href="/{months // 12}/{months % 12 + 1}{view}">{months // 12}-{months % 12 + 1:02}{view}</a>'
        for months in (back, ahead)
        for view in ("", "/week")
    )
    return Reply(200, f"<!DOCTYPE html><title>{year}-{month:02}</title><ul>{links}</ul>\n".encode())


async def drip() -> AsyncIterator[bytes]:
    """A body that never ends, a drop at a time."""
    while True:
        yield b"drip\n"
        await asyncio.sleep(0.2)
