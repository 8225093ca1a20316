"""What benchmarks that run one crawl in a directory have in common: --dir, --json, and how they end."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.crawl import tree
from tools.docsweb.sets import DocswebError
from tools.options import directory


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """For `python -m bench NAME`, with the first line of the module's docstring; the caller adds its own options."""
    made = argparse.ArgumentParser(prog=f"python -m bench {name}", description=(doc or "").partition("\n")[0])
    made.add_argument(
        "--dir", type=directory, help="keep the web and the job in this directory; default: a temporary one, removed"
    )
    made.add_argument("--json", action="store_true", help="one JSON line")
    return made


def not_zero(told: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Those that had to be 0, in words."""
    return [f"{name} is {told[name]}" for name in names if told[name]]


def run(
    measure: Callable[[Path, argparse.Namespace], dict[str, Any]], options: argparse.Namespace, name: str,
    broken: Callable[[dict[str, Any]], list[str]] = lambda result: [],
) -> int:  # fmt: skip
    """Measure and print. broken: which promises a result breaks. Exit codes: 0 measured, 1 the web or the crawl failed,
    or a promise was broken (stderr says how)."""
    where = options.dir or Path(tempfile.mkdtemp(prefix=f"irlcrawl-{name}-"))
    try:
        result = measure(where, options)
    except (DocswebError, tree.CrawlFailed) as error:
        print(f"bench {name}: {error}", file=sys.stderr)
        return 1
    finally:
        if options.dir is None:
            shutil.rmtree(where)
    print(json.dumps(result) if options.json else "\n".join(f"{key}: {value}" for key, value in result.items()))
    for promise in (wrong := broken(result)):
        print(f"bench {name}: {promise}", file=sys.stderr)
    return 1 if wrong else 0
