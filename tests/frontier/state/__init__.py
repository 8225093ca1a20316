"""Tests of irlcrawl/frontier/state: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

crawl_state.py    frontier/turn/test_turn.py, crawl/test_recovery.py
formats.py        upkeep/test_formats.py
harvested.py      upkeep/test_agreement.py
novelty.py        crawl/test_hooks.py
start_checks.py   upkeep/test_missing.py, upkeep/test_agreement.py
"""
