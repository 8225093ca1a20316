"""`python scrapy_docs.py extractor|lxml BODIES URL...`: Scrapy, tuned, over the hosts of the URLs.

A program of its own, run by bench/crawl/systems.py: 128 concurrent requests, no delay, robots.txt kept, every body
appended to one file. Links come from Scrapy's LinkExtractor, or from lxml by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import lxml.etree
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

SETTINGS = {
    "USER_AGENT": "scrapy-bench (+https://bench.test/)",
    "CONCURRENT_REQUESTS": 128,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 128,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": True,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "HTTPERROR_ALLOW_ALL": True,
    "LOG_LEVEL": "ERROR",
}


class Docs(scrapy.Spider):
    name = "docs"

    def __init__(self, how: str, bodies: str, urls: list[str]) -> None:
        super().__init__()
        self.start_urls = urls
        self.hosts = {urlsplit(url).netloc for url in urls}
        self.bodies = open(bodies, "wb")  # noqa: SIM115 (open as long as the process)
        by_library = LinkExtractor(
            tags=("a", "area"), allow_domains=[h.partition(":")[0] for h in self.hosts], deny_extensions=[]
        )
        self.links = (
            (lambda r: (link.url for link in by_library.extract_links(r))) if how == "extractor" else self.by_hand
        )

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        self.bodies.write(response.body)
        if isinstance(response, HtmlResponse) and response.body:
            for url in self.links(response):
                yield scrapy.Request(url)

    def by_hand(self, response: Response) -> Iterator[str]:
        document = lxml.etree.HTML(response.body)
        if document is None:
            return
        for href in {str(href).partition("#")[0].strip() for href in document.xpath("//a/@href|//area/@href")}:
            try:
                url = urljoin(response.url, href)
                wanted = urlsplit(url).netloc in self.hosts
            except ValueError:
                continue  # no URL
            if wanted:
                yield url


if __name__ == "__main__":
    process = CrawlerProcess(SETTINGS)
    process.crawl(Docs, how=sys.argv[1], bodies=sys.argv[2], urls=sys.argv[3:])
    process.start()
