"""Tests of irlcrawl/frontier/dispatch: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

bandwidth.py  crawl/test_bandwidth.py
detours.py    frontier/dispatch/test_dispatch.py, worker/fetch/test_service.py
handover.py   frontier/dispatch/test_dispatch.py
machine_file.py  frontier/dispatch/test_machine_clocks.py
proxies_down.py  crawl/test_proxies_down.py
visits.py     frontier/dispatch/test_dispatch.py
"""
