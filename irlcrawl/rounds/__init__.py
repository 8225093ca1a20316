"""Batch rounds: generate, fetch, update (docs/rounds.md). A list of URLs leaves a crawl that does not run, is fetched
on any machine by a process that knows nothing but the list, and what that brought is taken in as a dead worker's is.

A list is a ready segment of the crawl that is lent (frontier/state/runs.py; crawl/lists.py), and a file with the same
rows: its URLs have one place (segment, row) in both, which leases, archives and harvests name.

fetch_list.py  the file of a list: what is in it, written and read
generate.py    choosing URLs, lending them, and writing lists
fetch.py       fetching a list: workers, and of a frontier only what dispatches
update.py      taking in what fetches brought
"""
