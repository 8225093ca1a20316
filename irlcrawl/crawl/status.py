"""The status of a crawl as one flat record: the crawl makes it, `status` prints it, programs read it as JSON.

A running crawl is asked through its control socket. If none runs, the record is the last one it committed (catalogue
entry `status`). `FIELDS` is the whole shape; a field without a value is null, never absent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from irlcrawl.base.exit_codes import ExitCode
from irlcrawl.base.job import SNAPSHOT, JobDir
from irlcrawl.base.reasons import CLASS_OF, ERROR_RESPONSES, HAD, Class, names
from irlcrawl.crawl.control import NotOurs, ask
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import View
from irlcrawl.worker.harvest.counters import COUNTERS

FIELDS: dict[str, str] = {
    "state": "running, paused (no network, or by the operator), renewing (takes over another configuration), stopping, "
    "busy (no answer), killed, snapshot, or how the last run ended",
    "paused": "what the operator paused: `*` (all) or a host or site -> by whom, and since when (unix seconds); null "
    "where irlcrawl.toml was edited by hand",
    "source": "live (asked) or committed (the last commit of a crawl that does not run)",
    "pid": "process of the running crawl",
    "started": "unix seconds: this or the last run",
    "updated": "unix seconds: when this was counted",
    "elapsed_s": "seconds all runs of the crawl took together",
    "fetched": "URLs that ended with an HTTP response; of pages that are visited again each visit counts",
    "fetched_by_reason": ", ".join(reason.name.lower() for reason, cls in CLASS_OF.items() if cls is Class.FETCHED)
    + " -> count",
    "failed": "URLs that ended without a response",
    "failed_by_reason": "reason -> count",
    "excluded": "URLs that were not to be requested",
    "excluded_by_reason": "reason -> count",
    "pages_per_s": "over the last half minute or so; over the whole run when it has ended",
    "pages_per_s_over": "1 min, 10 min, 1 h -> pages a second, as far as this run has lasted so long",
    "fetching": "hosts that are visited now, the longest first -> since how many seconds",
    "slowest_hosts": "hosts asked in the last ten minutes whose last answer took longest -> seconds",
    "seeds": "seeds given so far, repeated ones included",
    "new_seeds": "of these, URLs that were not known before",
    "discovered_urls": "different URLs in scope ever found",
    "queued_urls": "of these, waiting anywhere",
    "leased_urls": "of these, with a worker now",
    "lists_out": "lists that `generate` wrote and that are not back (docs/rounds.md)",
    "lent_urls": "of these, in such a list; while it is out nothing is asked of their sites",
    "lists_until": "unix seconds: when the last of those lists is taken back; null when none is out",
    "scheduled_urls": "of these, scheduled: more than their host takes, a long Crawl-delay, its hours",
    "scheduled_due": "unix seconds: when the first of those is due; null when there are none",
    "resting_urls": "of these, to be asked again after a failure: their own, their host's, or no robots.txt to be had",
    "resting_due": "unix seconds: when the first of those is asked again; null when there are none",
    "resting_hosts": "hosts that failed when they were asked last, as of the last commit, by reason: dns (no address), "
    "connect, timeout, throttled, ...; no_robots (no robots.txt to be had); given_up -> count",
    "pages": "between two visits (revisit.enabled)",
    "pages_due": "unix seconds: when the first of those is due; null when there are none, or revisit.enabled is false",
    "pages_gone": "that were 404 or 410 for a week of visits, or whose owner opted out, and that are visited no more",
    "visits_by_change": "of pages: first, not_modified, same, near, yes, gone, error -> count",
    "visits_failed": "of pages visited before, without a response or refused",
    "visit_price": "what a visit has to be worth, in weighted page-days of freshness; null when pages are not visited "
    "again",
    "waiting_by_place": "places of URLs that are not done, as of the last commit: ready (to be leased), scheduled "
    "(more than their host takes), resting (after a failure), visited (pages between two visits), queued (within their "
    "site's budget), over_budget, moving (not looked up yet) -> count",
    "wait_ends": "unix seconds: when the crawl ends unless something is done, for nothing but those is left "
    "(limits.wait_hours); else null",
    **{counted.field: counted.meaning for counted in COUNTERS.values() if counted.field},
    "proxies_down": "proxies that do not answer, or refuse us (their hosts wait, and are charged with nothing) -> "
    "since when, unix seconds",
    "active_hosts": "hosts in memory: those with URLs ready to be leased (frontier.hosts_active_max)",
    "ready_hosts": "of these, hosts that may be visited now",
    "delayed_hosts": "why others may not -> count",
    "shared_addresses": "addresses in memory that many sites share: known, and of these throttled once -> count",
    "throttled_addresses": "addresses in memory that are asked more seldom than others: shared (by many sites, and it "
    "throttled once), backing_off (after failures, 429 or 503) -> count",
    "largest_addresses": "addresses with most hosts in memory -> hosts",
    "per_host_queue_size": "mean, max, and the largest: host -> URLs ready",
    "fetch_failures": "requests without a response, repeated ones included",
    "frontier_latency_s": "from a URL's discovery to its first request: median of those requested last, of "
    "a sample of the URLs found in this run; null before there is one",
    "pass_seconds": "duration of the last pass over the state, at most a minute",
    "pace": "where the last minute went, as `why JOB --slow` tells it (irlcrawl/crawl/pace.py); empty in the first "
    "seconds",
    "merges": "drums that are being merged: name -> buckets_done of buckets, rows_waiting",
    "frontier_bytes": "on disk, of URLs that wait anywhere",
    "frontier_full": "more than frontier.bytes_max",
    "harvest_bytes": "on disk, of harvests that are not merged yet",
    "lookups_per_url": "times a URL passed the records of sites, per URL: at most 3",
    "over_budget_per_url": "... of these, times it was over its site's budget before: at most 2",
    "workers": "fetch worker processes alive",
    "machines": "other machines that work for the crawl, or are away and owe it something: name, state (here, away), "
    "workers, visits, owed (streams of earlier sessions that are not handed over yet), heard_s (seconds since it was "
    "heard; null: not in this run), given_up_in_s (null: not away), shipped_bytes",
    "memory_bytes": "resident, all processes",
    "held": "what the frontier holds in memory: kind -> how many, or bytes",
    "warc_bytes": "written to archives",
    "disk_free_bytes": "on JOB's file system",
}

ENDED = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed",
    ExitCode.DISK_FULL: "disk full",
    ExitCode.DAMAGED: "damaged",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.FORCED: "forced to stop",
    ExitCode.SIZE_LIMIT: "at its limit of pages or bytes",
    ExitCode.TIME_LIMIT: "at its time limit",
    ExitCode.NOTHING_HAD: "done, and no page could be had",
}
"""`state` of a crawl that ended with this code."""


def no_page_had(record: Mapping[str, Any]) -> bool:
    """Of a crawl that is done: of none of its URLs a page was had."""
    had = record["fetched_by_reason"] or {}
    return not any(had.get(name) for name in names(HAD))


PAUSES_SHOWN, NOW_SHOWN = 5, 3
ERRORS = names(ERROR_RESPONSES)

ALIVE = ("running", "paused", "renewing", "stopping", "busy")


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with every field of FIELDS present, in their order; unknown fields follow."""
    return {**dict.fromkeys(FIELDS), **values}


