"""Every parser of bytes from outside, given bytes that nearly are what it expects.

mutate.py      bytes out of bytes: cut, repeated, swapped, flipped, spliced
parsers.py     the parsers: seeds, and what must hold of each
__main__.py    `python -m tests.fuzz [PARSER] --minutes N`, which keeps what it finds
found/         inputs that were found
guided.py      `python -m tests.fuzz.guided PARSER --minutes N --corpus DIR`, by what inputs reach (atheris)
test_fuzz.py   some of it in the suite, and all that was found
"""
