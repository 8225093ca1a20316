"""The reachable set of a served web: `reach` of each set, told once and kept in the cache, under every host's name."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from tools.docsweb import reach as reach_module
from tools.docsweb import robots, urls
from tools.docsweb.reach import Reach, reach
from tools.docsweb.sets import cache_dir
from tools.docsweb.urls import Url
from tools.docsweb.web import ServedSet, Web

UNPARSED = 400
"""nginx refuses a malformed percent-encoding before it reads the Host header, so its log cannot tell whose URL it was:
audit leaves those requests out, and so must what is expected."""


def expected(web: Web) -> set[str]:
    """Every URL that a crawl of the whole web requests, each exactly once (see tools.docsweb.reach)."""
    return {
        str(Url(web.scheme, host.name, web.port, target))
        for served in web.sets
        for target, status in of_set(web, served).requested.items()
        if status != UNPARSED
        for host in served.hosts
    }


def disallowed(web: Web) -> set[str]:
    """Every URL that is linked to and that robots.txt forbids."""
    return {
        str(Url(web.scheme, h.name, web.port, t)) for s in web.sets for t in of_set(web, s).disallowed for h in s.hosts
    }


def counts(web: Web) -> dict[str, Any]:
    """Counts per set for one host of it, and `urls` over all hosts."""
    per_set = {s.name: {"hosts": len(s.hosts), **of_set(web, s).counts()} for s in web.sets}
    return {"urls": sum(len(of_set(web, s).requested) * len(s.hosts) for s in web.sets), "sets": per_set}


def of_set(web: Web, served: ServedSet) -> Reach:
    """The reachable set of one host of the set. Every host's is the same, so it is computed once."""
    others = tuple(h.name for s in web.sets if s.name != served.name for h in s.hosts[:1])
    return _of_set(served.name, served.root, served.robots, tuple(served.entries), others)


@cache
def _of_set(name: str, root: str, robots_txt: str | None, entries: tuple[str, ...], others: tuple[str, ...]) -> Reach:
    """Kept in a file whose name has everything the answer depends on: parsing half a gigabyte of HTML takes a
    minute."""
    sources = [Path(str(module.__file__)).read_text() for module in (reach_module, robots, urls)]
    about = json.dumps([name, root, robots_txt, entries, os.stat(root).st_ino, sources])
    kept = cache_dir() / "reach" / f"{name}-{hashlib.sha256(about.encode()).hexdigest()[:16]}.json"
    if kept.is_file():
        data = json.loads(kept.read_text())
        return Reach(data["requested"], set(data["disallowed"]), data["html"], data["depth_max"])
    found = reach(Path(root), [Url("http", f"{name}.test", 80, path) for path in entries], robots_txt, others)
    data = found.__dict__ | {"disallowed": sorted(found.disallowed)}
    kept.parent.mkdir(exist_ok=True)
    temporary = kept.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(data))
    temporary.rename(kept)
    return found
