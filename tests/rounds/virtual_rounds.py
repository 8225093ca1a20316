"""A crawl in rounds under virtual time: the verbs' own code over a made-up web (tests/crawl/virtual_crawl.py)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from irlcrawl.base.job import JobDir
from irlcrawl.config.toml import to_toml
from irlcrawl.crawl.loop import CrawlLoop
from irlcrawl.crawl.seeding import write_seeds
from irlcrawl.frontier.state.crawl_state import CrawlState
from irlcrawl.rounds.fetch import Fetch, Told, adopt
from irlcrawl.rounds.generate import Made, Wish, directory_for, generate
from irlcrawl.rounds.update import Back, update
from irlcrawl.terminal.progress import Bar
from irlcrawl.worker.fetch import service
from tests.crawl.virtual_crawl import Crawl, _Process

R = TypeVar("R")


class Rounds(Crawl):
    """The crawl's own `run` may come between any two verbs."""

    bar = Bar()

    def seed(self) -> None:
        """Seeds are taken in, and nothing is fetched."""

        async def work(state: CrawlState) -> None:
            name = write_seeds(state, self.config, [url.encode() for url in self.seeds], 0, [])
            loop = CrawlLoop(state, self.config, self.clock)
            await loop.open(name, list(state.streams))
            from irlcrawl.base.exit_codes import ExitCode

            loop.stop(ExitCode.INTERRUPTED)
            await loop.run()

        self._opened(work)

    def generate(self, urls: int = 1000, per_host: int = 0, lists: int = 1, hours: float = 24.0) -> list[Made]:
        wish, directory = Wish(urls, per_host, lists, hours * 3600), directory_for(os.fspath(self.path) + "-lists")
        return self._opened(lambda state: generate(state, self.config, self.clock, wish, directory))

    def fetch(self, made: Made, name: str, main: Callable[[Fetch], Coroutine[Any, Any, None]] | None = None) -> Told:
        """Into DIR, a directory beside JOB."""
        directory = self.directory(name)

        def start(stream: int) -> tuple[_Process, socket.socket]:
            ours, theirs = socket.socketpair()
            serving = asyncio.ensure_future(service.serve(theirs, directory.path, self.files))
            serving.add_done_callback(lambda task: self._ended(stream, task))
            self.socks[stream] = theirs.dup()
            return _Process(serving), ours

        async def work() -> Told:
            with directory:
                head = adopt(self.files, directory, made.path)
                fetching = Fetch(directory, head, self.clock, self.files, bar=self.bar)
                fetching.dispatcher.resolver = self.names  # type: ignore[assignment]
                self.loop, self.links, self.leased = fetching, [], {}  # type: ignore[assignment]
                beside = asyncio.ensure_future(main(fetching)) if main else None
                told = await fetching.run(start, self.workers)  # type: ignore[arg-type]
                if beside and not beside.cancel():
                    beside.result()
                return told

        return self.play(work)

    def update(self, *names: str) -> list[Back]:
        fetches = [self.directory(name) for name in names]

        async def work(state: CrawlState) -> list[Back]:
            for each in fetches:
                each.acquire()
            try:
                return await update(state, self.config, self.clock, fetches, self.bar)
            finally:
                for each in fetches:
                    each.release()

        return self._opened(work)

    def directory(self, name: str) -> JobDir:
        return JobDir(Path(f"{self.path}-{name}"))

    def _opened(self, work: Callable[[CrawlState], Awaitable[R]]) -> R:
        async def opened() -> R:
            job = self.job()
            with job:
                config = to_toml(self.config)
                state = CrawlState.open(
                    job, self.config, self.clock, self.files, write_config=lambda: job.write_config(config)
                )
                try:
                    return await work(state)
                finally:
                    state.close()

        return self.play(opened)
