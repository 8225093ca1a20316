"""Asking a server through the seam: once through each client, for whoever imports the fixture `client`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from irlcrawl.base.clock import SystemClock
from irlcrawl.config.keys import Config
from irlcrawl.worker.fetch.clients import open_fetcher
from irlcrawl.worker.fetch.http import Fetched, Fetcher, Request
from tests.worker.fetch.loopback import Loopback

CLIENTS = ("httptools", "aiohttp")
current = {"client": CLIENTS[0]}


@pytest.fixture(params=CLIENTS, autouse=True)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The client that `configured` names."""
    name: str = request.param
    monkeypatch.setitem(current, "client", name)
    return name


def configured(**fetch: Any) -> Config:
    config = Config()
    config.fetch.client = current["client"]
    config.crawl.user_agent = "Testbot/1.0 (+https://example.org/bot; bot@example.org)"
    config.crawl.operator = "ops@example.org"
    config.fetch.read_seconds = 1.0
    config.fetch.total_seconds = 5.0
    for name, value in fetch.items():
        setattr(config.fetch, name, value)
    return config


def request(
    server: Loopback, target: str = "/", host: str = "a.test", address: str = "127.0.0.1", bound: int = 1 << 20
) -> Request:
    url = f"http://{host}:{server.port}{target}".encode()
    return Request(url, "http", host, server.port, target, address, bound)


def run(config: Config, use: Callable[[Fetcher], Awaitable[Any]]) -> Any:
    async def body() -> Any:
        fetcher = open_fetcher(config, SystemClock())
        try:
            return await use(fetcher)
        finally:
            await fetcher.close()

    return asyncio.run(body())


def get(server: Loopback, target: str = "/", config: Config | None = None, **options: Any) -> Fetched:
    return run(config or configured(), lambda fetcher: fetcher.fetch(request(server, target, **options)))
