"""`python -m tools.sampleweb demo [--dir DIR]`, or `serve DIR` to have the sample web to oneself until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools.ending import exit_when_told
from tools.options import directory
from tools.sampleweb.demo import demo, served
from tools.sampleweb.server import ServerError, until_told


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sampleweb", description="A small web on loopback.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("demo", help="serve it, crawl it, tell what happened; ends by itself")
    run.add_argument("--dir", type=directory, help="for the job, empty or new; default: a temporary one, kept")
    serve = verbs.add_parser("serve", help="serve it until SIGINT, for crawls of your own")
    serve.add_argument("dir", type=directory, help="directory for the configuration, seeds and access log")
    options = parser.parse_args(argv)
    exit_when_told()
    try:
        if options.verb == "demo":
            return demo(_fresh(options.dir, parser))
        return _serve(options.dir)
    except ServerError as error:
        print(f"sampleweb: {error}", file=sys.stderr)
        return 1


def _fresh(where: Path | None, parser: argparse.ArgumentParser) -> Path:
    if where is None:
        return Path(tempfile.mkdtemp(prefix="irlcrawl-demo-"))
    if any(where.iterdir()):
        parser.error(f"{where} is not empty")
    return where.absolute()


def _serve(where: Path) -> int:
    with until_told() as wait, served(where.absolute()) as sample:
        print(f"irlcrawl crawl {where / 'job'} --seeds {sample.seeds} --config {sample.config}", flush=True)
        wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
