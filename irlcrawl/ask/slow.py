"""`irlcrawl why JOB --slow`: what binds a crawl, with the figures that say so and the key that would change it.

`diagnose` is a pure function of the status record (its field `pace` above all: crawl/pace.py) and the configuration. It
asks one question after the other, from what the operator set to what the web allows, each about one thing that a page
needs on its way; the first that is used up binds, because what comes after it cannot be used up for its own sake. A
crawl that does not run is judged by the last record it committed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from irlcrawl.base.url import host_of
from irlcrawl.config.hours import Hours
from irlcrawl.config.keys import Config
from irlcrawl.config.overrides import Overrides
from irlcrawl.crawl import status
from irlcrawl.crawl.pace import PACE
from irlcrawl.terminal import words

FULL = 0.85
"""A process, or the places of all workers, are used up from this share of the time on."""
OFTEN = 0.4
"""Something that holds up the whole crawl at once binds it from this share of the time on."""
COMPUTES = 0.5
"""A turn that spends less of its time computing waits for the disk."""
USUAL_GAP_S = 5.0
"""Where hosts are asked more seldom than this, gaps bind, however few hosts there are."""
SECONDS_MIN = 5.0
LABEL_S = 1.5
"""Dues are whole seconds."""
OTHERS = "no key: other programs have the CPU; give the crawl cores of its own"

Answer = dict[str, Any]


class Finding(NamedTuple):
    """cause: one of CAUSES. key: the key or the deed that would change it. share: of the time."""

    cause: str
    share: float
    says: str
    key: str


CAUSES = {
    "limit": "an operator's limit",
    "network": "the network",
    "disk": "the disk",
    "frontier": "the CPU of the frontier",
    "workers": "the CPU of the workers",
    "dns": "DNS",
    "politeness": "politeness",
    "hosts": "too few hosts",
}


def diagnose(record: Mapping[str, Any], config: Config, cores: int) -> Answer:
    """`record`: of irlcrawl.crawl.status, complete. `cores`: of this machine."""
    pace = record["pace"] or {}
    live = record["source"] == "live"
    told: Answer = {
        "state": record["state"], "as_of": record["updated"], "live": live, "pages_per_s": record["pages_per_s"],
        "pace": pace, "delayed_hosts": record["delayed_hosts"],
    }  # fmt: skip
    if record["state"] == "paused" and "*" in (record["paused"] or {}):
        return _answer(told, [Finding("limit", 1.0, "the crawl is paused", "crawl.pause (`irlcrawl resume JOB`)")])
    if pace.get("seconds", 0.0) < SECONDS_MIN:
        return {**told, "bound_by": None, "because": f"not known before {SECONDS_MIN:.0f} s of a run have been counted"}
    found = [finding for ask in _QUESTIONS if (finding := ask(_Seen(record, pace, config, cores))) is not None]
    return _answer(told, found)


def _answer(told: Answer, found: list[Finding]) -> Answer:
    if not found:
        return {**told, "bound_by": None, "because": "nothing is used up: it takes what comes as it comes"}
    first, *others = found
    return {
        **told, "bound_by": first.cause, "because": first.says, "key": first.key,
        "also": [finding._asdict() for finding in others],
    }  # fmt: skip


class _Seen(NamedTuple):
    record: Mapping[str, Any]
    pace: Mapping[str, float]
    config: Config
    cores: int

    @property
    def waiting(self) -> int:
        """URLs that wait for nothing but their turn."""
        record = self.record
        return int((record["queued_urls"] or 0) - (record["resting_urls"] or 0))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


# -- the questions, in their order -------------------------------------------------------------------------------------


def _hours(seen: _Seen) -> Finding | None:
    share = seen.pace["closed"]
    if share < OFTEN:
        return None
    says = f"no host may be asked at this hour of the day (politeness.hours = {seen.config.politeness.hours!r})"
    return Finding("limit", share, says, "politeness.hours")


def _paused(seen: _Seen) -> Finding | None:
    """Hosts that are paused wait for no clock."""
    paused = sorted(seen.record["paused"] or {})
    if not paused or seen.pace["requests_per_s"]:
        return None
    return Finding(
        "limit", 1.0, f"nothing is requested, and paused are: {', '.join(paused[:5])}", "`irlcrawl unpause JOB`"
    )


def _no_network(seen: _Seen) -> Finding | None:
    share = seen.pace["no_network"]
    says = f"no name and no server answered for {_percent(share)} of the time: this machine's network seems to be down"
    return Finding("network", share, says, "no key: mend the network") if share >= OFTEN else None


def _proxies_down(seen: _Seen) -> Finding | None:
    down = seen.record["proxies_down"] or {}
    if not down or seen.pace["bytes_per_s"]:
        return None
    says = f"nothing comes in, and these proxies let nothing through: {', '.join(down)}"
    return Finding("network", 1.0, says, "network.proxy, or that of a site")


def _bandwidth_limit(seen: _Seen) -> Finding | None:
    share, limit = seen.pace["bandwidth_used"], seen.config.limits.bytes_per_second
    if share < OFTEN:
        return None
    says = f"{words.size(seen.pace['bytes_per_s'])}/s come in, of the {words.size(limit)}/s that it may take"
    return Finding("limit", share, says, "limits.bytes_per_second")


def _merges(seen: _Seen) -> Finding | None:
    """Links come faster than turns look them up."""
    share = seen.pace["merges_awaited"]
    if share < OFTEN:
        return None
    cause, what = _of_turns(seen)
    links = words.size(seen.record["harvest_bytes"] or 0)
    says = f"{links} of new links wait to be looked up, so nothing was requested for {_percent(share)} of the time; "
    return Finding(cause, share, says + what, "crawl.ram_bytes (fewer, larger passes)")


def _of_turns(seen: _Seen) -> tuple[str, str]:
    """What holds a turn up, and the figures."""
    computes = seen.pace["passes_cpu"]
    if computes < COMPUTES:
        return "disk", f"passes over the state spend {_percent(1 - computes)} of their time waiting for the disk"
    return "frontier", f"passes over the state compute for {_percent(computes)} of their time"


def _commits(seen: _Seen) -> Finding | None:
    share = seen.pace["commits"]
    says = f"the frontier waits for its commits to be on the disk for {_percent(share)} of the time"
    return Finding("disk", share, says, "no key: put JOB on a disk with a faster fsync") if share >= OFTEN else None


def _syncs(seen: _Seen) -> Finding | None:
    share = seen.pace["syncs"]
    says = f"workers wait for archives and links to be on the disk for {_percent(share)} of the time"
    key = "archive.archive_sync_seconds, or a faster disk"
    return Finding("disk", share, says, key) if share >= FULL else None


def _frontier(seen: _Seen) -> Finding | None:
    """`irlcrawl crawl` itself has one core for its loop."""
    computes, kept = seen.pace["loop_cpu"], seen.pace["loop_kept"]
    if computes + kept < FULL:
        return None
    says = f"the frontier's loop computes for {_percent(computes)} of the time" + _kept(kept)
    return Finding("frontier", computes + kept, says, OTHERS if kept > computes else "no key: a faster core")


def _workers(seen: _Seen) -> Finding | None:
    computes, kept = seen.pace["workers_cpu"], seen.pace["workers_kept"]
    if computes + kept < FULL:
        return None
    workers = seen.record["workers"] or 0
    which = "the only worker" if workers == 1 else f"each of {words.count(workers)} workers"
    says = f"{which} computes for {_percent(computes)} of the time"
    key = "no key: more cores, or less to read (fetch.types)"
    if kept > computes:
        key = OTHERS
    elif workers < seen.cores:
        key = f"crawl.workers ({words.plural(seen.cores, 'core is', 'cores are')} there)"
    return Finding("workers", computes + kept, says + _kept(kept), key)


def _kept(share: float) -> str:
    return f", and for {_percent(share)} other processes have the CPU that it wants" if share >= 0.1 else ""


def _places(seen: _Seen) -> Finding | None:
    """All visits that workers may carry are out: what are they waiting for?"""
    pace = seen.pace
    if pace["places_full"] < FULL and pace["visits"] < FULL * pace["places"]:
        return None
    full = f"all {words.count(pace['places'])} visits that workers may carry at once are out"
    share, fetch = max(pace["places_full"], pace["visits"] / max(pace["places"], 1)), words.duration(pace["fetch_s"])
    if pace["fetching"] < COMPUTES:
        between = _percent(1 - pace["fetching"])
        says = f"{full}, and for {between} of the time they are between two requests (gaps, reading pages)"
        return Finding("limit", share, says, "fetch.visits_per_worker")
    if pace["body"] < COMPUTES:
        says = f"{full}; a request takes {fetch}, {_percent(1 - pace['body'])} of it until an answer begins (latency)"
        return Finding("network", share, says, "fetch.visits_per_worker")
    says = f"{full}; a request takes {fetch}, {_percent(pace['body'])} of it while its answer comes in (bandwidth: "
    says += f"{words.size(pace['bytes_per_s'])}/s of all)"
    return Finding("network", share, says, "no key: a faster line, or fewer bytes (fetch.types, fetch.length_max)")


def _dns(seen: _Seen) -> Finding | None:
    pace, at_once = seen.pace, seen.config.network.dns_in_flight_max
    waiting, asked = pace["names_waiting"], pace["names_asked"]
    idle = pace["hosts"] - pace["visits"]  # hosts that are not visited
    if not waiting or waiting < COMPUTES * idle:
        return None
    lack = "lacks" if waiting == 1 else "lack"
    says = f"{words.count(waiting)} of {words.plural(idle, 'host')} without a visit {lack} an address; "
    says += f"{words.plural(asked, 'name is', 'names are')} asked for at once"
    key = "network.resolvers: one that answers sooner"
    if asked >= COMPUTES * at_once:
        key = f"network.dns_in_flight_max ({at_once}), or {key}"
    return Finding("dns", waiting / idle, says, key)


def _turns(seen: _Seen) -> Finding | None:
    """Nothing can be leased before a turn brings it: before what it takes in is on the disk, it has computed, and what
    it did is on the disk."""
    pace = seen.pace
    computes = pace["passes_awaited"] * pace["passes_cpu"]
    waits = pace["passes_awaited"] - computes + pace["commits"] + pace["syncs"]
    if not pace["passes_awaited"] or computes + waits < OFTEN:
        return None
    share = _percent(pace["passes_awaited"])
    says = f"for {share} of the time nothing could be requested before a pass over the state was over"
    if computes > waits:
        return Finding("frontier", computes, f"{says}; {_of_turns(seen)[1]}", "crawl.ram_bytes")
    says += f"; commits took {_percent(pace['commits'])}, archives and links {_percent(pace['syncs'])}"
    return Finding("disk", waits, f"{says}; {_of_turns(seen)[1]}", "crawl.ram_bytes, or a disk with a faster fsync")


def _rests(seen: _Seen) -> Finding | None:
    """What is left waits after failures."""
    record = seen.record
    resting, queued = record["resting_urls"] or 0, (record["queued_urls"] or 0) + (record["leased_urls"] or 0)
    if not resting or resting < FULL * queued:
        return None
    says = f"{words.count(resting)} of {words.plural(queued, 'URL')} that wait rest after failures"
    hosts = record["resting_hosts"] or {}
    key = "politeness.rest_seconds, politeness.retry_delay_seconds"
    if 2 * hosts.get("throttled", 0) > sum(hosts.values()):
        says += f" ({words.plural(hosts['throttled'], 'host')} answered 429 or 503 when asked last)"
        key = "politeness.retry_after_max_seconds, politeness.backoff_seconds"
    return Finding("politeness", resting / queued, says, key)


def _scheduled(seen: _Seen) -> Finding | None:
    """What is left waits for a date on the disk, and its hosts are in no memory, so nothing else tells of them. URLs of
    a host that is closed wait for the moment at which it opens."""
    record, due = seen.record, seen.record["scheduled_due"]
    scheduled, queued = record["scheduled_urls"] or 0, (record["queued_urls"] or 0) + (record["leased_urls"] or 0)
    if due is None or scheduled < FULL * queued or (seen.pace["hosts"] >= 0.5 and record["active_hosts"]):
        return None
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(due))
    says = f"{words.count(scheduled)} of {words.plural(queued, 'URL')} that wait are scheduled, the first for {date}"
    if keys := [key for key, opens in _closed_windows(seen).items() if abs(opens - due) < LABEL_S]:
        return Finding("limit", 1.0, f"{says}, when hosts open by {_few(keys)}", keys[0])
    gaps = "a Crawl-delay, a gap, or the rate of a site (`irlcrawl why JOB HOST` tells which)"
    return Finding("politeness", 1.0, f"{says}: their hosts may not be asked before", f"what makes them wait: {gaps}")


def _closed_windows(seen: _Seen) -> dict[str, float]:
    return Hours(seen.config).closed_windows(seen.record["updated"] or 0.0)


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {words.count(len(names) - 3)} more" if len(names) > 3 else "")


def _gaps(seen: _Seen) -> Finding | None:
    """Places are free and names are known: hosts, addresses or sites may not be asked yet."""
    pace = seen.pace
    delayed = {why: hosts for why, hosts in (seen.record["delayed_hosts"] or {}).items() if why != "dns"}  # see _dns
    hosts, rate = pace["hosts"], pace["requests_per_s"]
    if hosts < 0.5 or pace["visits"] >= FULL * pace["places"]:
        return _nothing_left(seen)
    each = hosts / rate if rate else float("inf")
    asked = f"each asked every {words.duration(each)}" if rate else "none of which was asked"
    pages = f"{words.plural(max(round(hosts), 1), 'host')} in memory, {asked}"
    why = max(delayed, key=lambda name: delayed[name]) if delayed else "host gap"
    active_max = seen.config.frontier.hosts_active_max
    if hosts >= FULL * active_max and seen.waiting > 0:
        return Finding("limit", hosts / active_max, f"{pages}; there may be no more", "frontier.hosts_active_max")
    if why == "host gap" and hosts < pace["places"] and each <= USUAL_GAP_S:
        says = f"{pages}; workers could visit {words.count(pace['places'])} at once"
        return Finding("hosts", 1 - hosts / pace["places"], says, _more_hosts(seen))
    kept = f"; now {words.plural(delayed[why], 'host waits', 'hosts wait')} for: {why}" if delayed else ""
    return Finding("politeness", 1.0, pages + kept, _gap_key(seen, why, each))


def _more_hosts(seen: _Seen) -> str:
    scope = seen.config.scope.kind
    closed = list(_closed_windows(seen)) if seen.record["scheduled_urls"] else []
    more = "more seeds" if scope == "any" else f'more seeds, or a wider scope.kind (now "{scope}")'
    return f"{more}, or the hours that keep hosts closed now: {_few(closed)}" if closed else more


def _gap_key(seen: _Seen, why: str, each: float) -> str:
    politeness = seen.config.politeness
    rates = [name for name, site in seen.config.site.items() if site.bytes_per_second]
    of_site = math.inf if rates else politeness.gap_site_seconds
    others = {"site": of_site, "address": politeness.gap_address_seconds}
    if why == "host gap" or (why == politeness.unit and others[why] <= politeness.gap_host_seconds):
        grown = politeness.gap_host_factor * seen.pace["fetch_s"] > politeness.gap_host_seconds
        slow = f" (a request takes {words.duration(seen.pace['fetch_s'])})"
        key = f"politeness.gap_host_factor{slow}" if grown else "politeness.gap_host_seconds"
        own = _own_gaps(seen)
        key = f'site."{own[0]}".gap_host_seconds (set for {_few(own)}), or {key}' if own else key
        return key if politeness.unit == "host" else f"{key}; hosts share it by politeness.unit ({politeness.unit})"
    of_rate = f'site."{rates[0]}".bytes_per_second (set for {_few(rates)}), or ' if rates else ""
    return {
        "crawl-delay": "politeness.crawl_delay_max_seconds",
        "retry-after": "politeness.retry_after_max_seconds",
        "backoff": "politeness.backoff_seconds",
        "address": "politeness.gap_address_seconds, or gap_shared_address_seconds where many sites share it",
        "site": f"{of_rate}politeness.gap_site_hosts, politeness.gap_site_seconds",
        "another crawl": "politeness.machine_clocks, by which crawls on one machine keep gaps after each other",
    }[why]


def _own_gaps(seen: _Seen) -> list[str]:
    """Sections with a longer gap than the general one, of hosts that have many URLs in memory."""
    overrides, gap_s = Overrides(seen.config.site), seen.config.politeness.gap_host_seconds
    origins = (seen.record["per_host_queue_size"] or {}).get("largest", {})
    hosts = [host_of(f"{origin}/".encode()) for origin in origins]
    slower = [host for host in hosts if (overrides.gap_host(host) or 0.0) > gap_s]
    return [name for name in dict.fromkeys(overrides.setter(host, "gap_host_seconds") for host in slower) if name]


def _nothing_left(seen: _Seen) -> Finding | None:
    if seen.waiting > 0 or seen.pace["hosts"] >= 0.5:
        return None
    return Finding("hosts", 1.0, "no URL is left that could be requested now", _more_hosts(seen))


_QUESTIONS: tuple[Callable[[_Seen], Finding | None], ...] = (
    _hours, _paused, _no_network, _proxies_down, _bandwidth_limit, _commits, _merges, _syncs, _frontier, _workers,
    _places, _dns, _turns, _rests, _scheduled, _gaps,
)  # fmt: skip


def lines(answer: Answer) -> Iterator[str]:
    """The answer in words: what binds, why, the key, what else is near its end, and the figures."""
    known = (answer["pace"] or {}).get("seconds", 0.0) >= SECONDS_MIN
    bound = CAUSES.get(answer["bound_by"], "nothing in particular" if known else "not known yet")
    yield f"bound by  {bound}"
    yield f"because   {answer['because']}"
    if answer.get("key"):
        yield f"change    {answer['key']}"
    for other in answer.get("also", ()):
        yield f"also      {CAUSES[other['cause']]}: {other['says']} ({other['key']})"
    if not answer["live"]:
        yield "as of     the last commit: the crawl does not run"
    rate = answer["pages_per_s"]
    yield "rate      no page was counted yet" if rate is None else f"rate      {words.rate(rate)} pages/s"
    if answer["pace"]:
        yield "figures"
        yield from (f"  {name:<16}{_figure(value):>11}  {PACE[name]}" for name, value in answer["pace"].items())


def _figure(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def slow(job: Any, cores: int) -> Answer:
    """The answer for the crawl in JOB, by its configuration of now. JobDamaged, ControlError, Damaged, OSError."""
    from irlcrawl.config.toml import load_stored

    return diagnose(status.read_status(job), load_stored(job.config_file), cores)
