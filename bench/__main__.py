"""`python -m bench NAME [options] [--json]`: run the measurement bench/NAME.py, or bench/NAME/main.py."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import drum  # noqa: F401 - before a benchmark loads numpy: drum/processor.py

import bench
from tools.ending import exit_when_told


def main(argv: list[str]) -> int:
    found = (module for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))
    names = {module.name: f"bench.{module.name}{'.main' * module.ispkg}" for module in found}
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: python -m bench NAME [--json] [options]\nNAME: {', '.join(sorted(names))}")
        return 0 if argv else 4
    if argv[0] not in names:
        print(f"no benchmark {argv[0]!r}; there are: {', '.join(sorted(names))}", file=sys.stderr)
        return 4
    exit_when_told()
    code: int = importlib.import_module(names[argv[0]]).main(argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
