"""The operator's seat: a web page and metrics of a crawl, served by a process of their own. It reads the control socket
and JOB's files, so a crawl pays for no more than one answer a second, however many look.

view.py       what a person sees: panels of rows, for the page and for the terminal alike
terminal.py   these panels on a terminal, every second
sites.py      budgets of the sites that the status record names
series.py     from JOB/history: lines of charts
log_tail.py   the crawl log as it grows
metrics.py    Prometheus, OpenMetrics, and OpenTelemetry's names
look.py       asking the crawl and its files, at most once a second
guard.py      which requests are answered: Host, Origin, token
steering.py   from what the page asks for to the arguments of a verb
server.py     the HTTP server
"""
