"""Tests of irlcrawl/terminal: those of MODULE.py are test_MODULE.py, or begin so."""
