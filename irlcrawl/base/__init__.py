"""Words that every room uses. Nothing here knows a crawl: what a URL is, how rows look, what time it is, where files
lie.

url.py          URLs as browsers see them: canonical form, host, site
pattern.py      patterns of URLs that people write
rows.py         columns of the rows that cross process and disk boundaries
reasons.py      classes and reasons of outcomes, and sets of them
keys.py         the 64-bit keys of URLs, hosts and sites
names.py        the keys of a crawl's URLs by their text: site, host, URL
clock.py        time as an argument: the system's clock, and how tests give another one
job.py          JOB, the directory of a crawl: its paths, its lock
job_files.py    names of all files in JOB, made and parsed
exit_codes.py   with which code a run ends; what a full disk is
interrupt.py    a signal before a command listens to signals, as an exception
steps.py        work that stops now and then, for an event loop
memory.py       handing freed memory back to the system
"""
