"""Tests of irlcrawl/web: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

block.py         crawl/test_steering.py
damaged.py      web/test_coding.py
retry_after.py   worker/fetch/test_verdict.py, ask/test_politeness_audit.py
plugins.py       crawl/test_plugins.py
"""