def read_status(job: JobDir) -> dict[str, Any]:
    """The record of `job`, live or committed. Raises ControlError, drum's Damaged, OSError."""
    try:
        live = ask(job.socket, "status")
    except NotOurs:  # who may read its files may know what they say
        live = None
    if live is not None:
        return complete({**live, "source": "live"})
    locked = job.is_locked()
    values = complete({"state": "new", **_committed(job), "source": "committed"})
    if locked:
        values["state"] = "busy"
        return values
    values["pid"] = values["wait_ends"] = None  # of a crawl that is over nothing ends any more
    if (job.path / SNAPSHOT).exists():
        values["state"] = "snapshot"
    elif values["state"] in ALIVE:
        values["state"] = "killed"
    return values


def _committed(job: JobDir) -> dict[str, Any]:
    from drum import Files  # loads numpy: only when no crawl could be asked

    from irlcrawl.frontier.state import formats

    try:
        catalog = formats.look(job.state)
    except FileNotFoundError:
        from irlcrawl.frontier.state.start_checks import check_state_there

        check_state_there(job, Files())
        return {}  # started, but killed before its first commit
    values = {**(catalog.get("status") or {}), "paused": catalog.get("pauses") or {}}
    # A takedown moves these, and counts no more than that.
    if values.get("fetched_by_reason") and (moved := (catalog.get("counters") or {}).get("fetched_by_reason")):
        values["fetched_by_reason"] = moved
    return values


