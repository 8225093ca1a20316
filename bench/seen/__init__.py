"""Seen-checks, drum and others, on one stream of links.

`main.py` is the verb; `stream.py` makes the links, `plan.py` says which systems run on which stores, `run.py` is one
run in a process of its own, `table.py` and `curves.py` show what came of it; `systems.py` is what a system must do,
`ours.py` and `databases.py` have them, `register.py` lists them, `counting.py` counts bytes; `beside.py` and
`merging.py` measure what a crawl feels of a merge.
"""
