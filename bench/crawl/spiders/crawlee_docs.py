"""`python crawlee_docs.py BODIES URL...`: Crawlee for Python over the hosts of the URLs.

A program of its own, run by bench/crawl/systems.py: its ParselCrawler with storage in memory and up to 128 at once,
robots.txt kept, every body appended to one file.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def main(bodies: str, urls: list[str]) -> None:
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(min_concurrency=32, desired_concurrency=128, max_concurrency=128),
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=True,
        max_request_retries=0,
        ignore_http_error_status_codes=[403, 404],
        configure_logging=False,
    )
    with open(bodies, "wb") as out:

        @crawler.router.default_handler
        async def page(context: ParselCrawlingContext) -> None:
            out.write(await context.http_response.read())
            await context.enqueue_links(selector="a, area", strategy="same-hostname")

        await crawler.run(urls)


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
