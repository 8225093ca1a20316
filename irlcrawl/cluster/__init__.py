"""Workers on other machines: what a worker says to the frontier, carried between machines (docs/cluster.md).

A node is a machine's process that starts workers as a frontier does, and stands between them and the frontier: it
carries their messages, ships the files they write, and keeps their archives. The frontier's side puts remote workers
among its own. Nothing here is loaded by a crawl without nodes.

carrier.py   the interface of whatever carries packets between two processes
channel.py   messages in order, each once, over a carrier that may lose, double, reorder and delay packets
shipping.py  files as pieces, and their way back onto a disk
tcp.py       the carrier for networks: TCP and TLS, and the proof that both sides know the secret
node.py      the process of another machine: its workers, what they wrote, and its end when nobody hears it
nodes.py     the frontier's side: who is there, whose workers those are, and what to do when a machine is gone
access.py    where a crawl listens, its secret and its certificate: given, or made
on_ray.py    machines of a Ray cluster: which there are, whether the cluster is fit, and an actor on each
actor.py     what Ray starts on each machine: it keeps the node's process running there
stranger.py  whether a Ray cluster answers somebody without its token
"""
