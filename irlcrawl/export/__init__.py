"""What a crawl has, for other tools: indexes, tables of pages, links and hosts, the graph of sites, and WACZ.

It reads closed archives and what is committed, so it works beside a running crawl, and writes nothing into JOB but
JOB/indexes.

archives.py       closed archives, and the captures in them
originals.py      the captures to which revisit records refer
media             what a page says, by its media type
surt.py           URL keys as indexes of web archives sort by them
cdxj.py           the CDXJ index of an archive, and of all of them
table.py          columns of all tables
hostname.py       what a host's name says, in columns
language.py       which language a text is in
pages.py          rows of pages
links.py          rows of links
listed.py         rows of what sitemaps and feeds list
hosts.py          rows of hosts
graph_edges.py    edges of the graph that an archive shows
graph.py          the graph, put together
wacz.py           archives, index and pages in one file
formats.py        files of rows: JSON lines, Parquet
dataset.py        a table in a directory, made bit by bit
output.py         files that get their name when they are whole
sorted_lines.py   sorting more lines than memory holds, merging sorted files
processes.py      work on archives, in several processes
"""
