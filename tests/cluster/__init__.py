"""Tests of irlcrawl/cluster: those of MODULE.py are test_MODULE.py, or begin so; with real processes: test_machines.py.

Modules whose tests stand elsewhere in tests/:

carrier.py    cluster/test_channel.py, cluster/test_tcp.py
node.py       cluster/test_cluster.py, whole/test_machines.py
nodes.py      cluster/test_cluster.py, whole/test_machines.py
shipping.py   cluster/test_cluster.py
stranger.py   cluster/test_on_ray.py, whole/test_machines_on_ray.py
"""
