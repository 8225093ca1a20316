"""Which host may be asked now: hosts, addresses and sites have clocks, and no request comes before its clocks are due.

No I/O, and no knowledge of URLs.

politeness.py   the front, which the dispatcher talks to: hosts come, visits begin and end, hosts leave
hosts.py        a host as this room knows it, hosts that lack an address, detours (requests of a visit at another host)
queues.py       which waiting host is next
line.py         which clock comes due next, and which of those that are due goes first
gaps.py         how long each clock runs after an exchange
rates.py        what an address that many sites share bears, learnt
machine.py      what is asked of the clocks that all crawls on this machine share
clocks.py       the clocks as columns; which are remembered, and which survive a restart
columns.py      columns of numbers, a hash table and counts over them
"""
