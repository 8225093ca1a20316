"""The command line. Modules that take long to load are imported inside the verbs that need them.

main.py           verbs, options, and the exit code of each error
verbs_crawl.py    crawl, resume, stop, retry
verbs_ask.py      status, inspect, urls, get, report, why
verbs_export.py   export
verbs_upkeep.py   fsck, verify, snapshot, snapshots
filters.py        what --host and --site take
alone.py          whether this process has JOB to itself
open_files.py     how many files a process may open
"""
