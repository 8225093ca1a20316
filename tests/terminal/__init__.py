"""Tests of irlcrawl/terminal: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

words.py   crawl/test_status.py
"""
