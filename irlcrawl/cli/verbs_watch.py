"""The verb `watch`: a crawl's figures as long as somebody looks, on a terminal or a web page.

Heavy modules are imported where they are needed.
"""

from __future__ import annotations

import argparse
import os
import sys

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import JobDir, JobError
from irlcrawl.config.keys import ConfigError
from irlcrawl.terminal.progress import reader_may_leave, unheard

DEFAULT_ADDRESS = "127.0.0.1:8730"


def watch(args: argparse.Namespace) -> int:
    if args.http is None:
        if args.token_file or args.name or args.private:
            raise ConfigError("--token-file, --name and --private go with --http")
        return _show(JobDir(args.job).require())
    return _serve(JobDir(args.job).require(), args)


def _show(job: JobDir) -> int:
    """Until the crawl ends, or somebody has seen enough."""
    from irlcrawl.watch.terminal import show

    try:
        with reader_may_leave():
            show(job)
    except KeyboardInterrupt:
        print()
    return ExitCode.DONE


def _serve(job: JobDir, args: argparse.Namespace) -> int:
    import asyncio

    from irlcrawl.watch.guard import Guard, is_loopback, listen_at, token_of
    from irlcrawl.watch.server import open_to_look, serve

    address, port = listen_at(args.http)
    token = token_of(args.token_file)
    guard = Guard(token, open_to_look(address, args.private), tuple(args.name))

    def listening(url: str) -> None:
        with unheard(sys.stdout):
            print(f"{url}#token={token}", flush=True)
        if not is_loopback(address):
            with unheard(sys.stderr):
                print(
                    "irlcrawl: whoever sees the traffic to this address can read the token: lead it through TLS or SSH",
                    file=sys.stderr,
                )

    try:
        asyncio.run(serve(job, address, port, guard, listening))
    except OSError as error:
        raise JobError(f"--http {args.http}: {os.strerror(error.errno or 0)}") from error
    return ExitCode.DONE
