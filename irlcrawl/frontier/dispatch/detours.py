"""Detours: a robots.txt that redirects to another host needs one request there, and that host's clocks count as well.
So does a redirect within a host whose address many sites share, because a visit there has a single request.

The worker asks, the redirect's host waits for its clocks like any other (ahead of others: a visit is held up), and the
answer is its address or a refusal. A detour ends when the worker says so, when its visit ends, or when its worker dies.

A host that is asked seldom has its next request further ahead than a visit can wait. That is no trouble of the host
that leads there: its visit ends, and the next one comes in time to wait for the clocks, ahead of that host's own URLs.

A thousand hosts may lead to one, whose own URLs would wait for all of them, as would the visits. So detours to a host
go one at a time, in a line: they leave it half of its time; those from other sites leave its site nine tenths. Whoever
comes out of turn is told to come later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from irlcrawl.base.clock import Clock
from irlcrawl.base.keys import origin_of
from irlcrawl.base.reasons import Reason
from irlcrawl.frontier.dispatch.visits import LATEST_START_S, Host, LeasedVisit
from irlcrawl.frontier.dispatch.workers import RemoteWorker
from irlcrawl.frontier.politeness.politeness import HostState, Politeness
from irlcrawl.frontier.state.lease_log import LeaseLog
from irlcrawl.worker.fetch.wire import Message

PAUSED_S = 60.0
"""So long a host waits whose robots.txt leads to a paused one, before it is asked there again."""
ASKED_MAX = 4096
"""Hosts of which it is remembered when a detour asked them, the last ones."""
LINE_SHARE, LINE_SHARE_FOREIGN = 0.5, 0.1
"""Of the time of a host for detours of its own site, and of the time of a site for those of all others."""
TOOK_S_MAX = 10.0
"""A request counts as so long at most: a server that dawdles would keep others out of its site's line for ten times as
long."""
LINE_S_MAX = 3600.0
"""So long whoever comes out of turn is sent away at most."""
AGAIN_S = 0.1
"""... and the least time between two of them."""
Token = tuple[int, int]
"""(stream, the worker's number) of a detour."""


@dataclass(slots=True)
class _Line:
    """Detours to a host (or, from other sites, to a site), which take `share` of its time."""

    share: float
    taken: bool = False  # one waits, or is under way
    opens: float = 0.0  # when the next may begin, unix seconds
    took: float = 1.0  # so long the last one kept its clocks, seconds
    end: float = 0.0  # when the last one of those that were sent away comes again, unix seconds

    def later(self, now: float) -> float:
        """When another one may come, behind those that were sent away before."""
        self.end = min(max(self.end, self.opens, now) + max(self.took / self.share, AGAIN_S), now + LINE_S_MAX)
        return self.end

    def ended(self, began: float, took: float) -> None:
        """A request that began then kept the clocks for `took` seconds. If it was late, the next one need not be: it
        comes when it was told to."""
        took = min(took, TOOK_S_MAX)
        self.took, turn = took, took / self.share
        self.opens = max(self.opens, began - turn) + turn


@dataclass(slots=True, frozen=True)
class _Open:
    """A detour that waits or is under way. `line`: None if it is to the host of its own visit."""

    worker: RemoteWorker
    host: Host
    line: _Line | None


class DetourRequests:
    """What workers ask for, until it is over. Owned by the event loop."""

    def __init__(
        self,
        politeness: Politeness,
        leases: LeaseLog,
        clock: Clock,
        host_of: Callable[[bytes, Host], Host],
        blocked: Callable[[str], bool],
        paused: Callable[[bytes], bool],
    ) -> None:
        """`host_of(origin, parent)` makes a Host of an origin, apart from any that is active, for a visit of `parent`;
        `blocked(name)`: nothing is to be requested from it, `paused(origin)`: nothing for now, or not from here."""
        self._politeness, self._leases, self._clock = politeness, leases, clock
        self._host_of, self._blocked, self._paused = host_of, blocked, paused
        self._open: dict[Token, _Open] = {}
        self._lines: OrderedDict[tuple[bool, int], _Line] = OrderedDict()  # by site (True) or host clock; the last ones
        self._asked: OrderedDict[int, float] = OrderedDict()

    def wanted(self, worker: RemoteWorker, visit: LeasedVisit | None, message: Message) -> None:
        """A worker asks. `visit` is the one it asks for, None when that is over."""
        if visit is None:
            _answer(worker, message["id"], None, Reason.LOST)
            return
        origin = origin_of(message["url"].encode("ascii"))
        host = self._host_of(origin, visit.host)
        if self._blocked(host.name):
            _answer(worker, message["id"], None, Reason.BLOCKED)
            return
        if self._paused(origin):  # which is no trouble of the host that leads there
            visit.not_before = self._clock.now() + PAUSED_S
            _answer(worker, message["id"], None, None)
            return
        line, now = self._line(host, visit.host), self._clock.now()
        if line is not None and (line.taken or line.opens > now):
            visit.not_before = line.later(now)
            _answer(worker, message["id"], None, None)
            return
        token = (worker.stream, message["id"])
        self._open[token] = _Open(worker, host, line)
        if line is not None:
            line.taken = True
        due = self._politeness.request_detour(host, visit.host, token, message["fetch_s"])
        if due > now + LATEST_START_S:
            visit.not_before = due - LATEST_START_S
            self.refuse(host, None)

    def _line(self, host: Host, parent: Host) -> _Line | None:
        """Where a visit of `parent` has to wait for `host`; None: nowhere, its clocks are the visit's own."""
        if host.clock_host == parent.clock_host:
            return None
        foreign = host.site not in (0, parent.site)
        key, share = (host.site, LINE_SHARE_FOREIGN) if foreign else (host.clock_host, LINE_SHARE)
        line = self._lines.setdefault((foreign, key), _Line(share))  # `a.example` may be a site and a host of it
        self._lines.move_to_end((foreign, key))
        if len(self._lines) > ASKED_MAX:
            self._lines.popitem(last=False)
        return line

    def _close(self, token: Token) -> _Open | None:
        """A detour is over; None if it was before."""
        found = self._open.pop(token, None)
        if found is not None and found.line is not None:
            found.line.taken = False
        return found

    def grant(self, host: Host) -> None:
        """The host of a detour came out of `Politeness.pop_detour`."""
        token = _token(host)
        worker = self._open[token].worker
        self._leases.append(self._politeness.promises(host))
        _answer(worker, token[1], host.address, None, self._politeness.paces(host))

    def refuse(self, host: Host, reason: Reason | None) -> None:
        """reason: None if it can be asked for later. Nothing when its visit is over, or its worker dead."""
        token = _token(host)
        found = self._close(token)
        if found is not None:
            _answer(found.worker, token[1], None, reason)
            self._politeness.deactivate(host)

    def ended(self, worker: RemoteWorker, message: Message) -> None:
        """The worker made its request (or did not: `ended` null)."""
        found = self._close((worker.stream, message["id"]))
        if found is None:
            return
        host, ended = found.host, message["ended"]
        if ended is not None:
            self._asked[host.clock_host] = ended
            self._asked.move_to_end(host.clock_host)
            if len(self._asked) > ASKED_MAX:
                self._asked.popitem(last=False)
        if host.state == HostState.LEASED:
            due = self._politeness.visit_over(
                host, ended=ended, fetch_s=message["fetch_s"], outcome=message["outcome"],
                retry_after=message["retry_after"], again=False,
            )  # fmt: skip
            if ended is not None and found.line is not None:
                began = ended - message["fetch_s"]
                found.line.ended(began, max(due, ended) - began)

    def take_asked(self, host: Host) -> float | None:
        """When a detour last asked a host (unix seconds), which may have been before its Crawl-delay was known here;
        told once."""
        return self._asked.pop(host.clock_host, None)

    def visit_ended(self, worker: RemoteWorker) -> None:
        """Forget detours of the worker that went with their visit before they were granted."""
        for token, one in list(self._open.items()):
            if one.worker is worker and one.host.state == HostState.IDLE:
                self._close(token)

    def worker_died(self, worker: RemoteWorker) -> None:
        """A request may have been under way at any detour it was granted."""
        for token, one in list(self._open.items()):
            if one.worker is worker:
                self._close(token)
                if one.host.state == HostState.LEASED:
                    self._politeness.visit_over(one.host, ended=self._clock.now(), again=False)
                else:
                    self._politeness.deactivate(one.host)


def _token(host: Host) -> Token:
    assert host.detour is not None and isinstance(host.detour.token, tuple)
    return host.detour.token


def _answer(
    worker: RemoteWorker, number: int, address: str | None, reason: Reason | None, paces: dict[str, float] | None = None
) -> None:
    message = {"t": "detour", "id": number, "address": address, "reason": None if reason is None else int(reason)}
    worker.send({**message, "paces": paces} if paces else message)
