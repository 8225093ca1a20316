"""`python -m tools.sampleweb demo [--dir DIR]`, or `serve DIR` to have the sample web to oneself until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools.sampleweb.demo import demo, served
from tools.sampleweb.server import ServerError, until_told


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sampleweb", description="A small web on loopback.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("demo", help="serve it, crawl it, tell what happened; ends by itself")
    run.add_argument("--dir", type=Path, help="an empty or new directory for the job; default: a temporary one, kept")
    serve = verbs.add_parser("serve", help="serve it until SIGINT, for crawls of your own")
    serve.add_argument("dir", type=Path, help="directory for the configuration, seeds and access log")
    options = parser.parse_args(argv)
    try:
        if options.verb == "demo":
            return demo(_fresh(options.dir, parser))
        return _serve(options.dir)
    except ServerError as error:
        print(f"sampleweb: {error}", file=sys.stderr)
        return 1


def _fresh(directory: Path | None, parser: argparse.ArgumentParser) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="irlcrawl-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        parser.error(f"{directory} is not empty")
    return directory.absolute()


def _serve(directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    with until_told() as wait, served(directory.absolute()) as sample:
        print(f"irlcrawl crawl {directory / 'job'} --seeds {sample.seeds} --config {sample.config}", flush=True)
        wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
