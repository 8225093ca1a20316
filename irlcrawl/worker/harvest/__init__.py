"""From an archived unit to the rows that a turn takes in. The same pure function serves live pages and replay.

process.py      what a unit means: outcome, links, what it says of its host
again.py        what a visit found beside the visit before
context.py      what all pages of a crawl share: names, keys, scope
builder.py      rows gathered for the next harvest
sections.py     the sections of a harvest, and the function that writes them
plugged.py      plug-ins, called for links and pages
counters.py     what a harvest counts beside its rows
redone.py       harvests that a dead worker owes, made of its archive
rules_log.py    the texts of robots.txt: append-only logs per stream
known_rules.py  those texts by their pointers, parsed and remembered
"""
