"""Tests of irlcrawl/frontier/politeness: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

machine.py  frontier/dispatch/test_machine_clocks.py
"""
