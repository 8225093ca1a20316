"""Tests of irlcrawl/frontier/politeness: those of MODULE.py are test_MODULE.py, or begin so."""
