"""The frontier: the URLs that wait, on disk, and the hosts they wait for, in memory. Rooms, in order of imports:

politeness   when which host may be asked
state        everything under JOB/state
turn         one pass of new harvests through the state
dispatch     hosts in memory, leases, and the workers as the frontier sees them
"""
