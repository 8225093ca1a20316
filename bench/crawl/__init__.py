"""The whole crawler, and others, on webs that are served here.

`main.py` is the verb; `single.py`, `peers.py` and `polite.py` are what it can measure; `systems.py` has the other
crawlers (theirs to run: `spiders/`); `ours.py` runs irlcrawl, `tree.py` watches the processes of a crawl, `cores.py`
gives it cores of its own; `achievable.py` says what politeness permits, `handshake.py` what TLS costs; `made_state.py`
makes the state of a crawl of many URLs without one.
"""
