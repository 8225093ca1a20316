"""DRUM for a program that wants just that: a directory of its own, arrays of keys in, batches of verdicts out. The
crawler imports none of this: several drums share its commits, so it uses `Repository` directly.

drum.py        `Drum`: keys in, verdicts out
directory.py   the directory of one drum: ownership, commits
checks.py      wrong use, found before anything is done
hashing.py     keys of byte strings
"""
