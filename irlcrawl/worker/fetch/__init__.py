"""The worker's process: visits come in over a pipe, requests go out to hosts, harvests come out on the disk.

process.py          starting worker processes, by fork or afresh
worker.py           a worker's process from its start to its exit code
service.py          what a worker does between its first and its last message
wire.py             the messages between frontier and worker
lease.py            a lease as a message: written by the frontier, read by the worker
slices.py           reading pages in slices, so that none holds the loop
reading.py          what is being read, for the frontier to see if it ends the worker
visit.py            one visit: robots.txt, gaps, the URLs one by one
wishes.py           what the owner of an answer says about its use
verdict.py          what an answer means for its URL
http.py             one GET: the seam behind which the clients live
signing.py          signatures of requests
terms.py            what the configuration says of requests to one host: headers, pages that are wanted, bytes a second
wants.py            which pages are worth their bytes, as far as a response header can say
clients.py          which of the two clients a worker has
client.py           the httptools client: a pool of connections, TLS sessions
connection.py       one connection of it
alpn.py             what servers are offered in the TLS handshake
proxied.py          a connection through a proxy: CONNECT, SOCKS5
response.py         HTTP/1 responses out of bytes
http2.py            HTTP/2 responses out of frames
repair.py           headers that llhttp refuses, as it takes them
chunks.py           chunked bodies whose lines end in LF alone
tls.py              TLS between two streams of bytes
aiohttp_client.py   the aiohttp client
"""
