"""Words that every room uses. Nothing here knows a crawl: what a URL is, how rows look, what time it is, where files
lie.

url.py      URLs as browsers see them: canonical form, host, site
rows.py     columns of the rows that cross process and disk boundaries, outcome reasons and classes, keys
clock.py    time as an argument: the system's clock, and how tests give another one
job.py      JOB, the directory of a crawl: its paths, its lock, exit codes
memory.py   handing freed memory back to the system
"""
