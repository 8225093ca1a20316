"""One turn: harvests go in, runs come out, one segment file is written. Runs on the turn's thread; touches no
catalogue.

turn.py      the steps of a turn
pages.py     pages that are visited again: taken from their rest, and put back by what their visit found
release.py   drained URLs with their hosts' records: into a run, into the calendar, or out
rules.py     the rules of robots.txt as a turn asks for them
"""
