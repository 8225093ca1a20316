"""URLs the oracle's own way: the WHATWG rules that matter for http links, on nothing but `urllib.parse` and `re`.

Deliberately not the crawler's code and not its library. It covers what occurs in documentation: relative references,
dot segments (`%2e` too), backslashes, stray white space, percent-encoding per component, default ports. No IDNA.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_KEEP_PATH = "!$%&'()*+,-./:;=@[\\]^_|~"  # everything printable but space " # < > ? ` { }
_KEEP_QUERY = "!$%&()*+,-./:;=?@[\\]^_`{|}~"  # everything printable but space " # < > '
_PORTS = {"http": 80, "https": 443}


class Url(NamedTuple):
    """A canonical http(s) URL; `target` is path and query as the request line carries them."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.target}"


def parse(text: str) -> Url:
    """The canonical form of an absolute http(s) URL. Raises ValueError."""
    found = resolve(text, Url("http", "", 80, "/"))
    if found is None or not found.host:
        raise ValueError(f"not an absolute http(s) URL: {text!r}")
    return found


def resolve(reference: str, base: Url) -> Url | None:
    """What `reference` (an href) means on a page at `base`, without fragment; None when it is not an http(s) URL."""
    text = re.sub(r"[\t\n\r]", "", reference.strip("".join(map(chr, range(0x21)))))
    text = text.partition("#")[0]
    scheme = _SCHEME.match(text)
    if scheme:
        name = scheme[1].lower()
        if name not in _PORTS:
            return None
        rest = text[scheme.end() :]
        if name != base.scheme or re.match(r"[/\\]{2}", rest):
            return _absolute(name, rest)
        text = rest  # "http:page.html" is relative to an http base
    head, mark, query = text.partition("?")
    head = head.replace("\\", "/")
    if head.startswith("//"):
        return _absolute(base.scheme, text)
    base_path, _, base_query = base.target.partition("?")
    if not head:
        path = base_path
        if not mark and base_query:
            mark, query = "?", base_query
    elif head.startswith("/"):
        path = head
    else:
        path = base_path[: base_path.rfind("/") + 1] + head
    return base._replace(target=_target(path, mark, query))


def _absolute(scheme: str, rest: str) -> Url | None:
    head, mark, query = rest.partition("?")
    head = head.replace("\\", "/").lstrip("/")
    authority, slash, path = head.partition("/")
    host, _, port = authority.rpartition("@")[2].partition(":")
    if not host or (port and not port.isdecimal()):
        return None
    return Url(scheme, host.lower(), int(port) if port else _PORTS[scheme], _target(slash + path or "/", mark, query))


def _target(path: str, mark: str, query: str) -> str:
    out: list[str] = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments):
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        last = number == len(segments) - 1
        if plain == "..":
            del out[-1:]
        elif plain != ".":
            out.append(quote(segment, safe=_KEEP_PATH))
        if last and plain in (".", ".."):
            out.append("")
    return "/" + "/".join(out) + (mark and "?" + quote(query, safe=_KEEP_QUERY))
