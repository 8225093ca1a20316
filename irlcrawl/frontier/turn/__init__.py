"""One turn: harvests go in, runs come out, one segment file is written. Runs on the turn's thread; touches no
catalogue.

turn.py      the steps of a turn
release.py   drained URLs with their hosts' records: into a run, into the calendar, or out
rules.py     the rules of robots.txt as a turn asks for them
"""
