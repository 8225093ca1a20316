"""`irlcrawl why JOB URL|HOST|SITE`: where it stands, and why.

Every answer is a JSON object; `lines` puts it into words. A question reads the waiting URLs and the crawl log once,
forward, in constant memory, and a few blocks of the drums: its time grows with the size of the files, not with how busy
the crawl is.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from drum import Batch
from drum.segment import Segment

import numpy as np

from budgets.beast import RECORD, SLOTS
from budgets.star import WITHOUT_LIMIT
from irlcrawl.ask.get import Unavailable, typed_payload
from irlcrawl.ask.outcomes import check_log, entries_of, index_log, outcomes
from irlcrawl.ask.shown_state import shown_waiting
from irlcrawl.ask.why_page import PageRow, is_page
from irlcrawl.base.job import JobDir
from irlcrawl.base.job_files import SEEDS_STREAM, harvests_from
from irlcrawl.base.keys import (
    PRIORITY_LAST,
    host_key,
    is_home,
    is_stand_in,
    level_of,
    name_key,
    origin_of,
    priority_of,
    url_key,
)
from irlcrawl.base.reasons import DONE_NAMES, Reason
from irlcrawl.base.rows import CARRIED, DISCOVERY_LETTER, Carried, Robots, Source
from irlcrawl.base.url import SeedError, SiteOf, bracketed, host_of, seed_url, split
from irlcrawl.config.hours import Hours
from irlcrawl.config.keys import ConfigError
from irlcrawl.config.overrides import Overrides
from irlcrawl.config.proxies import Proxies
from irlcrawl.crawl.status import ALIVE, read_status
from irlcrawl.frontier.dispatch.machine_clocks import seconds_left
from irlcrawl.frontier.dispatch.proxies_down import PROBE_S
from irlcrawl.frontier.politeness.clocks import KIND_NAMES, SHARED, ClockTable, Kind
from irlcrawl.frontier.politeness.columns import NONE
from irlcrawl.frontier.state.hosts import STATE, HostRecord, records_of, redated
from irlcrawl.frontier.state.known_pages import known_page
from irlcrawl.frontier.state.lease_log import boot_id
from irlcrawl.frontier.state.view import PLACES, Reading
from irlcrawl.terminal import words
from irlcrawl.terminal.progress import Bar
from irlcrawl.web.block import Block
from irlcrawl.web.opt_out import OptOutFile
from irlcrawl.web.preference import weigher
from irlcrawl.web.robots import product_token, verdict
from irlcrawl.web.spelling import Spelling
from irlcrawl.worker.archive import crawl_log, log_parts
from irlcrawl.worker.harvest.context import Context
from irlcrawl.worker.harvest.counters import CUT
from irlcrawl.worker.harvest.rules_log import RulesLog
from irlcrawl.worker.page import entries

if TYPE_CHECKING:
    from irlcrawl.worker.harvest.plugged import Renaming

_LISTED = DISCOVERY_LETTER[Source.SITEMAP]
_NOTES = (
    "visit", "change", "attempt", "due", "was", "retry_after", "crawl_delay", "crawl_delay_asked", "truncated", *CUT,
    "faults", "address", "canonical", "redirect", "wishes", "taken_down", "detail", "warc",
)  # fmt: skip
HISTORY_MAX = 20
HOSTS_SHOWN = 10
ON_ITS_WAY = ("ready", "moving")
"""Where a page is that does not rest."""

Answer = dict[str, Any]


def why(job: JobDir, asked: str, now: float, bar_of: Callable[[], Bar] = Bar) -> Answer:
    """The answer for `asked`: a URL (with a path, or `://`), a host name or a site. bar_of: makes what shows how far it
    is, where much has to be read. ConfigError, Damaged, OSError."""
    try:
        url = seed_url(bracketed(asked))
    except SeedError as error:
        raise ConfigError(f"{asked[:200]!r}: {error}") from error
    index_log(job, bar_of)
    with shown_waiting(job, bar_of) as files:
        reading = Reading.open(job, files)
        if reading is None or not reading.begun:
            return {"asked": asked, "stands": "nothing is known yet: the crawl has committed nothing"}
        check_log(job)
        question = _Question(reading, url, now)
        if "/" in asked.strip().rstrip("/"):
            return {"asked": asked, "url": url.decode(), **question.url()}
        if question.name == question.site:
            return {"asked": asked, "site": question.site, **question.all_of_site()}
        return {"asked": asked, "host": question.name, **question.all_of_host()}


KEPT_S = 0.1
"""Another crawl of the machine keeps a clock so much longer than this one, at least."""
GAP, GAP_OF_SITE = "politeness.gap_host_seconds", "politeness.gap_site_seconds"
BY_PROXY = "resolved by its proxy"
PRIVATE = "its address is private, loopback or reserved, and network.allow does not name it"


class _Question:
    def __init__(self, reading: Reading, url: bytes, now: float) -> None:
        self._reading, self._url, self._now = reading, url, now
        name, port = host_of(url), split(url)[2]
        self._site_of = SiteOf(reading.config.scope.private_suffixes)
        self.site = self._site_of(name)
        self._host_name = name
        bracketed = f"[{name}]" if ":" in name else name
        self.name = name if port in (80, 443) else f"{bracketed}:{port}"
        """The host name, in the form URLs have it, with its port if one was named."""
        self._site_key = name_key(self.site.encode())
        self._log = os.fspath(reading.job.crawl_log)
        self._spelling = _spelling(reading)
        self._hours = Hours(reading.config)
        self._proxies = Proxies(reading.config)
        self._down: dict[str, float] | None = None  # as `status` has them; None: not asked yet

    def url(self) -> Answer:
        history = list(entries_of(self._reading.job, self._url)) if self._has_log() else []
        record = self._record(origin_of(self._url))
        stands = self._stands(history[-1] if history else None)
        via = next((entry.via.decode("ascii", "backslashreplace") for entry in history if entry.via), None)
        listed = stands.get("source") == "sitemap" or (history and history[-1].path.endswith(_LISTED))
        return {
            **({"via": via} if via else {}),
            **stands,
            **(self._chain(history[-1]) if history else {}),
            **(self._listed(stands.get("via") or via or "") if listed else {}),
            "history": [_told(entry) for entry in history[-HISTORY_MAX:]],
            "robots": self._robots(record, self._url),
            "host": self._host(record, self._host_name),
            "site": self._site(),
        }

    def _chain(self, last: crawl_log.LogEntry) -> Answer:
        """Where a chain of redirects ends that begins with the URL, as far as the crawl followed it."""
        met, at = [last.url], last
        while (target := at.notes.get("redirect", "").encode()) and target not in met and len(met) <= HISTORY_MAX:
            met.append(target)
            found = list(entries_of(self._reading.job, target))
            if not found:
                break
            at = found[-1]
        loop = f"; a loop: it leads back to {target.decode()}" if target in met and at.url == met[-1] else ""
        if len(met) == 1 and not loop:
            return {}
        end = f"{at.outcome}, {at.reason}{loop}"
        if at.url != met[-1]:
            key = self._reading.scope().why_not(met[-1], hop=len(met) - 1)
            end = f"left out by {key}" if key else "not asked for yet"
        return {"redirects_to": met[min(1, len(met) - 1)].decode(), "ends_at": f"{met[-1].decode()} ({end})"}

    def _listed(self, via: str) -> Answer:
        """What the sitemap or feed that named the URL first says of it, as its last archived copy has it."""
        try:
            content_type, body = typed_payload(self._reading.job, via.encode())
        except (Unavailable, OSError):
            return {}
        config = self._reading.config
        for entry in entries.of_list(body, content_type, via.encode(), config.fetch.decoded_bytes_max, Source.SITEMAP):
            if self._url in (entry.url, self._spelling.of(entry.url)):
                said = entry._asdict()
                return {"listed": {name: said[name] for name in ("lastmod", "priority", "changefreq") if said[name]}}
        return {}

    def all_of_host(self) -> Answer:
        """Every origin of a host name: with its port if one was named, else of all that wait or were asked."""
        port = b"" if self.name == self._host_name else self.name[self.name.rindex(":") :].encode()
        waiting: Counter[tuple[str, str]] = Counter()
        for place, batch in self._of_site():
            for url in batch["url"].tolist():
                if host_of(url) == self._host_name and origin_of(url).endswith(port):
                    waiting[origin_of(url).decode(), place] += 1
        counts, last = self._outcomes(host=self.name)
        origins = {origin for origin, _ in waiting} | {origin_of(entry.url).decode() for entry in last}
        return {
            "waiting": _nested(waiting),
            "outcomes": counts,
            "history": [_told(entry) for entry in last],
            "origins": self._origins(origins or {origin_of(self._url).decode()}),
            "site": self._site(),
        }

    def _origins(self, origins: Collection[str]) -> Answer:
        """Robots, address and clocks of these origins of the host."""
        return {
            origin: {
                "robots": self._robots(record := self._record(origin.encode()), None),
                **self._host(record, self._host_name),
            }
            for origin in sorted(origins)
        }

    def all_of_site(self) -> Answer:
        waiting: Counter[tuple[str, str]] = Counter()
        origins: set[bytes] = set()
        for place, batch in self._of_site():
            urls = batch["url"].tolist()
            waiting.update((host_of(url), place) for url in urls)
            origins.update(origin_of(url) for url in urls if host_of(url) == self._host_name)
        counts, last = self._outcomes(site=self.site)
        origins.update(origin_of(entry.url) for entry in last if host_of(entry.url) == self._host_name)
        hosts: Counter[str] = Counter()
        for (host, _), urls in waiting.items():
            hosts[host] += urls
        places: Counter[str] = Counter()
        for (_, place), urls in waiting.items():
            places[place] += urls
        return {
            **self._site(),
            **self._kept_back(),
            **_private(counts),
            "waiting": dict(places),
            "hosts_waiting": dict(hosts.most_common(HOSTS_SHOWN)),
            "waiting_hosts": len(hosts),
            "outcomes": counts,
            "origins": self._origins({origin.decode() for origin in origins}),  # of the host of this name, if any
            "history": [_told(entry) for entry in last],
        }

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _has_log(self) -> bool:
        return bool(log_parts.log_files(self._reading.files, self._log)) if self._reading.job.logs.is_dir() else False

    def _stands(self, last: crawl_log.LogEntry | None) -> Answer:
        """Seen or not, done or where it waits, and what that means."""
        reading = self._reading
        key = url_key(self._url, reading.seed, self._site_key)
        seen = bool(reading.seen.lookup(np.array([key], np.uint64))[0][0])
        out = reading.scope().why_not(self._url)
        found: Answer = {"seen": seen, "scope": f"out of scope: {out}" if out else "in scope (as a seed would be)"}
        found |= self._spelled() | self._kept_back(self._url)
        found |= self._opt_out()
        done = last is not None and last.outcome in DONE_NAMES
        if last is not None and done and last.reason == Reason.ADDRESS.name.lower():
            found["private"] = PRIVATE
        place = self._where(key, done)
        if place is not None:
            return {**found, **place}
        if last is not None and done:
            back = "; put back, to be asked again" if self._handed_in("returns", key) else ""
            return {**found, "stands": f"done: {last.outcome}, {last.reason}{back}", "place": "done"}
        if not seen:
            waits = any((batch["key"] == np.uint64(key)).any() for _, batch in reading.seen.scan_pending())
            found["stands"] = (
                "a link to it was found, and is looked up with the next new links" if waits
                else "not asked for in this spelling: ask for the URL that links to it lead to" if "spelled" in found
                else "never found: no page that was fetched has a link to it that is followed (the scope, nofollow, "
                "page.links_max and trap guards leave links out)"
            )  # fmt: skip
            return {**found, "place": "moving" if waits else "unknown"}
        return {**found, "stands": "seen, and neither done nor waiting: `irlcrawl fsck` says more", "place": "lost"}

    def _spelled(self) -> Answer:
        """What links to the URL lead to, if a rule spells it otherwise."""
        spelled = self._spelling.of(self._url)
        if spelled == self._url:
            return {}
        rules = ", ".join(self._spelling.by(self._url))
        return {"spelled": f"links to it lead to {spelled.decode()} (by {rules})"}

    def _kept_back(self, url: bytes | None = None) -> Answer:
        """Which keys of the configuration keep the host (or the URL) from being asked."""
        config, name = self._reading.config, self._host_name
        found: Answer = {}
        if (key := Block(config).key_of(name, url)) is not None:
            found["blocked"] = key
        if (until := self._lent_until()) is not None:
            found["lent"] = f"a list has URLs of its site, which is asked from there; it is out until {_date(until)}"
        if config.crawl.pause:
            found["paused"] = "crawl.pause = true"
        elif (section := Overrides(config.site)).paused(name):
            found["paused"] = f'site."{section.setter(name, "pause")}".pause = true'
        if (proxy := self._proxy_down()) is not None:
            found["proxy_down"] = f"{proxy}; asked whether it is there again every {words.duration(PROBE_S)}"
        if (opens := self._closed_until(self._now)) > self._now:
            found["closed"] = f"until {_date(opens)}, by {self._hours_key()}"
        return found

    def _proxy_down(self) -> str | None:
        """The proxy of the host, if the crawl runs and that does not answer."""
        proxy = self._proxies.of(self._host_name)
        if proxy is None:
            return None
        if self._down is None:
            record = read_status(self._reading.job)
            self._down = (record["proxies_down"] or {}) if record["state"] in ALIVE else {}
        return str(proxy) if str(proxy) in self._down else None

    def _closed_until(self, at: float) -> float:
        """When the hours of the host begin; `at` if it may be asked then."""
        return self._hours.opens(self._host_name, at)

    def _hours_key(self) -> str:
        """The key that sets the hours of the host, with its value."""
        config, name = self._reading.config, self._host_name
        sections = Overrides(config.site)
        by, zone = sections.setter(name, "hours"), sections.setter(name, "time_zone")
        key = f'politeness.hours = "{config.politeness.hours}"'
        if by is not None:
            key = f'site."{by}".hours = "{sections.of(name).hours}"'
        return key if zone in (None, by) else f'{key}, site."{zone}".time_zone = "{sections.of(name).time_zone}"'

    def _lent_until(self) -> float | None:
        """When a list with URLs of the site is taken back (irlcrawl/rounds), unix seconds; None: none is out."""
        runs = self._reading.runs
        untils = [lent.until for lent in runs.lent.values() if self._site_key in lent.sites]
        return max(untils) + self._reading.clock_set if untils else None

    def _opt_out(self) -> Answer:
        """The line of the opt-out list that names the URL."""
        try:
            opt_outs = OptOutFile.of_crawl(self._reading.config).latest()
        except ConfigError as error:
            return {"opt_out": f"unknown: {error}"}
        line = opt_outs.of(self._url) if opt_outs is not None else None
        return {"opt_out": str(line)} if line is not None else {}

    def _where(self, key: int, done: bool) -> Answer | None:
        """Where it waits. A page that rests is found by its key; of one on its way to a visit little is looked
        through. None: nowhere."""
        reading = self._reading
        known = known_page(reading.known, key) if reading.catalog.get("price") is not None else None
        if known is None:
            return None if done else self._place(key, [place for place in PLACES if place != "visited"])
        row = reading.pages.row(key, known.label, known.shut) if known.label else None
        if row is None:
            return self._place(key, ON_ITS_WAY if not known.label else PLACES)
        ordered = known.ordered or self._handed_in("signals", key)
        waits = "an order to visit it waits" if ordered else "a signal waits" if known.signalled else None
        return self._told_of("visited", row, 0) | ({"called": waits} if waits else {})

    def _handed_in(self, section: str, key: int) -> bool:
        """Whether the URL is in a harvest that the operator handed in and that no turn has taken in yet."""
        reading = self._reading
        first: int = reading.catalog.get(f"streams/{SEEDS_STREAM}", {"next": 0})["next"]
        for name in harvests_from(set(reading.files.listdir(reading.job.state)), SEEDS_STREAM, first):
            try:
                rows = Segment.open(reading.files, os.path.join(reading.job.state, name)).sections[section]
                if any((batch["key"] == np.uint64(key)).any() for batch in rows.scan(["key"])):
                    return True
            except FileNotFoundError:  # a crawl that runs took it in meanwhile
                continue
        return False

    def _place(self, key: int, places: Collection[str]) -> Answer | None:
        reading = self._reading
        host = host_key(origin_of(self._url), self._site_key)
        before = 0  # rows of its host in runs ahead of it
        for place, batch in reading.waiting(places):
            at = np.flatnonzero(batch["key"] == np.uint64(key))
            if not len(at):
                before += int((batch["host"] == np.uint64(host)).sum()) if place == "ready" else 0
                continue
            row = batch.slice(int(at[0]), int(at[0]) + 1)
            before += int((batch["host"][: at[0]] == np.uint64(host)).sum())
            return self._told_of(place, row, before)
        return None

    def _told_of(self, place: str, row: Batch, before: int) -> Answer:
        carried = Carried(*(row[name].tolist()[0] for name in CARRIED))
        told = {**carried.to_json(), "source": Source(carried.source).name.lower(), "level": self._level(carried)}
        page = PageRow(self._reading, self._url, row, self._now).answer() if is_page(row) else {}
        return {**self._placed(place, row, before), "place": place, **told, **page}

    def _level(self, carried: Carried) -> str:
        """Where a URL stands among those of its site, and what put it there."""
        level, home = level_of(carried.priority), is_home(self._url)
        weight_of = weigher(self._reading.config.priority)
        weight = 0 if weight_of is None else weight_of(self._url)
        if carried.priority == PRIORITY_LAST:
            return f"{level} (last): the content of the page that links to it was met before"
        kind = "a seed, or what it redirects to" if not carried.depth else "a home page" if home else (
            f"{words.plural(carried.depth, 'link')} from a seed"
        )  # fmt: skip
        rule = f", and a rule of [[priority]] with weight {weight}" if weight else ""
        now = level_of(priority_of(carried.depth, carried.source, home, weight))
        more = "" if level == now else f"; by that it would be {now}: it waited, or rules were others when it was found"
        return f"{level}: {kind}{rule}{more}"

    def _placed(self, place: str, row: Batch, before: int) -> Answer:
        reading = self._reading
        if place == "ready":
            text = "ready: in its host's run, or with a worker now" if reading.job.is_locked() else "ready"
            return {"stands": f"{text}; {words.plural(before, 'URL')} of its host before it", "before": before}
        if place == "scheduled":
            due = float(row["due"][0])
            return {"stands": f"scheduled: {self._why_scheduled()}; due {_date(due)}", "due": due}
        if place == "resting":
            due = float(row["due"][0])
            return {"stands": f"rests {self._why_rests(row)}; asked again from {_date(due)}", "due": due}
        if place == "visited":
            due = float(row["due"][0])
            until = PageRow(reading, self._url, row, self._now).until(due)
            return {"stands": f"a page between two visits; {until}", "due": due}
        if place == "queued":
            queue, current = int(row["queue"][0]) // SLOTS, reading.sites.current
            labels, rows = reading.queues.counts()
            ahead = int(rows[labels < row["queue"][0]].sum())
            where = f"{queue - current} behind the one in use" if queue > current else "which is in use"
            text = f"in queue {queue}, {where}; at least {words.plural(ahead, 'URL')} before"
            return {"stands": text, "queue": queue, "current": current, "ahead": ahead}
        if place == "over_budget":
            end = reading.sites.cycle_end(self._site_key)
            current = reading.sites.current
            text = f"over its site's budget: looked at again when queue {end} is through ({current} is in use)"
            return {"stands": text, "cycle_end": end, "current": current}
        return {"stands": "between two places: it is taken on within seconds"}

    def _why_scheduled(self) -> str:
        if self._closed_until(self._now) > self._now:
            return "outside the hours of its host"
        if (proxy := self._proxy_down()) is not None:
            return f"its proxy {proxy} lets nothing through"
        gap_s, key = max(self._gaps(self._record(origin_of(self._url))), key=lambda gap: gap[0])
        table = self._reading.clocks(self._now).table
        clock = table.find(Kind.SITE, self._site_key)
        bandwidth = self._bandwidth().get("bandwidth")
        if bandwidth and clock != NONE and table.next[clock] > self._now + gap_s:
            return f"its site may send no more for now ({bandwidth})"
        politeness = self._reading.config.politeness
        if key != GAP or gap_s > politeness.horizon_seconds:
            who = "site" if key == GAP_OF_SITE else politeness.unit
            return f"its {who} is asked once in {words.duration(gap_s)} ({key})"
        return "its host has better ones before it"

    def _gaps(self, record: HostRecord | None) -> Iterator[tuple[float, str]]:
        """The gaps that are kept after a request to the host, in seconds, and what sets them."""
        config, name = self._reading.config, self._host_name
        sections, general = Overrides(config.site), config.politeness.gap_host_seconds
        own = sections.gap_host(name)
        if own is not None and own > general:
            yield own, f'site."{sections.setter(name, "gap_host_seconds")}".gap_host_seconds'
        else:
            yield general if own is None else own, GAP
        if record is not None and record.crawl_delay:
            yield record.crawl_delay, "Crawl-delay"
        yield config.politeness.gap_site_seconds, GAP_OF_SITE

    def _why_rests(self, row: Batch) -> str:
        record = self._record(origin_of(self._url))
        if record is not None and record.denials:
            return f"because its host's robots.txt could not be had ({words.plural(record.denials, 'time')} in a row)"
        if record is not None and record.rests_until:
            reason = Reason(record.failure).name.lower()
            # No failure is counted if other URLs of the visit were answered.
            times = f"; {words.plural(record.failures, 'time')} in a row" if record.failures else ""
            return f"because its host failed when it was asked last ({reason}{times})"
        return "after a passing failure" if row["attempt"][0] else "because its host failed before"

    def _site(self) -> Answer:
        """The site's budget with its inputs."""
        record = self._reading.sites.site(self._site_key)
        if record is None:
            return {"name": self.site, "known": False}
        told = asdict(record)
        told.pop("site")
        told["tried"] = told.pop("asked")  # `asked` is the question
        return {"name": self.site, "known": True, **told, "current": self._reading.sites.current}

    def _record(self, origin: bytes) -> HostRecord | None:
        found, values = self._reading.hosts.lookup(np.array([host_key(origin, self._site_key)], np.uint64))
        if not found[0]:
            return None
        return records_of(redated(values.select(STATE), self._reading.clock_set))[0]

    def _robots(self, record: HostRecord | None, url: bytes | None) -> Answer:
        """The state of robots.txt, and of a URL the rule that decides."""
        if record is None:
            return {"state": "unknown"}
        state = record.robots_at(self._now)
        told: Answer = {"state": state.name.lower(), "until": record.robots_until or None}
        if record.crawl_delay:
            told["crawl_delay_s"] = record.crawl_delay
        if state is Robots.RULES and url is not None and record.rules_length:
            pointer = (record.rules_log, record.rules_offset, record.rules_length)
            try:
                text = RulesLog.read(self._reading.files, os.fspath(self._reading.job.state), pointer)
            except FileNotFoundError:  # it is asked for again
                return {**told, "state": Robots.UNKNOWN.name.lower()}
            token = product_token(self._reading.config.crawl.user_agent)
            told["allowed"], told["rule"] = verdict(text, token, url)
        return told

    def _host(self, record: HostRecord | None, name: str) -> Answer:
        """The host's failures, address and clocks: when it may be asked next."""
        address = None if record is None else record.address_at(self._now)
        table = self._reading.clocks(self._now).table
        shown = BY_PROXY if is_stand_in(address or "") else address
        told: Answer = {**self._kept_back(), **self._bandwidth(), "address": shown, "clocks": {}}
        keys = [(Kind.HOST, name), (Kind.ADDRESS, address), (Kind.SITE, self.site)]
        due = self._now
        for kind, text in keys:
            clock = table.find(kind, name_key(text.encode())) if text else NONE
            if clock != NONE:
                seconds = {"gap_s": round(table.gap[clock], 3), "backoff_s": round(table.backoff[clock], 3)}
                known = {name: value for name, value in seconds.items() if value}  # what a commit has told so far
                shared: Answer = {"shared": True} if table.sites[clock] == SHARED else {}
                if table.limit[clock]:
                    shared["limit_per_s"] = round(table.limit[clock], 2)
                told["clocks"][KIND_NAMES[kind]] = {"next": table.next[clock], **known, **shared}
                due = max(due, table.next[clock])
        if record is not None:
            told["failures"] = record.failures
            if record.dead and record.dead_until > self._now:
                told["dead"], told["dead_until"] = Reason(record.dead).name.lower(), record.dead_until
                if record.dead == Reason.ADDRESS:
                    told["private"] = PRIVATE
                due = max(due, record.dead_until)
            if record.rests_until:
                told["failed"] = Reason(record.failure).name.lower()
            if record.rests_until > self._now:
                told["rests_until"], due = record.rests_until, max(due, record.rests_until)
            if record.robots_at(self._now) is Robots.DENY:
                due = max(due, record.robots_until)
        for kind, until in self._kept_on_machine(keys, record, table):
            if until > due + KEPT_S:
                told["clocks"].setdefault(KIND_NAMES[kind], {})["kept_by_another_crawl_until"] = until
                due = until
        due = self._closed_until(max(due, self._lent_until() or due))
        return {**told, "next_allowed": due if due > self._now else None}

    def _bandwidth(self) -> Answer:
        """The rate that the host's site has of its own."""
        config = self._reading.config
        rate = Overrides(config.site).bytes_per_second_by_site().get(self._site_key)
        by = f'site."{self.site}".bytes_per_second'
        return {"bandwidth": f"at most {words.size(rate)}/s of its site, by {by}"} if rate else {}

    def _kept_on_machine(
        self, names: Sequence[tuple[int, str | None]], record: HostRecord | None, table: ClockTable
    ) -> Iterator[tuple[int, float]]:
        """Until when the crawls of this machine keep the host's clocks, unix seconds."""
        directory = self._reading.config.politeness.machine_clocks
        if not directory:
            return
        delay = 0.0 if record is None else record.crawl_delay
        asked = [(kind, name_key(text.encode())) for kind, text in names if text]
        places = [table.find(kind, key) for kind, key in asked]
        gaps = [float(table.gap[at]) if at != NONE else 0.0 for at in places]
        wanted = [
            (kind, key, max(gap, delay) if kind == Kind.HOST else gap)
            for (kind, key), gap in zip(asked, gaps, strict=True)
        ]
        with contextlib.suppress(OSError):  # the crawl itself says what is wrong with the file
            left = seconds_left(directory, boot_id(self._reading.files), wanted)
            yield from ((kind, self._now + seconds) for (kind, _), seconds in zip(asked, left, strict=True) if seconds)

    def _of_site(self) -> Iterator[tuple[str, Batch]]:
        for place, batch in self._reading.waiting():
            rows = batch.filter(batch["site"] == np.uint64(self._site_key))
            if rows.rows:
                yield place, rows

    def _outcomes(self, host: str | None = None, site: str | None = None) -> tuple[Answer, list[crawl_log.LogEntry]]:
        """(outcome: {reason: number}, the last entries) of a host or, with all its hosts, a site."""
        counts: Counter[tuple[str, str]] = Counter()
        last: list[crawl_log.LogEntry] = []
        if not self._has_log():
            return {}, last
        for entry in outcomes(self._reading.job, host=host, site=site):
            if entry.outcome == "returned":
                counts[entry.notes.get("was", ""), entry.reason] -= 1
            counts[entry.outcome if entry.outcome != "none" else "robots.txt", entry.reason] += 1
            last.append(entry)
            del last[:-HISTORY_MAX]
        return _nested(counts), last


