"""The archive: what the crawler received, in standard WARC files that are also its redo log.

`unit` says what one outcome leaves behind, `record` gives its bytes, `warc` appends them, `reader` and `redo` read them
back after a crash, `crawllog` is the line per outcome that finds them again, `get` follows such a line.
"""
