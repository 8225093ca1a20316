"""Which of the two clients behind http.py a worker has: the one that `fetch.client` names."""

from __future__ import annotations

from irlcrawl.base.clock import Clock
from irlcrawl.config.keys import Config
from irlcrawl.worker.fetch.client import Client
from irlcrawl.worker.fetch.http import Fetcher


def open_fetcher(config: Config, clock: Clock) -> Fetcher:
    """The client `fetch.client` names."""
    if config.fetch.client == "aiohttp":
        from irlcrawl.worker.fetch.aiohttp_client import AiohttpClient  # a fifth of a second, mostly not needed

        return AiohttpClient(config, clock)
    return Client(config, clock)
