"""Everything under JOB/state: the catalogue, five drums, queues, runs, calendar, clocks, scope. What a turn changes.

crawl_state.py   all of it, opened by the crawl that writes it
start_checks.py  what a start checks before it changes anything
stores.py        the drums, runs and calendar, opened; the classes a URL may be in
formats.py       which versions of JOB open
harvested.py     harvests that no commit names yet, and the archives they cover
hosts.py         the record of a host, and the kernel of the hosts drum
runs.py          URLs ready to be leased, a run per host
calendar.py      URLs with a due second
known_pages.py   the drum of pages that are visited again, by key; its kernel
sections.py      the crawl log as it is written, committed clocks, scope entries
lease_log.py     leases.log: the clocks of every lease since the last commit
latency.py       how long a URL waits from its discovery to its first request, on a sample
near.py          which pages say almost what an earlier one said: the drum of their sketches
novelty.py       how much new content sites brought of late
clock_set.py     dates when the system's clock was set between runs
view.py          the state read beside a crawl that may be running
"""
