"""The oracle: which URLs must a crawl of docsweb request? Computed from the files, with its own parser and URL code.

Definition. The reachable set R of a host is the smallest set of URLs (no fragments) on that host such that
* every seed of the host is in R,
* where a URL of R may be requested (the host's robots.txt does not disallow it) and nginx answers with
  - 200 and an HTML type, every followed link of that page is in R,
  - a redirect (a folder asked for without its slash), the redirect's target is in R.
A crawl must *request* exactly the URLs of R that robots.txt allows, each once, whatever the answer: a dangling link's
404 counts like a page. Followed links are `a` and `area` (without rel=nofollow), `link` with rel canonical, alternate,
next or prev, `frame`, `iframe` and meta refresh, resolved against the first `<base href>`; a page whose meta robots
says nofollow or none has none. Links to other hosts are out of scope, and docsweb's hosts do not link to one another
(checked here), so mirrors of a set have the same R under their own names. URLs over 2048 bytes are out of scope as in
the crawler's default; depth is reported, so that a caller sees it is below the crawler's limit.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

from tools.docsweb import robots
from tools.docsweb.urls import Url, resolve

URL_BYTES_MAX = 2048
HTML_SUFFIXES = (".html", ".htm", ".shtml")  # what nginx's mime.types call text/html
_LINK_RELS = {"canonical", "alternate", "next", "prev", "previous"}
_REFRESH = re.compile(r"""\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?(?:"([^"]*)"|'([^']*)'|(\S.*?))\s*$""", re.IGNORECASE)
_META_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)


class PageLinks(HTMLParser):
    """Collects what a page links to: `hrefs`, the first `base`, and whether the page asks not to be followed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.hrefs: list[str] = []
        self.base: str | None = None
        self.nofollow = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in reversed(attrs)}  # the first of a name wins
        rel = set(attributes.get("rel", "").lower().split())
        if tag in ("a", "area"):
            self._take(attributes.get("href") if "nofollow" not in rel else None)
        elif tag == "link":
            self._take(attributes.get("href") if rel & _LINK_RELS else None)
        elif tag in ("frame", "iframe"):
            self._take(attributes.get("src"))
        elif tag == "base" and self.base is None:
            self.base = attributes.get("href")
        elif tag == "meta":
            self._meta(attributes)

    def _take(self, href: str | None) -> None:
        if href is not None:
            self.hrefs.append(href)

    def _meta(self, attributes: Mapping[str, str]) -> None:
        content = attributes.get("content", "")
        if attributes.get("http-equiv", "").lower() == "refresh":
            match = _REFRESH.match(content)
            if match:
                self._take(match[1] or match[2] or match[3])
        elif attributes.get("name", "").lower() == "robots":
            self.nofollow |= bool({"nofollow", "none"} & set(re.split(r"[\s,]+", content.lower())))


def links(html: bytes, page: Url) -> set[Url]:
    """URLs that the HTML document found at `page` links to and that a crawler follows."""
    parser = PageLinks()
    parser.feed(decoded(html))
    parser.close()
    if parser.nofollow:
        return set()
    base = (resolve(parser.base, page) if parser.base is not None else None) or page
    return {url for url in map(partial(resolve, base=base), set(parser.hrefs)) if url is not None}


def decoded(html: bytes) -> str:
    declared = _META_CHARSET.search(html[:1024])
    for name in ("utf-8-sig", declared[1].decode("ascii") if declared else "utf-8"):
        try:
            return html.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
    return html.decode("cp1252", "replace")


def answer(root: Path, url: Url) -> tuple[int, Path | None, Url | None]:
    """What nginx answers from the files: (status, the file sent if 200, the redirect's target if 301)."""
    path, mark, query = url.target.partition("?")
    plain = re.sub(rb"/{2,}", b"/", unquote_to_bytes(path))
    if b"\0" in plain or re.search("%(?![0-9a-fA-F]{2})", path):
        return 400, None, None
    file = os.fsencode(root) + plain
    if plain.endswith(b"/"):
        if not os.path.isdir(file):
            return 404, None, None
        index = file + b"index.html"
        return (200, Path(os.fsdecode(index)), None) if os.path.isfile(index) else (403, None, None)
    if os.path.isdir(file):
        return 301, None, url._replace(target=quote_from_bytes(plain + b"/") + mark + query)
    if os.path.isfile(file):
        return 200, Path(os.fsdecode(file)), None
    return 404, None, None


@dataclass
class Reach:
    """What a crawl of one host must do: `requested` maps each target (path and query) to the status it gets."""

    requested: dict[str, int] = field(default_factory=dict)
    disallowed: set[str] = field(default_factory=set)
    html: int = 0
    depth_max: int = 0

    def counts(self) -> dict[str, object]:
        statuses = Counter(self.requested.values())
        return {
            "requested": len(self.requested),
            "html": self.html,
            "disallowed": len(self.disallowed),
            "depth_max": self.depth_max,
            "status": {str(code): statuses[code] for code in sorted(statuses)},
        }


def reach(root: Path, seeds: Iterable[Url], robots_txt: str | None, other_hosts: Sequence[str] = ()) -> Reach:
    """Breadth-first over the files below `root` from `seeds`, all on one host. Raises ValueError on a link to another
    host of this web, which would make the hosts' reachable sets depend on one another."""
    rules = robots.rules_for_all(robots_txt)
    found = Reach()
    frontier = list(dict.fromkeys(seeds))
    home = frontier[0]._replace(target="/")
    known = set(frontier)
    depth = 0
    while frontier:
        found.depth_max = depth
        following: list[Url] = []
        for url in _with_redirects(frontier, root, rules, found, known):
            for link in url:
                if link.host in other_hosts:
                    raise ValueError(f"a page of {home.host} links to {link}: the sets are not independent")
                if link._replace(target="/") == home and link not in known and len(str(link)) <= URL_BYTES_MAX:
                    known.add(link)
                    following.append(link)
        frontier = following
        depth += 1
    return found


def _with_redirects(
    frontier: list[Url], root: Path, rules: list[robots.Rule], found: Reach, known: set[Url]
) -> Iterator[set[Url]]:
    """Answers every URL of one depth, redirects' targets included (they are as deep), and yields the pages' links."""
    queue = list(frontier)
    for url in queue:  # grows while it is read
        if not robots.allowed(rules, url.target):
            found.disallowed.add(url.target)
            continue
        status, file, target = answer(root, url)
        found.requested[url.target] = status
        if target is not None and target not in known:
            known.add(target)
            queue.append(target)
        if file is not None and file.name.lower().endswith(HTML_SUFFIXES):
            found.html += 1
            yield links(file.read_bytes(), url)
