"""Tests of irlcrawl/ask: those of MODULE.py are test_MODULE.py, or begin so.

Modules whose tests stand elsewhere in tests/:

freshness.py  crawl/test_revisits.py
inspect.py    cli/test_verbs_ask.py
log_index_build.py    ask/test_log_index.py
outcomes.py   cli/test_verbs_ask.py, ask/test_why.py
report.py     ask/test_why.py
shown_state.py  terminal/test_bars.py
"""
