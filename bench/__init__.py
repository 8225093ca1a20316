"""Measurements: `python -m bench NAME`, one module each.

crawl        whole crawls, also beside other crawlers (--peers) and against thousands of polite https hosts (--polite)
seen         drum beside databases; beside a crawl (--beside-crawl)
_sim         the frontier under a virtual clock: with simulated workers for budgets.py, with real ones for weather.py;
             workers that answer at once, for feed.py

budgets.py      policies compared on simweb; docs/budgets.md says what was found. `--curves docs` writes how each policy
                went to docs/budgets.jsonl, `--plots docs` draws it
changing.py     a real crawl of pages that change, with kills, beside the simulated one; docs/freshness.md
cluster.py      carrying harvests and leases between machines
crash.py        a crawl whose processes are really killed
dedupe.py       tools/dedupe.py beside GNU sort
feed.py         pages a second that one frontier feeds, and where its time goes
freshness.py    how fresh pages that change are kept, beside other policies; docs/freshness.md
freshness_worlds.py  ... where pages are of all kinds, sitemaps tell, hosts are full, and of hubs
get.py          `get` and `urls` in a crawl of ten million URLs
machines.py     a crawl by several machines, and kills of them
model.py        bytes per key beside drum/cost.py
outage.py       a crawl whose network goes away
politeness.py   picking the next visit among 100,000 hosts, and their memory
resume.py       opening a large crawl
soak.py         a crawl of hours: memory, open files, disk
weather.py      four weeks of virtual time in the real web's weather; docs/weather-bench.md
worker.py       one worker, and each step of a page alone

_jobs.py, _page_steps.py, _changing_web.py   what these share
"""
