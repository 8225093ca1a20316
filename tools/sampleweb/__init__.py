"""sampleweb: a small web that ships with the project, on loopback, without root, nginx or dnsmasq.

`server` and `dns` are a web server for many host names on many 127.x addresses and the name server that knows them,
both in this process; tests use them with pages of their own. `site/` holds the handwritten pages of the demo,
`behaviour` what its hosts do that files cannot (redirect, be slow, send 429, never end), and `demo` is `make demo`.
"""
