"""DRUM for a program that wants just that: a directory of its own, arrays of keys in, batches of verdicts out.

`drum.py` is `Drum`, which gathers rows, spills them and merges when that is worth its pass; `directory.py` is what it
owns and how it commits; `checks.py` finds what a caller did wrong, and names it; `hashing.py` makes keys. The crawler
imports none of these: several drums share its commits, so it uses `drum.repository` directly.
"""
