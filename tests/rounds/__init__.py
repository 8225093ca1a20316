"""Tests of irlcrawl/rounds: whole rounds, verb by verb, are test_rounds.py; with real processes: whole/test_rounds.py.

Modules whose tests stand elsewhere in tests/:

fetch.py       rounds/test_rounds.py
fetch_list.py  rounds/test_rounds.py
generate.py    rounds/test_rounds.py
update.py      rounds/test_rounds.py
"""
