"""Tests of irlcrawl/worker/archive: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

last_words.py  crawl/test_returns.py, cli/test_verbs_retry.py
log_parts.py   worker/archive/test_crawl_log.py, frontier/state/test_sections.py
reader.py      worker/archive/test_warc.py, worker/archive/test_redo.py
record.py      worker/archive/test_warc.py
shown_log.py   terminal/test_bars.py
unit.py        worker/archive/test_warc.py
"""
