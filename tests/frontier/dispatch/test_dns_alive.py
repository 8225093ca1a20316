"""Whether a resolver says anything at all: what the crawl asks before it calls its own network down."""

from __future__ import annotations

import asyncio

import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.frontier.dispatch.dns import Resolver
from tests.frontier.dispatch.nameserver import LOST_ONCE, NXDOMAIN, SERVFAIL, SILENCE, A, Nameserver, play, refused


@pytest.mark.parametrize(
    ("answer", "alive"), [(NXDOMAIN, True), (5, True), (SERVFAIL, False), (SILENCE, False), (LOST_ONCE, True)]
)
def test_a_resolver_is_alive_that_says_something_of_the_root(answer: int, alive: bool) -> None:
    """Whatever it says (here "refused" is 5) but that it failed, which is what one without a network says. One packet
    that was lost passed for an outage."""

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table[""] = answer
        assert await resolver.alive() and not server.asked  # no name was ever needed
        await refused(resolver, "a.test")
        assert await resolver.alive() is alive
        asked = server.asked["", 2]
        assert asked and await resolver.alive() is alive and server.asked["", 2] == asked
        server.table[""] = NXDOMAIN
        clock.advance(1.0)
        assert await resolver.alive()

    play(scenario, dns_seconds=0.3)


@pytest.mark.parametrize("root", [SERVFAIL, SILENCE])
def test_a_resolver_that_never_tells_of_the_root_is_judged_by_a_name_it_told_of(root: int) -> None:
    """One that serves names of its own paused the crawl for ever at the first name that failed in passing."""

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table |= {"": root, "a.test": [(A, 300, "93.184.216.34")], "b.test": SERVFAIL}
        await resolver.resolve("a.test")
        await refused(resolver, "b.test")
        assert await resolver.alive()
        server.table["a.test"] = SERVFAIL
        clock.advance(1.0)
        assert not await resolver.alive()

    play(scenario, dns_seconds=0.3)


def test_a_resolver_that_once_told_of_the_root_is_judged_by_it_alone() -> None:
    """Other names may lie in its cache while its own network is gone."""

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table |= {"": NXDOMAIN, "a.test": [(A, 300, "93.184.216.34")]}
        await resolver.resolve("a.test")
        assert await resolver.alive()
        server.table[""] = SERVFAIL
        clock.advance(1.0)
        assert not await resolver.alive()

    play(scenario, dns_seconds=0.3)


def test_a_resolver_that_is_gone_is_not_alive() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        await refused(resolver, "a.test")
        server.transport.close()
        await asyncio.sleep(0)
        assert not await resolver.alive()

    play(scenario)
