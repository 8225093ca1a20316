"""Hosts in memory and workers: from a run on disk to a visit on a worker's pipe, and what its end means for the host.

dispatch.py        hosts come from runs, are leased, and go
visits.py          a host, a leased visit, and a withdrawal, as they are in memory
handover.py        what the next turn takes: changed host records, withdrawn URLs
loads.py           how many more URLs a host may have in runs
workers.py         workers and their pipes
detours.py         requests for a robots.txt that redirects to another host
machine_clocks.py  the clocks that all crawls on this machine share: visits take them and give them back
machine_cells.py   the table on which they lie, by its bytes
machine_file.py    its file: found or made, checked, locked
bandwidth.py       how many URLs may be leased under limits.bytes_per_second
dns.py             names to addresses
outage.py          whether a silence is our network's
proxies_down.py    ... or our proxy's
"""
