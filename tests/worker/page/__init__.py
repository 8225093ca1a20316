"""Tests of irlcrawl/worker/page: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

labels.py   worker/page/test_charset.py
"""