def lines(values: Mapping[str, Any]) -> list[str]:
    """The record in words, one fact a line."""
    number = {name: value or 0 for name, value in values.items() if value is None or isinstance(value, int | float)}
    told = [
        ("state", _state(values)),
        ("paused", _paused(values)),
        ("fetched", f"{words.plural(number['fetched'], 'URL')}, {words.size(number['bytes'])}{_rate(values)}"),
        ("", words.parts(values["fetched_by_reason"])),
        ("rate", ", ".join(f"{words.rate(rate)}/s over {name}" for name, rate in _rates(values).items())),
        ("failed", _total(values, "failed")),
        ("errors", _errors(values)),
        ("excluded", _total(values, "excluded")),
        ("seeds", f"{words.count(number['seeds'])} given, {words.count(number['new_seeds'])} of them new"
                  if number["seeds"] else ""),
        ("now", _now(values)),
        ("slowest", _seconds(values["slowest_hosts"])),
        ("waiting", _waiting(values)),
        ("lists", _lists(values)),
        ("later", _later(values)),
        ("resting", _resting(values)),
        ("failing", _failing(values)),
        ("proxy", _proxies_down(values)),
        ("delayed", words.parts(values["delayed_hosts"])),
        ("pages", _pages(values)),
        ("shared", words.parts(values["shared_addresses"] or {})),
        ("throttled", _throttled(values)),
        ("links", _links(values)),
        ("retries", f"{words.plural(number['retry_count'], 'request')} to be repeated, "
                    f"{words.plural(number['fetch_failures'], 'request')} without a response"),
        ("latency", f"a URL is requested {words.duration(values['frontier_latency_s'])} after it was found"
                    if values["frontier_latency_s"] is not None else ""),
        ("disk", _disk(values)),
        *(("machine", _machine(one)) for one in values["machines"] or ()),
        *(("merging", _merge(name, values)) for name in _long_merges(values)),
    ]  # fmt: skip
    return [f"{name:<10}{text}" for name, text in told if text]


def _lists(values: Mapping[str, Any]) -> str:
    if not values["lists_out"]:
        return ""
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(values["lists_until"]))
    lent = f"{words.plural(values['lists_out'], 'list')} with {words.plural(values['lent_urls'], 'URL')}"
    return f"{lent} out until {until}; nothing is asked of their sites"


def _machine(one: Mapping[str, Any]) -> str:
    here = f"{words.plural(one['workers'], 'worker')}, {words.plural(one['visits'], 'visit')}"
    told = here if one["state"] == "here" else _away(one)
    owed = f", {words.plural(one['owed'], 'stream')} to be handed over" if one["owed"] else ""
    return f"{one['name']}: {told}, {words.size(one['shipped_bytes'])} shipped{owed}"


def _away(one: Mapping[str, Any]) -> str:
    """Of a machine that says nothing."""
    heard = "not heard in this run" if one["heard_s"] is None else f"last heard {words.duration(one['heard_s'])} ago"
    ends = "" if one["given_up_in_s"] is None else f", given up in {words.duration(one['given_up_in_s'])}"
    return f"away, {heard}{ends}, {words.plural(one['visits'], 'visit')} in hand"


def line(values: Mapping[str, Any]) -> str:
    """The record in one line, for logs and terminals without a screen."""
    errors = errors_by_reason(values)
    told = [
        f"fetched {words.count(values['fetched'] or 0)}{_rate(values)}",
        words.size(values["bytes"] or 0),
        *([f"errors {words.count(sum(errors.values()))} ({words.parts(errors)})"] if errors else ()),
        f"waiting {words.count(_not_done(values))}",
        *([f"later {_later(values)}"] if values["scheduled_urls"] else ()),
        *([f"resting {_resting(values)}"] if values["resting_urls"] else ()),
        f"excluded {words.count(values['excluded'] or 0)}",
        *([f"now {_now(values)}"] if values["fetching"] else ()),
        *([f"proxy {_proxies_down(values)}"] if _proxies_down(values) else ()),
        *([f"paused {_names(values['paused'])}"] if values["paused"] else ()),
        *(f"merging {_merge(name, values)}" for name in _long_merges(values)),
    ]
    return ", ".join(told)


def errors_by_reason(values: Mapping[str, Any]) -> dict[str, int]:
    """URLs that ended without a page, by reason: failed ones, and those whose server answered with an error."""
    fetched = {name: (values.get("fetched_by_reason") or {}).get(name, 0) for name in ERRORS}
    failed = values.get("failed_by_reason") or {}
    return {name: number for name, number in {**fetched, **failed}.items() if number}


