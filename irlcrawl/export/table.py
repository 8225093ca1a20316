"""Tables: the names and types of their columns. A column that Common Crawl's columnar index (cc-index) has is here by
the same name and type, so that queries published for that index run on ours. (Offsets have 64 bits: archives of 2 GB
are allowed.)
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Type = Literal["text", "int16", "int32", "int64", "time", "texts", "map"]
"""time: text in ISO 8601, UTC; texts: a list; map: text -> text."""
Row = tuple[Any, ...]
"""A value a column; None for none."""


class Column(NamedTuple):
    name: str
    type: Type


def _columns(type_: Type, names: str) -> tuple[Column, ...]:
    return tuple(Column(name, type_) for name in names.split())


HOST = _columns(
    "text",
    "url_host_name url_host_tld url_host_2nd_last_part url_host_3rd_last_part url_host_4th_last_part "
    "url_host_5th_last_part url_host_registry_suffix url_host_registered_domain url_host_private_suffix "
    "url_host_private_domain url_host_name_reversed",
)
"""What a host's name says, as in cc-index."""

CAPTURE = (
    *_columns("text", "url_surtkey url"), *HOST, Column("url_protocol", "text"), Column("url_port", "int32"),
    *_columns("text", "url_path url_query"),
    Column("fetch_time", "time"), Column("fetch_status", "int16"), Column("fetch_redirect", "text"),
    *_columns("text", "content_digest content_mime_type content_mime_detected content_charset content_languages "
                      "content_truncated warc_filename"),
    Column("warc_record_offset", "int64"), Column("warc_record_length", "int64"), Column("warc_segment", "text"),
)  # fmt: skip
"""All columns of cc-index but its partitions, `crawl` and `subset`."""

PAGES = (
    *CAPTURE, *_columns("text", "title description canonical lang"), Column("opengraph", "map"),
    Column("jsonld_types", "texts"), Column("links", "int32"), Column("wishes", "text"),
    Column("original_url", "text"), Column("original_time", "time"),
)  # fmt: skip
"""wishes: of the page's owner about its use, as in the crawl log. The last two name the capture with the body of a
`revisit` record: its `url` and `fetch_time`."""
TEXT = Column("text", "text")
"""One more column of PAGES, with --text."""

LINKS = (*_columns("text", "from_url to_url anchor_text rel element"), Column("fetch_time", "time"))

LISTED = (*_columns("text", "url list_url element lastmod priority changefreq"), Column("fetch_time", "time"))
"""Of entries of sitemaps and feeds; the three before the last as they were written."""

HOSTS = (
    *HOST, *_columns("int64", "fetched status_2xx status_3xx status_4xx status_5xx failed excluded bytes"),
    *_columns("time", "first_fetch last_fetch"),
)  # fmt: skip

VERTICES = (Column("id", "int64"), Column("name", "text"), *_columns("int64", "in_degree out_degree"))
EDGES = _columns("int64", "from_id to_id")
