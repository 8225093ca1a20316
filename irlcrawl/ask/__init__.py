"""Questions to a crawl, answered from its disk, whether it runs or not, in bounded memory.

log_index.py          the crawl log by URL, host and site
log_index_build.py    making that index
shown_state.py        URLs that wait, read with a bar
outcomes.py           the crawl log as far as it is committed, for questions
why.py                where a URL, a host or a site stands
why_page.py           what a page waits for that is visited again
slow.py               what keeps a crawl from being faster
plan.py               how fast a crawl would go on a machine, and what it would need
report.py             sites by reputation, budget, cost and yield
freshness.py          how fresh copies of pages are, by what is believed of them
politeness_audit.py   every gap of the crawl log against its rule; shares no code with the rooms that keep the gaps
get.py                one page out of the archive
parameters.py         query parameters that change nothing
obstacles.py          what holds up URLs that wait: rests after failures, addresses that are asked more seldom
inspect.py            what is in JOB, in words
"""
