"""Tests of irlcrawl/frontier/turn: those of MODULE.py are test_MODULE.py, or begin so."""
