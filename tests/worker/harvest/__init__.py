"""Tests of irlcrawl/worker/harvest: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

context.py       worker/harvest/test_process.py
counters.py      crawl/test_gauges.py, worker/harvest/test_builder.py
known_rules.py   frontier/turn/test_rules.py, worker/fetch/test_service.py
redone.py        crawl/test_recovery.py, cluster/test_cluster.py
rules_log.py     worker/harvest/test_builder.py, frontier/turn/test_rules.py
plugged.py       crawl/test_plugins.py
"""