def _errors(values: Mapping[str, Any]) -> str:
    """Where servers answered with errors, too: all URLs of which no page was had."""
    errors = errors_by_reason(values)
    all_failed = sum(errors.values()) == (values["failed"] or 0)
    return "" if all_failed else f"{words.count(sum(errors.values()))} ({words.parts(errors)})"


def _rates(values: Mapping[str, Any]) -> dict[str, float]:
    """Of a run that is over: those before its end."""
    return values["pages_per_s_over"] or {} if values["state"] in (*ALIVE, *ENDED.values()) else {}


def _now(values: Mapping[str, Any]) -> str:
    """What is fetched at this moment."""
    if not values["fetching"] or values["state"] not in ALIVE:
        return ""
    hosts = [f"{host.removeprefix('http://').removesuffix(':80')}" for host in values["fetching"]]
    hosts = [host.removeprefix("https://").removesuffix(":443") if "https" in host else host for host in hosts]
    return f"{words.plural(values['leased_urls'] or 0, 'URL')} of {', '.join(hosts[:NOW_SHOWN])}" + (
        ", ..." if len(hosts) > NOW_SHOWN else ""
    )


def _seconds(hosts: Mapping[str, float] | None) -> str:
    return ", ".join(f"{host} {words.duration(seconds)}" for host, seconds in (hosts or {}).items())


def headline(record: Mapping[str, Any]) -> str:
    """What the crawl is doing and its record, in one line; `record` may lack fields."""
    values = complete(record)
    return f"{values['state']}: {line(values)}"


VIEW = View(headline, lambda record: lines(complete(record)))
"""How a crawl's progress shows its record."""


def _state(values: Mapping[str, Any]) -> str:
    text, more = str(values["state"]), ""
    if text == "killed":
        more = "; the same command goes on"
    elif text == ENDED[ExitCode.DONE] and no_page_had(values):
        text = ENDED[ExitCode.NOTHING_HAD]
    after = f", after {words.duration(values['elapsed_s'])}" if values["elapsed_s"] is not None else ""
    return text + after + more


def _paused(values: Mapping[str, Any]) -> str:
    """What the operator paused."""
    told = []
    for name, pause in (values["paused"] or {}).items():
        since = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(pause["since"])) if pause["since"] else ""
        told.append(f"{'the whole crawl' if name == '*' else name}{since}{' by ' + pause['by'] if pause['by'] else ''}")
    more = f" and {len(told) - PAUSES_SHOWN} more" if len(told) > PAUSES_SHOWN else ""
    return "; ".join(told[:PAUSES_SHOWN]) + more


def _names(pauses: Mapping[str, Any]) -> str:
    names = ["all" if name == "*" else name for name in pauses]
    return ", ".join(names[:PAUSES_SHOWN]) + (", ..." if len(names) > PAUSES_SHOWN else "")


def _rate(values: Mapping[str, Any]) -> str:
    alive = values["state"] in ALIVE  # of a run that is over and fetched nothing a rate says nothing
    known = values["pages_per_s"] is not None and (values["pages_per_s"] or (alive and values["fetched"]))
    return f" ({words.rate(values['pages_per_s'])}/s)" if known else ""


def _total(values: Mapping[str, Any], name: str) -> str:
    total = values[name] or 0
    reasons = words.parts(values[f"{name}_by_reason"])
    return words.count(total) + (f" ({reasons})" if reasons else "")


def _not_done(values: Mapping[str, Any]) -> int:
    """URLs that wait, with workers or without: the same before a stop and after it."""
    return int((values["queued_urls"] or 0) + (values["leased_urls"] or 0))


def _waiting(values: Mapping[str, Any]) -> str:
    hosts = words.plural(values["active_hosts"] or 0, "host")
    out = f" ({words.count(values['leased_urls'])} of them with workers now)" if values["leased_urls"] else ""
    text = f"{words.plural(_not_done(values), 'URL')}{out}; {hosts} in memory"
    text += f" ({words.count(values['ready_hosts'] or 0)} ready)"
    longest = (values["per_host_queue_size"] or {}).get("max")
    return text + (f", at most {words.plural(longest, 'URL')} a host" if longest else "")


