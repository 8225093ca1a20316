"""docsweb: a real web on loopback, made of Debian's documentation packages.

Crawling it answers a question no synthetic web can: does the crawler find everything that real, hand- and tool-written
HTML links to, and nothing else? `up` serves the packages' files with nginx (a host name and a 127.x address per set, as
many mirror hosts as wanted) and their names with dnsmasq; `reach` computes from the files alone which URLs a crawl must
request; `audit` compares that, and the promises of politeness, with nginx's access log.

No module here imports the crawler: an oracle that shared its code would share its errors.
"""
