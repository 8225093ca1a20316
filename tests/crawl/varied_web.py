"""A played web with something for every feature: sitemaps, requisites, mirrors, wishes, redirects, errors, hosts that
fail for a while, pages that change, conditional requests.

What a server says is a function of URL and time, so a story (tests/crawl/story.py) can say what was on a page
when it was fetched, and which links have to be known in the end whatever was configured, killed and resumed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from irlcrawl.base.reasons import Reason
from tests.crawl.virtual_crawl import START, Answer, Names, Web

HTML = {"content-type": "text/html"}
TEXT = {"content-type": "text/plain"}
SEED = "http://www.a.test/"
HOSTS = [
    "www.a.test", "b.a.test", "c.a.test", "one.test", "mirror.test", "slow.test", "odd.test", "late.test", "wish.test",
    "cdn.test",
]  # fmt: skip
PAGES = 6
CRAWL_DELAY_S = 2.0
PRIVATE = "/private/"
"""Of every host with rules: what robots.txt forbids."""


@dataclass
class Page:
    """`sure`: URLs that are found wherever the page was fetched; `maybe`: those that a configuration may leave out.
    every: seconds between two changes of its text; 0: never."""

    sure: list[str]
    maybe: list[str]
    every: float
    text: int  # its words; those of a mirror are another page's
    head: str = ""


class VariedWeb(Web):
    def __init__(self, seed: int) -> None:
        super().__init__(fetch_s=0.05)
        self.seed = seed
        self.pages: dict[str, Page] = {}
        self.said: dict[str, set[bytes]] = {}
        """URL -> bodies that were sent."""
        self.sitemaps: dict[str, list[str]] = {}
        """Host -> what its robots.txt and its sitemap lead to."""
        self.known: set[str] = set()
        """Every URL that any configuration could find."""
        draw = random.Random(seed)
        for number, host in enumerate(HOSTS):
            self._host(host, number, draw)
        self.pages[SEED].sure += [f"http://{host}/" for host in HOSTS]
        self._odd()
        for url, page in self.pages.items():
            self.known |= {url, *page.sure, *page.maybe}
        self.moods["late.test"] = lambda url, now: Answer(reason=Reason.CONNECT) if now < START + 90 else None
        self.moods["c.a.test"] = lambda url, now: Answer(503, {"retry-after": "20"}) if now < START + 40 else None

    def _host(self, host: str, number: int, draw: random.Random) -> None:
        urls = [f"http://{host}/"] + [f"http://{host}/{page}/" for page in range(1, PAGES)]
        for at, url in enumerate(urls):
            others = [f"http://{draw.choice(HOSTS)}/{draw.randrange(1, PAGES)}/" for _ in range(2)]
            sure = [*urls[at + 1 : at + 3], *others, f"http://{host}{PRIVATE}{at % 2}"]
            maybe = [f"http://cdn.test/i{draw.randrange(4)}.png", f"{url}?utm_source=x", f"{url}amp/",
                     f"http://{host}/style.css", f"http://{host}/{'x' * 90}"]  # fmt: skip
            text = at if host == "mirror.test" else 100 * number + at
            head = '<meta name="robots" content="noarchive, noai">' if host == "wish.test" and at % 2 else ""
            self.pages[url] = Page(sure, maybe, draw.choice([0.0, 0.0, 60.0, 300.0]), text, head)
            self.answers[f"http://{host}/{'x' * 90}"] = Answer(200, TEXT, b"long")
        rules = f"User-agent: *\nDisallow: {PRIVATE}\n"
        if host == "slow.test":
            rules += f"Crawl-delay: {CRAWL_DELAY_S:g}\n"
        if host in ("one.test", "www.a.test"):
            rules += f"Sitemap: http://{host}/sitemap.xml\n"
            listed = [f"http://{host}/listed/{n}" for n in range(3)]
            self.sitemaps[host] = [f"http://{host}/sitemap.xml", *listed]
            items = "".join(f"<url><loc>{url}</loc><lastmod>2001-09-09</lastmod></url>" for url in listed)
            head = '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
            self.answers[f"http://{host}/sitemap.xml"] = Answer(
                200, {"content-type": "application/xml"}, f"{head}{items}</urlset>".encode()
            )
            for url in listed:
                self.answers[url] = Answer(200, TEXT, url.encode() * 40)
            self.known |= set(self.sitemaps[host])
        if host != "cdn.test":
            self.answers[f"http://{host}/robots.txt"] = Answer(200, TEXT, rules.encode())
        if host == "wish.test":
            told = b'[{"location": "/2*", "tdm-reservation": 1}]'
            self.answers[f"http://{host}/.well-known/tdmrep.json"] = Answer(
                200, {"content-type": "application/json"}, told
            )
        self.answers[f"http://{host}/style.css"] = Answer(
            200, {"content-type": "text/css"}, f"b {{ background: url(http://cdn.test/bg{number % 3}.png) }}".encode()
        )
        self.known |= {f"http://cdn.test/bg{n}.png" for n in range(3)}
        for n in range(4):
            image = random.Random(n % 2).randbytes(3000)  # two of them are the same
            self.answers[f"http://cdn.test/i{n}.png"] = Answer(200, {"content-type": "image/png"}, image)

    def _odd(self) -> None:
        odd = "http://odd.test/"
        self.pages[odd].sure += [f"{odd}{name}" for name in ("gone", "moved", "cut", "down", "never", "same1", "same2")]
        self.pages[odd].sure += ["http://nowhere.test/x", "http://api.test/json"]
        self.answers |= {
            f"{odd}gone": Answer(410, HTML, b"gone"),
            f"{odd}moved": Answer(302, {"location": f"{odd}target"}),
            f"{odd}cut": Answer(200, HTML, b"<p>" * 900, truncated="length"),
            f"{odd}never": Answer(reason=Reason.PROTOCOL),
            f"{odd}down": Answer(500, HTML, b"always"),
            f"{odd}same1": Answer(200, TEXT, b"the same body" * 200),
            f"{odd}same2": Answer(200, TEXT, b"the same body" * 200),
            f"{odd}target": Answer(200, TEXT, b"there"),
            "http://api.test/json": Answer(200, {"content-type": "application/json"}, b'{"n": ["/found"]}'),
            "http://api.test/found": Answer(200, TEXT, b"found"),
        }
        self.known |= {f"{odd}target", "http://api.test/found"}

    def told(self, url: str, version: int) -> bytes:
        body = self.body(url.partition("?")[0], version)
        self.said.setdefault(url, set()).add(body)
        return body

    def version(self, url: str, now: float) -> int:
        every = self.pages[url].every
        return int((now - START) // every) if every else 0

    def body(self, url: str, version: int) -> bytes:
        page = self.pages[url]
        drawn = random.Random(f"{page.text} {version}")
        words = ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(2, 9))) for _ in range(220)]
        if "mirror" in url:
            words[50] = "edited"
        text = "".join(f"<p>{' '.join(words[at : at + 20])} end.</p>" for at in range(0, len(words), 20))
        image, *links = page.maybe
        links = [link for link in links if not link.endswith(".css")]
        css = next(link for link in page.maybe if link.endswith(".css"))
        anchors = "".join(f'<a href="{link}">x</a>' for link in [*page.sure, *links])
        head = f'<html><head>{page.head}<link rel=stylesheet href="{css}"></head>'
        return f'{head}{anchors}<img src="{image}">{text}'.encode()

    def answer(self, url: str, host: str, now: float) -> Answer:
        mood = self.moods.get(host)
        if mood is not None and (told := mood(url, now)) is not None:
            return told
        if url in self.pages:
            version = self.version(url, now)
            header = {**HTML, "etag": f'"{version}"'} if self.pages[url].text % 2 else HTML
            return Answer(200, header, self.told(url, version))
        plain = url.partition("?")[0]
        if plain != url and plain in self.pages:
            return Answer(200, HTML, self.told(url, 0))
        return self.answers.get(url) or Answer(404, HTML, b"none")


class VariedNames(Names):
    """mirror.test and one.test are at one address, nowhere.test at none."""

    def __init__(self) -> None:
        super().__init__()
        self.answers |= {"mirror.test": "10.9.9.9", "one.test": "10.9.9.9", "nowhere.test": Reason.DNS}
