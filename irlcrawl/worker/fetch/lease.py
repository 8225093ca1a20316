"""A lease on its way from the frontier to a worker: the one file that writes and reads a `visit` message.

    {"t": "visit", FIELD: value, …}      every field of `Lease`; those at their default may be missing

URLS = {"segment": n, "row": n, "key": [key, …], "url": str, COLUMN: [n, …] or str, …}: rows of one ready segment from
`row` on; what is text is one string, a line for each row. There is a COLUMN for each of rows.CARRIED, so that what a
link row says of its URL reaches the archived unit, and comes back with a repeat, without being named on the way.
Where some of the URLs are pages that were visited before, URLS has "page": {COLUMN: [n, …] or str, …} with those
columns of rows.PAGE that a worker needs (known.py); bytes are in base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drum import Batch, Ragged

from irlcrawl.base.rows import BYTES, CARRIED, PAGE, Carried
from irlcrawl.worker.archive.known import COLUMNS, Known
from irlcrawl.worker.fetch.wire import Message


@dataclass(slots=True)
class Lease:
    """URLs of one host, and how it may be asked for them. Times are unix seconds."""

    visit: int  # its number, which every answer names
    host: str  # name, without port
    scheme: str
    port: int
    address: str  # the one to connect to
    host_key: int
    gap: float  # seconds, at least, from the end of one exchange of the visit to the start of the next
    robots: dict[str, Any]  # ROBOTS (wire.py), as known
    urls: dict[str, Any]  # URLS
    not_after: float  # no request begins later
    failures: int = 0  # visits in a row that failed before; when not 0 the first good response makes a fact failed=0
    denials: int = 0  # times in a row that robots.txt could not be had
    patience: float | None = None  # seconds: where the gap grows beyond them the visit ends; None: visit_seconds
    scope: int = 0  # version of the scope that the frontier knows
    paces: dict[str, float] | None = None  # Politeness.paces; where there are any, the visit makes a single request
    begin_by: float | None = None  # that request begins no later, unless it is a detour
    bytes_charged: float | None = None  # limits.bytes_per_second: once more came, the visit ends before its next URL

    @classmethod
    def of(cls, message: Message) -> Lease:
        """The lease in a `visit` message."""
        return cls(**{name: message[name] for name in cls.__slots__ if name in message})

    def message(self) -> Message:
        """The `visit` message."""
        return {"t": "visit", **{name: getattr(self, name) for name in self.__slots__}}

    def __len__(self) -> int:
        return len(self.urls["key"])

    def rows(self) -> Iterator[tuple[int, int, str, Carried, Known | None]]:
        """(row in the segment, url_key, URL, what its link row carries, what is known of a page that was visited
        before) of each URL."""
        urls, last = self.urls, self.urls["row"] + len(self)
        if not len(self):
            return
        columns = [
            urls[name].encode("ascii").split(b"\n") if kind == BYTES else urls[name] for name, kind in CARRIED.items()
        ]
        carried = map(Carried._make, zip(*columns, strict=True))
        known = _known(urls["page"]) if "page" in urls else [None] * len(self)
        yield from zip(range(urls["row"], last), urls["key"], urls["url"].split("\n"), carried, known, strict=True)


def leased_urls(segment: int, row: int, links: Batch) -> dict[str, Any]:
    """URLS of LINK rows that lie in a ready segment from `row` on."""
    carried = {name: _lines(links[name]) if kind == BYTES else links[name].tolist() for name, kind in CARRIED.items()}
    urls = {"segment": segment, "row": row, "key": links["key"].tolist(), "url": _lines(links["url"]), **carried}
    if "visits" in links.columns and links["visits"].any():
        urls["page"] = _page([links[name].tolist() for name in COLUMNS])
    return urls


def urls_alike(
    segment: int, row: int, keys: Sequence[int], urls: Sequence[str], carried: Carried,
    known: Sequence[Known] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """URLS whose link rows say the same of each: for workers without a frontier."""
    columns = {
        name: "\n".join([value] * len(urls)) if isinstance(value, str) else [value] * len(urls)
        for name, value in carried.to_json().items()
    }
    alike = {"segment": segment, "row": row, "key": list(keys), "url": "\n".join(urls), **columns}
    return alike if known is None else {**alike, "page": _page(list(zip(*known, strict=True)))}


def _known(page: Mapping[str, Any]) -> list[Known | None]:
    columns = [list(map(b64decode, page[name].split("\n"))) if PAGE[name] == BYTES else page[name] for name in COLUMNS]
    return [known if known.visits else None for known in map(Known._make, zip(*columns, strict=True))]


def _page(columns: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The columns of `Known` as a message has them."""
    told = zip(COLUMNS, columns, strict=True)
    return {n: b"\n".join(map(b64encode, v)).decode("ascii") if PAGE[n] == BYTES else list(v) for n, v in told}


def _lines(texts: Ragged) -> str:
    return b"\n".join(texts.tolist()).decode("ascii")
