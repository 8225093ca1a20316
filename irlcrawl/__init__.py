"""irlcrawl: a polite crawler for the open web that one person runs on one machine for weeks.

Everything here stands on `drum` (keys and bytes) and `budgets` (sites and counts). The rooms, in order; each may import
only from rooms above it and from itself, and tests/test_imports.py holds them to that:

base        words that every room uses: URLs, rows, time, JOB
terminal    speaking to a person
config      the configuration: keys, checks, overrides
web         rules of the web that need no network: scope, robots.txt, content codings
worker      a fetch worker's process: page, archive, harvest, fetch
revisit     when a page is worth another visit; no I/O
frontier    the URLs that wait and the hosts they wait for: politeness, state, turn, dispatch
cluster     workers on other machines
crawl       the running crawl: its loop, turns, recovery and end
rounds      generate, fetch, update: lists that are fetched without a frontier
upkeep      looking after the files: fsck, repair, verify, snapshot
ask         questions to a crawl, answered from its disk
export      what a crawl has, for other tools
watch       the operator's web page, and metrics, in a process of their own
cli         the command line

__main__.py   the command `irlcrawl`, also as `python -m irlcrawl`
"""

__version__ = "0.1.0"
