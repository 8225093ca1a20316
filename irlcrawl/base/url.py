"""URLs as WHATWG defines them: what the crawler keys, requests and compares is what a browser would request.

url-py (the Rust `url` crate) parses and serialises; this module decides what is crawlable and keeps the one form that
is stored: http or https, no fragment, no userinfo, ASCII, and an authority that DNS and TCP can carry. The path stays
as written: `/%7e` and `/~` are two URLs for WHATWG, and so for us. Differences from WHATWG, pinned in
tests/conformance: on purpose, names DNS cannot carry (an empty label, a label over 63 or a name over 253 bytes) and
port 0 are no URLs here; by url-py, so are names with an `xn--` label that is no Punycode or decodes to what IDNA
forbids, which browsers keep as they are when the whole name is ASCII. `^` in a path stays, too, where WHATWG writes
`%5E` of late: another form would be another key, and crawls that go on would ask for such pages again.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import lru_cache

from publicsuffixlist import PublicSuffixList
from url import URL, URLError

HREF_CHARS_MAX = 65_536
"""A longer reference is not parsed: every scope would leave its URL out, and parsing costs time."""

HOSTS_CACHED = 4096
"""Hosts that each cache by host remembers: the links being read mostly lead to few hosts. Working a host out anew takes
about 30 microseconds; a cache for all hosts of a crawl would still be growing after hours."""

PORTS = {"http": 80, "https": 443}


class SeedError(ValueError):
    """A seed that is no crawlable URL. The message is the reason, for a person."""


def canonical(url: str | bytes, base: str | bytes | None = None) -> bytes | None:
    """The stored form of `url` (resolved against `base` when given), or None when it is not crawlable.

    Bytes that are no UTF-8 (of a Location header, mostly) are percent-encoded as they are, as browsers do.
    """
    text = url if isinstance(url, str) else url.decode("utf-8", "irlcrawl.octets")
    if base is not None:
        try:
            return Base(base).join(text)
        except ValueError:
            return None
    if len(text) > HREF_CHARS_MAX:
        return None
    try:
        return _stored(str(URL.parse(_cut(text))))
    except (URLError, UnicodeError):
        return _repaired(text, canonical)


class Base:
    """The base URL of a page: parsed once, then resolves the page's references fast.

    `charset` is the page's encoding (a Python codec name); by WHATWG it shapes only how non-ASCII characters of a query
    are percent-encoded. `stored`: `base_url` is in stored form already. Raises ValueError when it is not crawlable.
    """

    __slots__ = ("_codec", "_join", "_origin", "url")

    def __init__(self, base_url: str | bytes, charset: str = "utf-8", stored: bool = False) -> None:
        url = base_url if stored else canonical(base_url)
        if not isinstance(url, bytes):
            raise ValueError(f"not a crawlable base URL: {base_url!r}")
        self.url = url
        text = url.decode("ascii")
        self._origin = text[: text.index("/", 8)]
        self._join = URL.parse(text).join
        self._codec = None if charset in ("utf-8", "utf-16-le", "utf-16-be") else charset

    def join(self, href: str) -> bytes | None:
        """`href` resolved, in stored form; None when it is not crawlable (another scheme, a bad host or port)."""
        if len(href) > HREF_CHARS_MAX:
            return None
        if self._codec is not None and not href.isascii():
            href = _encode_query(href, self._codec)
        try:
            return _stored(str(self._join(_cut(href))), self._origin)
        except (URLError, UnicodeError):
            return _repaired(href, self.join)


def _cut(text: str) -> str:
    """`text` up to its first `#`, which stays: spaces before it belong to the URL, at the end they would not."""
    at = text.find("#")
    return text if at < 0 else text[: at + 1]


def _repaired(text: str, parse: Callable[[str], bytes | None]) -> bytes | None:
    """A second try after url-py refused `text`, for what WHATWG parses all the same. None when nothing can be done.

    Lone surrogates become U+FFFD (WHATWG parses scalar values); more than two leading slashes count as two.
    """
    scalar = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    repaired = _SLASHES.sub("//", scalar)
    return None if repaired == text else parse(repaired)


_SLASHES = re.compile(r"\A[\x00-\x20]*(?:[/\\][\t\n\r]*){3,}")


def _stored(text: str, origin: str = "") -> bytes | None:
    """The stored form of a serialised URL; `origin` is one known to be good."""
    if not text.startswith(("http://", "https://")):
        return None
    slash = text.index("/", 8)  # a special URL always has a path
    if text[:slash] != origin:
        clean = _clean_origin(text[:slash])
        if clean is None:
            return None
        if len(clean) != slash:
            text = clean + text[slash:]
    return (text[:-1] if text.endswith("#") else text).encode("ascii")


@lru_cache(maxsize=HOSTS_CACHED)
def _clean_origin(origin: str) -> str | None:
    """`origin` without userinfo, or None when no connection could be made to it."""
    scheme, _, authority = origin.partition("://")
    authority = authority.rpartition("@")[2]
    host, port = _host_port(authority, scheme)
    if port == 0 or not (authority.startswith("[") or _is_dns_name(host)):
        return None
    return f"{scheme}://{authority}"


def _is_dns_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return len(host.removesuffix(".")) <= 253 and all(0 < len(label) <= 63 for label in labels)


def _host_port(authority: str, scheme: str) -> tuple[str, int]:
    """Host (IPv6 without brackets) and port of a serialised authority without userinfo."""
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        port = rest[1:]
    else:
        host, _, port = authority.partition(":")
    return host, int(port) if port else PORTS[scheme]


def _encode_query(href: str, codec: str) -> str:
    """`href` with the non-ASCII characters of its query percent-encoded in the page's encoding (WHATWG 4.4, query
    state): a character the encoding lacks becomes `%26%23N%3B`, the numeric reference in disguise."""
    start = href.find("?")
    if start < 0:
        return href
    end = href.find("#", start)
    end = len(href) if end < 0 else end
    return href[:start] + _NON_ASCII.sub(lambda run: _percent_encode(run[0], codec), href[start:end]) + href[end:]


_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_QUERY_SAFE = frozenset(range(0x21, 0x7F)) - frozenset(b"\"#<>'")


def _percent_encode(text: str, codec: str) -> str:
    encoded = text.encode(codec, "irlcrawl.query")
    return "".join(chr(byte) if byte in _QUERY_SAFE else f"%{byte:02X}" for byte in encoded)


def _numeric_reference(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(f"%26%23{ord(char)}%3B" for char in error.object[error.start : error.end]), error.end


def _octets(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"%{byte:02X}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("irlcrawl.query", _numeric_reference)
codecs.register_error("irlcrawl.octets", _octets)


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?!\d+(?:[/?#]|$))")


def seed_url(text: str) -> bytes:
    """The stored form of a seed as a person writes it; a bare host (with a port or a path) means http.

    Raises SeedError, whose message is the reason.
    """
    text = text.strip()
    if not text:
        raise SeedError("empty")
    scheme = _SCHEME.match(text)
    if scheme is None and text[0] in "/\\?#" and not text.startswith("//"):
        raise SeedError("it begins where the name of a host should stand")
    if scheme is None:
        text = "http:" + text if text.startswith("//") else "http://" + text
    elif scheme[1].lower() not in PORTS:
        raise SeedError(f"the scheme {scheme[1].lower()!r} is not crawled, only http and https are")
    if len(text) > HREF_CHARS_MAX:
        raise SeedError(f"longer than {HREF_CHARS_MAX} characters")
    found = canonical(text)
    if found is not None:
        return found
    try:
        URL.parse(text)
    except (URLError, UnicodeError) as error:
        raise SeedError(f"not a URL: {error}") from error
    raise SeedError("no connection can be made to it: port 0, or a name that DNS cannot carry")


def bracketed(text: str) -> str:
    """What a person wrote, with brackets if it is an IPv6 address without."""
    text = text.strip()
    return f"[{text}]" if text.count(":") > 1 and "/" not in text and not text.startswith("[") else text


def named_host(text: str) -> tuple[str, int | None]:
    """(host as `split` gives it, the port if one is named) of a host as a person writes it: a name, an address, IPv6
    with brackets or without. Raises SeedError."""
    text = text.strip()
    if "/" in text or "@" in text:
        raise SeedError("takes a host's name, and no URL")
    text = bracketed(text)
    _, host, port, target = split(seed_url(text))
    if target != "/":
        raise SeedError("takes a host's name, and no URL")
    return host, port if text.endswith(f":{port}") else None


def split(url: bytes) -> tuple[str, str, int, str]:
    """(scheme, host, port, target) of a stored URL: the parts that a connection and a request line need.

    An IPv6 host comes without its brackets (as `socket` wants it), the port is always given, the target is path and
    query. Raises ValueError if `url` is no stored URL.
    """
    scheme, mark, rest = url.decode("ascii").partition("://")
    authority, slash, target = rest.partition("/")
    if not mark or not slash or scheme not in PORTS:
        raise ValueError(f"not a stored URL: {url!r}")
    host, port = _host_port(authority, scheme)
    return scheme, host, port, "/" + target


def host_of(url: bytes) -> str:
    """The bare host name of a stored URL; IPv6 without brackets."""
    start = url.index(b"//") + 2
    authority = url[start : url.index(b"/", start)].decode("ascii")
    return authority[1:].partition("]")[0] if authority.startswith("[") else authority.partition(":")[0]


@lru_cache(maxsize=2)
def _suffixes(private: bool) -> PublicSuffixList:
    return PublicSuffixList(only_icann=not private)


class SiteOf:
    """host name -> site: the registrable domain, the unit of reputation and budgets.

    Under the ICANN section of the Public Suffix List, or under all of it with `private_suffixes`. An address, a name
    without a dot and a public suffix are sites of their own; a trailing dot makes no difference. Answers are cached
    for the last `names_max` hosts.
    """

    def __init__(self, private_suffixes: bool = False, names_max: int = HOSTS_CACHED) -> None:
        self._private = private_suffixes
        self._cached = lru_cache(maxsize=names_max)(self._compute)

    def __call__(self, host: str) -> str:
        """`host` in stored form, IPv6 with or without brackets."""
        return self._cached(host)

    def _compute(self, host: str) -> str:
        host = host.strip("[]")
        if ":" in host or _IPV4(host):
            return host
        host = host.removesuffix(".")
        # The list is read when first asked: that takes longer than anything else in the start of a worker.
        return _suffixes(self._private).privatesuffix(host) or host


_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+").fullmatch
