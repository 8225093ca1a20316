"""URL keys as indexes of web archives sort by them (SURT): `com,example)/path?query`, so that a site stands together.

The rules are those of the Internet Archive's `surt` library (which cdxj-indexer and pywb use), here for stored URLs:
ASCII, canonical, http or https. User and password, `www.` and a default port go; the path is in lower case and without
a slash at its end; the query's parameters are sorted, session ids are taken out. tests/export/test_surt.py holds it to
that library.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

_URL = re.compile(rb"([a-zA-Z][a-zA-Z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_PLAIN = re.compile(rb"(https?)://([a-z0-9.-]+)((?:/[a-zA-Z0-9_~-][a-zA-Z0-9_.~-]*+)*+)/?")
"""What most URLs are: nothing is escaped, no part of the path is empty or begins with a dot, no query follows."""
_SCHEMES = re.compile(rb"\A(?:https?://)+(https?://)")
_WWW = re.compile(rb"\Awww\d*\.")
_PORTS = {b"http": b"80", b"https": b"443"}
_TO_ESCAPE = re.compile(rb"[^!-\"$&-~]")
_PATH_SESSIONS = (
    re.compile(rb"^(.*/)(\((?:[a-z]\([0-9a-z]{24}\))+\)/)([^\?]+\.aspx.*)$", re.IGNORECASE),
    re.compile(rb"^(.*/)(\([0-9a-z]{24}\)/)([^\?]+\.aspx.*)$", re.IGNORECASE),
)
_QUERY_SESSIONS = tuple(
    re.compile(rb"^(.*)(?:" + pattern + rb")(?:&(.*))?$", re.IGNORECASE)
    for pattern in (
        rb"jsessionid=[0-9a-zA-Z]{32}", rb"phpsessid=[0-9a-zA-Z]{32}", rb"sid=[0-9a-zA-Z]{32}",
        rb"ASPSESSIONID[a-zA-Z]{8}=[a-zA-Z]{24}", rb"cfid=[^&]+&cftoken=[^&]+",
    )
)  # fmt: skip
_MAY_HAVE_SESSION = re.compile(rb"sid=|sessionid|cftoken=", re.IGNORECASE)


def surt(url: bytes) -> bytes:
    """The key of a stored URL; of anything else, the bytes as they are."""
    if plain := _PLAIN.fullmatch(url):
        scheme, authority, path = plain.groups()
        return _host(scheme, authority) + (path.lower() or b"/")
    match = _URL.fullmatch(_SCHEMES.sub(rb"\1", url, count=1))
    if match is None:
        return url
    scheme, authority, path, query = match.groups()
    query = _query(query) if query else b""
    return _host(scheme.lower(), authority or b"") + _path(path) + (b"?" + query if query else b"")


@lru_cache(maxsize=4096)
def _host(scheme: bytes, authority: bytes) -> bytes:
    """`com,example)`, with a port that is not the scheme's: `com,example:81)`."""
    name = authority.rpartition(b"@")[2].lower()
    name, _, port = name.partition(b"]") if name.startswith(b"[") else (name, b"", b"")
    if name.startswith(b"["):
        name, port = name[1:], port.removeprefix(b":")
    elif b":" in name:
        name, _, port = name.partition(b":")
    name = _WWW.sub(b"", _escaped(_unescaped(name)).strip(b"."), count=1) if not name[:1].isdigit() else name
    shown = b"" if port in (b"", _PORTS.get(scheme)) else b":%d" % int(port) if port.isdigit() else b":" + port
    return b",".join(reversed(name.split(b"."))) + shown + b")"


def _path(path: bytes) -> bytes:
    path = _escaped(_without_dots(_unescaped(path))).lower()
    if b".aspx" in path:
        for pattern in _PATH_SESSIONS:
            if found := pattern.match(path):
                path = found[1] + found[3]
    return path[:-1] if path.endswith(b"/") and len(path) > 1 else path


def _without_dots(path: bytes) -> bytes:
    """The path without `.`, `..` and doubled slashes; a `..` at the top stays, as the library has it."""
    if b"//" not in path and b"/." not in path:
        return path or b"/"
    kept: list[bytes] = []
    for part in path.split(b"/")[1:]:
        if part == b".." and kept:
            kept.pop()
        elif part != b".":
            kept.append(part)
    if not kept:
        return b"/"
    return b"/" + b"".join(part + b"/" for part in kept[:-1] if part) + kept[-1]


def _query(query: bytes) -> bytes:
    query = _escaped(_unescaped(query))
    if _MAY_HAVE_SESSION.search(query):
        for pattern in _QUERY_SESSIONS:
            if found := pattern.match(query):
                query = found[1] + (found[2] or b"")
    query = query.lower()
    if b"&" not in query:
        return query
    return b"&".join(b"=".join(pair) for pair in sorted(part.split(b"=", 1) for part in query.split(b"&")))


def _unescaped(text: bytes) -> bytes:
    """Until nothing is left to unescape: `%2541` is `A`."""
    while b"%" in text and (plain := unquote_to_bytes(text)) != text:
        text = plain
    return text


def _escaped(text: bytes) -> bytes:
    """`%`, `#`, the space and bytes outside printable ASCII as `%XX`."""
    return _TO_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], text)
