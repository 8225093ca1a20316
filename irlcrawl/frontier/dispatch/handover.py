"""What the loop hands over to the next turn: records of hosts that changed, and URLs that cannot stay in their runs."""

from __future__ import annotations

from drum import Batch

from irlcrawl.frontier.dispatch.visits import Host
from irlcrawl.frontier.state.hosts import HostRecord, state_batch
from irlcrawl.frontier.state.runs import Withdrawal


class Handover:
    """Filled by the parts that hold hosts in memory, emptied by each turn (`take_states`, `take_withdrawn`)."""

    def __init__(self) -> None:
        self._records: dict[int, HostRecord] = {}
        self._withdrawn: list[Withdrawal] = []

    def __bool__(self) -> bool:
        """URLs wait to leave: that alone is worth a turn."""
        return bool(self._withdrawn)

    def learn(self, host: Host) -> None:
        """Its record is to go back to the hosts drum."""
        self._records[host.key] = host.record

    def learnt(self, key: int) -> HostRecord | None:
        """The record of a host, if it changed since the last turn began."""
        return self._records.get(key)

    def withdraw(self, withdrawal: Withdrawal) -> None:
        if withdrawal.runs:
            self._withdrawn.append(withdrawal)

    def take_states(self) -> Batch | None:
        """STATE rows of the hosts whose record changed since the last call."""
        if not self._records:
            return None
        batch = state_batch(self._records.items())
        self._records.clear()
        return batch

    def take_withdrawn(self) -> list[Withdrawal]:
        taken, self._withdrawn = self._withdrawn, []
        return taken
