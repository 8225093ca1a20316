"""When which host may be asked. Every host waits for up to three clocks: its own, its address's, its site's. No I/O.

politeness.py   the front: hosts come, visits begin and end, hosts leave
bulk.py         the same for many hosts at once, as columns
terms.py        what a host may have: when, how many URLs, how far apart
gaps.py         how long a clock waits after an exchange
entries.py      a host as this room knows it
queues.py       which waiting host is next
crowd.py        the same for many hosts at once
clocks.py       which clocks are remembered, and which survive a restart
gates.py        clocks as columns
columns.py      a hash table and a heap over columns
errands.py      hosts that a detour (redirected robots.txt) asks
nameless.py     hosts that need an address
"""
