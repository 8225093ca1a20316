"""Speaking to a person at a terminal: the same words for the same numbers everywhere, and no failure if nobody listens.

progress.py   what a person sees while a crawl runs; output whose reader may leave
words.py      numbers, sizes and durations for people
"""
