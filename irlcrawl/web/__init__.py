"""Rules of the web that need no network: which URLs belong to the crawl, what a server allows, what its words mean.

scope.py         which URLs belong to the crawl
block.py         which hosts and URLs the operator lets nothing be asked of
spelling.py      one spelling for a page that has several (urls.merge)
preference.py    which of them the operator would rather have
plugins.py       what plug-ins are given and what they give
robots.py        robots.txt by RFC 9309: groups, rules, and what an answer without rules means
wishes.py        what owners say about the use of their pages: headers, meta elements, robots.txt
tdmrep.py        tdmrep.json of a host, as lines beside its robots.txt
opt_out.py       which URLs their owners want left alone
media_type.py    what a Content-Type names
coding.py        undoing Content-Encoding within a bound
damaged.py       what a damaged stream still holds
retry_after.py   Retry-After in seconds, as the worker reads it and the audit checks it
"""
