"""What a crawl has, for other tools: indexes, tables of pages, links and hosts, the graph of sites, and WACZ.

It reads closed archives and what is committed, so it works beside a running crawl, and writes nothing into JOB but
JOB/indexes.

archives.py       closed archives, and the captures in them
surt.py           URL keys as indexes of web archives sort by them
cdxj.py           the CDXJ index of an archive, and of all of them
output.py         files that get their name when they are whole
sorted_lines.py   sorting more lines than memory holds, merging sorted files
processes.py      work on archives, in several processes
"""
