"""What files of HTML say, by the standard library and docsweb's rules of URLs: nothing of irlcrawl is imported here."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin

from tools.docsweb import urls


class Page(HTMLParser):
    """Title, description, language and links of one page. Links are (URL, words, rel), in order."""

    def __init__(self, url: str, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.url, self.base = url, url
        self.title = self.description = self.language = ""
        self.links: list[tuple[str, str, str]] = []
        self._in: list[str] = []
        self._anchor: tuple[str, str] | None = None
        self._words: list[str] = []
        self._alts: list[str] = []
        self.feed(text)
        self.close()
        self._end_anchor()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "html":
            self.language = values.get("lang", "")
        elif tag == "base" and "href" in values and self.base == self.url:
            self.base = urljoin(self.url, values["href"])
        elif tag == "meta" and values.get("name", "").lower() == "description":
            self.description = _plain(values.get("content", ""))
        elif tag in ("title", "noframes"):  # what stands in noframes is no markup for browsers
            self._in.append(tag)
        elif "noframes" in self._in:
            return
        elif tag == "img" and self._anchor is not None:
            self._alts.append(values.get("alt", ""))
        elif tag == "a":
            self._end_anchor()
            if "href" in values:
                self._anchor = values["href"], values.get("rel", "")
        elif tag in ("frame", "iframe") and "src" in values:
            self._add(values["src"], "", "")
        elif tag == "link" and "href" in values and values.get("rel") in ("canonical", "alternate", "next", "prev"):
            self._add(values["href"], "", values["rel"])
        elif tag == "meta" and values.get("http-equiv", "").lower() == "refresh":
            self._add(values["content"].partition("url=")[2], "", "")
        elif tag == "area" and "href" in values:
            self._add(values["href"], values.get("alt", ""), values.get("rel", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("a", "td", "th"):  # what is open in a cell ends with it
            self._end_anchor()
        elif tag in self._in:
            self._in.remove(tag)

    def handle_data(self, data: str) -> None:
        if "title" in self._in:
            self.title = _plain(self.title + data)
        elif self._anchor is not None:
            self._words.append(data)

    def _end_anchor(self) -> None:
        if self._anchor is not None:
            words = _plain("".join(self._words)) or _plain(" ".join(self._alts))
            self._add(self._anchor[0], words, self._anchor[1])
        self._anchor, self._words, self._alts = None, [], []

    def _add(self, href: str, words: str, rel: str) -> None:
        target = urls.resolve(href, urls.parse(self.base))
        if target is None or not target.host or target.host.startswith("[") or " " in target.host:
            return  # no page here names an address of IPv6 but wrongly; and a host without its `k` has a space there
        url = str(target._replace(host=target.host.encode("idna").decode()))
        if url != self.url:
            self.links.append((url, _plain(words), " ".join(rel.lower().split())))


def _plain(text: str) -> str:
    return " ".join(text.split())
