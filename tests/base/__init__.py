"""Tests of irlcrawl/base: those of MODULE.py are test_MODULE.py, or begin so."""
