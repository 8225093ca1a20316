"""Tests of irlcrawl/crawl: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

control_server.py   crawl/test_control.py
alarms.py           crawl/test_hooks.py
heartbeat.py        crawl/test_hooks.py, whole/test_steering.py
journal.py          crawl/test_steering.py, cli/test_verbs_steer.py
lists.py            rounds/test_rounds.py
loop.py             crawl/test_ends.py, crawl/test_deaths.py
means.py            crawl/test_steering.py, cli/test_main.py
patience.py         crawl/test_rests.py
old_rules.py        frontier/turn/test_rules.py
seeding.py          crawl/test_recovery.py, crawl/test_returns.py, frontier/turn/test_turn.py
start.py            cli/test_main.py, base/test_memory.py
suspects.py         crawl/test_deaths.py
supervisor.py       whole/test_killed_crawl.py, whole/test_small_sites.py, whole/test_steering.py
recent.py           crawl/test_gauges.py, crawl/test_status.py
this_run.py         crawl/test_gauges.py
turns.py            crawl/test_owners.py, crawl/test_long_merge.py
"""
