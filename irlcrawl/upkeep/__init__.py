"""Looking after the files of a crawl that does not run; snapshots also of one that does.

fsck.py       every byte, and what the structures say of each other
census.py     every URL in one place; the crawl log against the archives
drums.py      what a drum's buckets and slices say
verify.py     archives alone
findings.py   what a check finds, and how it is shown
repair.py     a whole crawl out of what can be read
salvage.py    what can be read of a damaged crawl
rebuild.py    the new state of a repair
doctor.py    whether this machine is fit for a crawl
measure.py    what a page costs on this machine
little_web.py    ... by a crawl of these pages
takedown.py   what was stored of some URLs, out of archives and log
takedown_search.py   what that is, and what it cannot reach
takedown_log.py   ... out of the lines of the log
snapshot.py   a crawl as it was at one commit
"""
