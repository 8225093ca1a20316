"""From an archived unit to the rows that a turn takes in. The same pure function serves live pages and replay.

process.py     what a unit means: outcome, links, what it says of its host
context.py     what all pages of a crawl share: names, keys, scope
builder.py     a harvest: rows gathered and written as one segment file
rules_log.py   the texts of robots.txt: one append-only log per stream
"""
