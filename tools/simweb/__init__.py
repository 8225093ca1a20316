"""simweb: a web of a billion pages that is stored nowhere. README.md defines it; `web.Web` is the whole of its API.

Every page, link, robots rule, latency and error is a pure function of the seed and the URL's numbers, in columns: a
simulator asks for a million links at a time, `python -m tools.simweb serve` answers HTTP by the same functions.
"""
