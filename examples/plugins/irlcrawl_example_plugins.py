"""Six small plug-ins for irlcrawl, to be copied from: two filters, a priority, a normaliser, a page handler, and
headers. docs/plugins.md of irlcrawl says what each kind is given and what it gives.

Each function here is an entry point: it takes the options of its plug-in and returns what is called for pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from drum import Batch

from irlcrawl.web.plugins import Handled, PageSeen, each

Options = dict[str, str]


def languages(options: Options) -> Callable[[Batch, PageSeen], list[Any]]:
    """Filter. Leaves out links that begin with another language: `/fr/...` if `keep` is `de,en`."""
    keep = {name.strip().encode() for name in options["keep"].split(",")}
    first = re.compile(rb"^https?://[^/]+/([a-z]{2})(?:-[A-Za-z]{2})?/")

    def wanted(url: bytes) -> bool:
        match = first.match(url)
        return match is None or match[1] in keep

    return each(wanted)


def short(options: Options) -> Callable[[Batch, PageSeen], Any]:
    """Filter, of columns: leaves out URLs longer than `bytes`."""
    most = int(options.get("bytes", "200"))
    return lambda links, page: links["url"].lengths <= most


def recent(options: Options) -> Callable[[Batch, PageSeen], list[Any]]:
    """Priority. URLs with a date in their path go one level sooner from the year `since` on, later before it."""
    since = int(options.get("since", "2020"))
    dated = re.compile(rb"/((?:19|20)\d\d)/(?:0[1-9]|1[0-2])/")

    def weight(url: bytes) -> int:
        match = dated.search(url)
        return 0 if match is None else 1 if int(match[1]) >= since else -1

    return each(weight)


def amp(options: Options) -> Callable[[Batch, PageSeen], list[Any]]:
    """Normaliser. `/story/amp/` and `/story?amp=1` are `/story/` and `/story`."""
    end, parameter = re.compile(rb"(?<=/)amp/?$"), re.compile(rb"\?amp(?:=1)?$")
    return each(lambda url: parameter.sub(b"", end.sub(b"", url)))


def json_links(options: Options) -> Callable[[PageSeen], Handled | None]:
    """Page handler. Follows the web addresses in JSON, and notes how many there were."""

    def handle(page: PageSeen) -> Handled | None:
        if not dict(page.headers).get(b"content-type", b"").startswith(b"application/json"):
            return None
        found = [text for text in _texts(json.loads(page.body)) if text.startswith(("http://", "https://", "/"))]
        return Handled(links=found, notes={"links": str(len(found))})

    return handle


def country(options: Options) -> Callable[[str], list[tuple[str, str]]]:
    """Headers. Asks hosts of a country for its language first."""
    known = {"de": "de", "at": "de", "fr": "fr", "es": "es", "it": "it", "nl": "nl", "pl": "pl", "jp": "ja"}

    def headers(host: str) -> list[tuple[str, str]]:
        language = known.get(host.rpartition(".")[2])
        return [("Accept-Language", f"{language}, en;q=0.5")] if language else []

    return headers


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
