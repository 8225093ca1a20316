"""The running crawl, from a locked JOB to an exit code: one event loop, one turn thread, and what starts and ends them.

start.py             from a locked JOB to an exit code
this_run.py          since when a run lasts, the code it is to stop with, the steps of its start
supervisor.py        one run: state, workers, signals, control socket
loop.py              the event loop: when to turn, to lease, to end
turns.py             the turn thread, and the commit of each turn
schedule.py          when a turn is due, and how much it should bring
pressure.py          bounds on harvests and on URLs that wait
limits.py            when a crawl has to end
patience.py          ... among these: how long it waits for URLs that rest
disk_space.py        how much of the disk must stay free
recovery.py          what a dead worker or crawl left
old_rules.py         deleting robots logs that no record points to any more
deaths.py            workers that die, and their replacement
suspects.py          ... what they died of: pages that nobody is to read any more
seeds.py             reading seeds
seeding.py           writing seeds as a harvest
lists.py             lists of URLs that are out (irlcrawl/rounds), and their way back
returns.py           URLs that are put back: choosing them, and writing them as a harvest
orders.py            pages that the operator wants visited now
earlier.py           URLs that were fetched before pages were visited again, and are to be pages
steering.py          verbs that change how a crawl goes on
means.py             what a configuration points to, checked before it is taken
journal.py           who steered it, and when
hooks.py             calling the operator, by a command or a web address
alarms.py            what the operator should hear of
heartbeat.py         telling systemd that the crawl is alive
closed_archives.py   telling the operator's command of closed archives
status.py            the status record: its fields, and reading it
gauges.py            counting it
recent.py            of it, what happened of late
pace.py              of it, where the last minute went
history.py           of it, samples for a year
control.py           control.sock: the side that asks
control_server.py    control.sock: the crawl's side
"""
