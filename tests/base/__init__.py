"""Tests of irlcrawl/base: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

keys.py   base/test_url.py, conformance/test_uk_host_graph.py
"""