def _later(values: Mapping[str, Any]) -> str:
    """The URLs for which their host has no time yet: others before them, a long Crawl-delay, its hours."""
    if not values["scheduled_urls"]:
        return ""
    text = f"{words.plural(values['scheduled_urls'], 'URL')} for which their hosts may not be asked yet"
    seconds = _until(values, "scheduled_due")
    return f"{text}, the first in {words.duration(seconds)}" if seconds else text


def _pages(values: Mapping[str, Any]) -> str:
    """Pages that are visited again."""
    if not values["pages"]:
        return ""
    text = f"{words.plural(values['pages'], 'page')} between two visits"
    if values["visit_price"] is None:
        text += ", and none is visited again: revisit.enabled is false"
    elif values["state"] in ALIVE:
        seconds = _until(values, "pages_due")
        text += f", the next is due in {words.duration(seconds)}" if seconds else ", some are due"
    elif values["pages_due"] is not None:  # when it is read, that may have passed
        text += time.strftime(", the first is due at %Y-%m-%d %H:%M", time.localtime(values["pages_due"]))
    visits = dict(values["visits_by_change"] or {})
    if values["visits_failed"]:
        visits["failed or refused"] = values["visits_failed"]
    return text + (f"; visits: {words.parts(visits)}" if visits else "")


def _resting(values: Mapping[str, Any]) -> str:
    """The URLs for which a crawl that seems idle waits, and how long it does."""
    if not values["resting_urls"]:
        return ""
    text = words.plural(values["resting_urls"], "URL")
    if seconds := _until(values, "resting_due"):
        text += f", asked again from {words.duration(seconds)} on"
    if seconds := _until(values, "wait_ends"):
        text += f"; nothing else is left, the crawl ends in {words.duration(seconds)}"
    return text


def _failing(values: Mapping[str, Any]) -> str:
    """The hosts at rest, and those given up."""
    hosts = values["resting_hosts"] or {}
    number = words.plural(sum(hosts.values()), "host")
    return f"{number} when asked last ({words.parts(hosts)})" if hosts else ""


def _proxies_down(values: Mapping[str, Any]) -> str:
    """Of a crawl that runs: our own outage."""
    if not values["proxies_down"] or values["state"] not in ALIVE:
        return ""
    told = [
        f"{proxy} has let nothing through for {words.duration(max(0.0, values['updated'] - since))}"
        for proxy, since in values["proxies_down"].items()
    ]
    return ", ".join(told) + "; the hosts behind it wait, and are charged with nothing"


def _throttled(values: Mapping[str, Any]) -> str:
    """The addresses that are asked more seldom than others."""
    addresses = values["throttled_addresses"] or {}
    number = words.plural(sum(addresses.values()), "address", "addresses")
    return f"{number} ({words.parts(addresses)})" if addresses else ""


def _until(values: Mapping[str, Any], field: str) -> float:
    """Seconds until the moment in a field of a crawl that runs; 0 if it is over or there is none."""
    return max(0.0, (values[field] or 0.0) - values["updated"]) if values["state"] in ALIVE else 0.0


def _disk(values: Mapping[str, Any]) -> str:
    if values["frontier_bytes"] is None:
        return ""
    full = " (full: frontier.bytes_max)" if values["frontier_full"] else ""
    new = f", {words.size(values['harvest_bytes'])} of links not looked at yet" if values["harvest_bytes"] else ""
    free = f"; {words.size(values['disk_free_bytes'])} free" if values["disk_free_bytes"] is not None else ""
    return f"{words.size(values['frontier_bytes'])} of waiting URLs{full}{new}{free}"


def _long_merges(values: Mapping[str, Any]) -> list[str]:
    """The merges over several buckets; a merge of one bucket is over at once."""
    return [name for name, merge in (values["merges"] or {}).items() if merge["buckets"] > 1]


def _merge(name: str, values: Mapping[str, Any]) -> str:
    merge = values["merges"][name]
    of = f"{words.count(merge['buckets_done'])} of {words.plural(merge['buckets'], 'bucket')}"
    return f"{name} {of}, {words.plural(merge['rows_waiting'], 'row')} to go"


def _links(values: Mapping[str, Any]) -> str:
    found = words.plural(values["discovered_urls"] or 0, "URL")
    repeated = words.count(values["duplicate_urls"] or 0)
    told = [counted for counted in COUNTERS.values() if counted.told and values[counted.field]]
    more = "".join(f", {words.plural(values[one.field], one.told_one or one.told, one.told)}" for one in told)
    outside = words.count(values["out_of_scope_urls"] or 0)
    return f"{found} found; {repeated} more led to these, {outside} out of scope{more}"
