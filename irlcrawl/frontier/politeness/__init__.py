"""Which host may be asked now: hosts, addresses and sites have clocks, and no request comes before its clocks are due.

No I/O, and no knowledge of URLs.

politeness.py   the front, which the dispatcher talks to: hosts come, visits begin and end, hosts leave
hosts.py        a host as this room knows it, hosts that lack an address, detours (requests of a visit at another host)
queues.py       which waiting host is next
gaps.py         how long each clock runs after an exchange
machine.py      what is asked of the clocks that all crawls on this machine share
clocks.py       the clocks as columns; which are remembered, and which survive a restart
columns.py      a hash table and a heap over columns
"""
