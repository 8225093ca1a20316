"""The command line. Modules that take long to load are imported inside the verbs that need them.

main.py           the verbs, and the exit code of each error
arguments.py      the options of the verbs
verbs_crawl.py    crawl, resume, stop
verbs_steer.py    seeds, retry, revisit, set, block, unblock, pause, unpause, prefer
steer.py          asking for a change of the configuration
hand_in.py        handing URLs to a crawl, whether it runs or not
verbs_ask.py      status, config, inspect, urls, parameters, get, report, why, plan
verbs_upkeep.py   fsck, doctor, verify, snapshot, snapshots, key, takedown
verbs_export.py   export
verbs_cluster.py  worker-node, cluster
verbs_rounds.py   generate, fetch, update
verbs_watch.py    watch
filters.py        what --host and --site take
alone.py          whether this process has JOB to itself
open_files.py     how many files a process may open
"""
