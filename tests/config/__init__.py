"""Tests of irlcrawl/config: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

checks.py      config/test_toml.py
keys.py        config/test_toml.py
lists.py       web/test_spelling.py
rewrite.py     crawl/test_steering.py
proxies.py     worker/fetch/test_proxied.py
signing_key.py  worker/fetch/test_signing.py
overrides.py   frontier/state/test_calendar.py, web/test_scope.py
plugins.py     crawl/test_plugins.py
"""
