"""The command line. Modules that take long to load are imported inside the verbs that need them.

main.py           verbs, options, and the exit code of each error
verbs_crawl.py    crawl, resume, status, stop, inspect, urls, get
verbs_ask.py      report, why
verbs_upkeep.py   fsck, verify, snapshot, snapshots
open_files.py     how many files a process may open
"""
