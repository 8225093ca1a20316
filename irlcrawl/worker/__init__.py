"""The fetch worker: a process that fetches visits, archives what came, reads its links, and hands harvests to the
frontier.

A worker is one *stream*: its archives and harvests carry its number. It holds no truth: the archive can be replayed,
and a lease can be given again. Rooms, in order of imports:

page      links out of one page, and what pages say of each other
archive   WARC files and crawl log: writing, reading, replay
harvest   from an archived unit to the rows a turn takes in
fetch     the process itself: visits, requests, HTTP
"""
