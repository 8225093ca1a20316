"""Tests of irlcrawl/upkeep: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

drums.py      upkeep/test_fsck.py
findings.py   upkeep/test_fsck.py
rebuild.py    upkeep/test_repair.py
salvage.py    upkeep/test_repair.py
measure.py    ask/test_plan.py
little_web.py   ask/test_plan.py
takedown_log.py   upkeep/test_takedown.py
takedown_search.py   upkeep/test_takedown.py, upkeep/test_takedown_killed.py
"""
