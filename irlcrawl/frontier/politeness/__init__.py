"""Which host may be asked now: hosts, addresses and sites have clocks, and no request comes before its clocks are due.

No I/O, and no knowledge of URLs. `politeness.py` is the front door, what the dispatcher talks to; `hosts.py` has a host
as it is known there, hosts that lack an address, and detours (requests of a visit on another host). Below it all is
numbers: `queues.py` finds the host that is next, `gaps.py` says how long each clock runs, `clocks.py` keeps the clocks
and what of them survives a restart, `columns.py` has the index and the line of due numbers that the others stand on.
"""
