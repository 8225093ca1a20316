"""What a harvest counts beside its rows. A new counter is a line here and the line that counts it (UnitRows.counts, or
builder.py): turns add it up, the status record has it, `irlcrawl status` tells it."""

from __future__ import annotations

from typing import NamedTuple


class Counted(NamedTuple):
    meaning: str
    field: str = ""  # its name in the status record (crawl/status.py); empty: not there
    told: str = ""  # what `irlcrawl status` says behind the number, where it is not 0; empty: nothing of its own
    told_one: str = ""  # the same behind a 1, where it differs


COUNTERS = {
    "pages": Counted(
        "responses, robots.txt not counted, those put back since and the repeated ones included", "responses"
    ),
    "bytes": Counted("received, header and body", "bytes"),  # robots.txt counted
    "read": Counted("bytes of pages that were read for links, after their content coding", "read_bytes"),
    "links": Counted("links in scope, also those of `duplicates` and `trapped`"),
    "duplicates": Counted("links to URLs already known", "duplicate_urls"),
    "out_of_scope": Counted("links that lead out of scope", "out_of_scope_urls"),
    "near_duplicates": Counted(
        "pages whose words are almost those of an earlier one (page.near_duplicates), robots.txt and equal pages not "
        "counted",
        "near_duplicate_pages",
        "near-duplicates",
        "near-duplicate",
    ),
    "respelled": Counted("links whose spelling a rule of urls.merge changed", "respelled_urls"),
    "trapped": Counted(
        "links of near-duplicates in a row (page.near_duplicates_max), not followed", "trapped_urls", "in traps"
    ),
    "beyond_max": Counted(
        "links beyond page.links_max of their page, 50,000 of a sitemap, or 2,000 sitemaps of a robots.txt, not "
        "followed; where a page has over four times as many, at least",
        "beyond_max_urls",
        "beyond page.links_max",
    ),
    "requisites": Counted(
        "responses that pages need to be seen (page.requisites)", "requisites", "page requisites", "page requisite"
    ),
    "requisites_beyond_max": Counted(
        "requisites beyond page.requisites_max of their page, not fetched",
        "requisites_beyond_max",
        "beyond page.requisites_max",
    ),
    "unparsed": Counted(
        "pages that broke a parser: their links were not found", "unparsed_pages", "pages unparsed", "page unparsed"
    ),
    "partly_read": Counted(
        "pages longer than fetch.decoded_bytes_max, or more work to read than one page may take "
        "(worker/page/scan.py): links behind that were not looked for",
        "partly_read_pages",
        "pages read in part (fetch.decoded_bytes_max, or too much work)",
        "page read in part (fetch.decoded_bytes_max, or too much work)",
    ),
    "damaged": Counted(
        "pages in a damaged content coding: links behind the damage were not found",
        "damaged_pages",
        "pages damaged",
        "page damaged",
    ),
    "unwanted": Counted(
        "pages of which only the header was read (fetch.types, fetch.length_max)",
        "unwanted_pages",
        "pages unwanted",
        "page unwanted",
    ),
    "challenge": Counted(
        "challenges to prove that a person asks, in the place of pages: nothing was taken from them",
        "challenge_pages",
        "challenges in the place of pages",
        "challenge in the place of a page",
    ),
    "parked": Counted(
        "parking pages of domains for sale: nothing was taken from them",
        "parked_pages",
        "parking pages",
        "parking page",
    ),
    "filtered": Counted("links that filters of plug-ins left out", "filtered_urls", "left out by plug-ins"),
    "plugin_errors": Counted(
        "exceptions and wrong answers of plug-ins; the page went on without them",
        "plugin_errors",
        "errors of plug-ins",
        "error of plug-ins",
    ),
    "plugin_us": Counted("microseconds that plug-ins took", "plugin_us", "microseconds in plug-ins"),
    "retries": Counted("requests to be repeated later", "retry_count"),
    "returned": Counted("URLs that were done and were put back, to be asked again", "returned_urls", "put back"),
}
"""By name, as it stands in a harvest's meta and in the catalogue's `counters`."""

CUT = ("beyond_max", "requisites_beyond_max", "unparsed", "partly_read", "damaged", "unwanted", "challenge", "parked")
"""What was left out of a page: its line in the crawl log has an annotation of this name, with the number."""