def _spelling(reading: Reading) -> Spelling | Renaming:
    """How links are spelled; without the plug-ins for that, if they are not installed here."""
    config = reading.config
    with contextlib.suppress(ConfigError):
        return Context(config, reading.seed, reading.scope()).spelling
    return Spelling(config.urls, config.site, config.url_rule)


def _private(counts: Answer) -> Answer:
    """What to say of a site of which URLs were refused for their address."""
    refused = counts.get("failed", {}).get(Reason.ADDRESS.name.lower(), 0)
    return {"private": f"of {words.plural(refused, 'URL')}: {PRIVATE}"} if refused else {}


def _told(entry: crawl_log.LogEntry) -> Answer:
    told = {
        "at": crawl_log.logged_time(entry), "url": entry.url.decode(), "status": entry.status,
        "outcome": entry.outcome, "reason": entry.reason,
    }  # fmt: skip
    notes = {name: value for name, value in entry.notes.items() if name not in told}
    if is_stand_in(notes.get("address", "")):
        notes["address"] = BY_PROXY
    return {**told, **notes}


def _nested(counts: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    told: dict[str, dict[str, int]] = {}
    for (first, second), number in sorted(counts.items()):
        if number:
            told.setdefault(first, {})[second] = number
    return told


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def lines(answer: Answer) -> Iterator[str]:
    """The answer in words: a fact a line, times as dates, history last."""
    history = answer.get("history", [])
    facts = {name: value for name, value in answer.items() if name not in ("asked", "history")}
    if "known" in facts:  # the question was for a site
        yield from _site_lines(facts)
        facts = {name: value for name, value in facts.items() if name not in _SITE}
    yield from _facts(facts, "")
    if history:
        yield "history"
        for told in history:
            more = ", ".join(f"{name} {told[name]}" for name in _NOTES if name in told)
            text = f"  {told['at']} {told['status']} {told['outcome']} ({told['reason']}) {told['url']}"
            yield words.printable(f"{text}  {more}" if more else text)


_SITE = {"site", "name", "known", "current", "budget", "unheld", "tried", *RECORD}


def _site_lines(site: Answer) -> Iterator[str]:
    """The site's budget, with what it comes from and what became of it."""
    yield "site"
    yield words.printable(f"  name           {site['name']}")
    if not site["known"]:
        yield "  budget         none yet: no URL of it was queued, and no link from another site counted"
        return
    seeds = "; it has a seed" if site["seeds"] else ""
    linked = words.plural(site["in_degree"], "other site")
    verb = "links" if site["in_degree"] == 1 else "link"
    held = f"; {words.count(site['unheld'])} if it brought more" if site["unheld"] > site["budget"] else ""
    free = site["budget"] >= WITHOUT_LIMIT
    budget = "no limit" if free else f"{words.plural(site['budget'], 'URL')} at a time"
    yield f"  budget         {budget}: {linked} {verb} to it{seeds}{held}"
    ahead = max(site["tail"] - site["current"], 0)
    last = f"; the last of them {words.plural(ahead, 'queue')} behind the one in use" if ahead else ""
    yield f"  within budget  {words.plural(site['placed'], 'URL')} so far{last}"
    yield f"  over budget    {words.plural(site['deferred'], 'URL')} that wait for a larger budget"
    if not site["tried"]:
        yield "  new content    nothing counted yet"
        return
    tried = f"the first {words.count(site['tried'])} URLs tried" if site["tried"] > 1 else "the first URL tried"
    yield f"  new content    {words.plural(site['novel'], 'page')} of {tried}"  # of the log there may be more


def _facts(values: Answer, indent: str) -> Iterator[str]:
    for name, value in values.items():
        label = name.replace("_", " ")
        if name == "site" and isinstance(value, dict) and "known" in value:  # else the clock of the site
            yield from (f"{indent}{text}" for text in _site_lines(value))
        elif name == "next_allowed" and value is None:
            yield f"{indent}{label:<14} now"
        elif isinstance(value, dict):
            if value:
                yield f"{indent}{label}"
                yield from _facts(value, indent + "  ")
        elif value not in (None, "") and not isinstance(value, list):
            yield words.printable(f"{indent}{label:<14} {_figure(value) if isinstance(value, float) else value}")


def _figure(value: float) -> str:
    """A date, if it is one; else three digits of it."""
    if value > 1e8:
        return _date(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
