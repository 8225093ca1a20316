"""Programs beside the crawler, for tests, benchmarks and people.

docsweb      Debian's documentation on loopback as a real web, over http or https, with an oracle of what a crawl must
             request
sampleweb    the small web of `make demo`
simweb       a web of up to 10**9 pages as a function, for simulations

dedupe.py    a drum without a crawler: distinct lines of a text
options.py   values of command lines
ending.py    ending when the parent does, or a signal says so
makevenv.py  .venv from a lock of dependencies
dist.py      the distributions: irlcrawl, and drum alone
manpage.py   the manual page, made of the command line
docsite.py   the documentation site: pages that do not lie in docs/
"""
