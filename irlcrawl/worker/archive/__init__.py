"""The archive and the crawl log: one *unit* per outcome, appended in one piece. The archive is the redo log of a crawl.

unit.py        a unit and an exchange: the shapes that worker, replay and readers share
known.py       what is known of a page that is visited again: the columns that go with its unit
record.py      the bytes of WARC records
zstd.py        Zstandard frames, which an archive may have in the place of gzip members
dedupe.py      which payloads the open file holds already
window.py      which payloads all workers of a machine stored of late
payloads.py    which payloads earlier crawls hold already
warc.py        the WARC files of one stream: names, appending, closing
taken_down.py  the record that stands where a response was taken out
reader.py      records of a WARC file, read forward
redo.py        after a crash: cutting a torn tail, reading units again
crawl_log.py   lines of the crawl log: writing and parsing
log_parts.py   the crawl log and its rolled parts, read as one
last_words.py  which line of it is the last word on a URL
shown_log.py   a long one, or other files, read with a bar
"""
