"""The resolver against a small DNS server on loopback: what is asked, what is remembered, what is refused."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import aiodns
import pytest

from irlcrawl.base.clock import VirtualClock
from irlcrawl.base.keys import is_stand_in
from irlcrawl.base.reasons import Reason
from irlcrawl.config import keys as config
from irlcrawl.frontier.dispatch import dns
from irlcrawl.frontier.dispatch.dns import GONE_SECONDS, Reach, Resolved, Resolver
from tests.frontier.dispatch.nameserver import AAAA, CNAME, NXDOMAIN, SERVFAIL, SILENCE, A, Nameserver, play, refused


def test_an_address_is_used_for_its_time_to_live_and_then_asked_again() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = [(A, 300, "93.184.216.34")]
        assert await resolver.resolve("a.test") == Resolved("93.184.216.34", clock.now() + 300)
        clock.advance(299)
        await resolver.resolve("a.test")
        assert resolver.lookups == 1
        clock.advance(1)
        assert (await resolver.resolve("a.test")).expires > clock.now()
        assert resolver.lookups == 2

    play(scenario)


@pytest.mark.parametrize(("ttl", "kept"), [(0, 60), (59, 60), (100, 100), (10_000_000, 86_400)])
def test_the_time_to_live_stays_within_the_configured_bounds(ttl: int, kept: float) -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = [(A, ttl, "93.184.216.34")]
        assert (await resolver.resolve("a.test")).expires == clock.now() + kept

    play(scenario)


def test_the_shortest_time_to_live_of_a_chain_of_aliases_counts() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = [(CNAME, 70, "b.test"), (A, 900, "93.184.216.34")]
        assert await resolver.resolve("a.test") == Resolved("93.184.216.34", clock.now() + 70)

    play(scenario)


def test_ipv6_is_asked_for_when_there_is_no_ipv4() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["six.test"] = [(AAAA, 300, "2606:2800:220:1::1")]
        server.table["both.test"] = [(A, 300, "93.184.216.34"), (AAAA, 300, "2606:2800:220:1::1")]
        server.table["alias.test"] = [(CNAME, 300, "six.test"), (AAAA, 300, "2606:2800:220:1::2")]
        assert (await resolver.resolve("six.test")).address == "2606:2800:220:1::1"
        assert (await resolver.resolve("both.test")).address == "93.184.216.34"
        assert (await resolver.resolve("alias.test")).address == "2606:2800:220:1::2"
        assert server.asked["both.test", AAAA] == 0

    play(scenario)


def test_ipv6_goes_first_where_it_is_preferred_and_ipv4_when_it_does_not_answer() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        four, six = (A, 300, "93.184.216.34"), (AAAA, 200, "2606:2800:220:1::1")
        server.table |= {"four.test": [four], "six.test": [six], "both.test": [four, six]}
        assert (await resolver.resolve("four.test")).address == "93.184.216.34"
        assert (await resolver.resolve("six.test")).address == "2606:2800:220:1::1"
        assert await resolver.resolve("both.test") == Resolved("2606:2800:220:1::1", clock.now() + 200)
        resolver.another("both.test")
        assert (await resolver.resolve("both.test")).address == "93.184.216.34"

    play(scenario, prefer="ipv6")


@pytest.mark.parametrize("said", [NXDOMAIN, SERVFAIL, SILENCE])
def test_a_server_that_knows_no_ipv6_took_the_ipv4_address_away(said: int) -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["old.test"], server.said_of_aaaa["old.test"] = [(A, 300, "93.184.216.34")], said
        assert (await resolver.resolve("old.test")).address == "93.184.216.34"
        assert server.asked["old.test", AAAA]

    play(scenario, prefer="ipv6", dns_seconds=1.0)


def test_a_name_that_does_not_exist_is_permanent_and_remembered() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["empty.test"] = []
        for name in ("gone.test", "empty.test"):
            error = await refused(resolver, name)
            assert error.permanent and error.reason == Reason.DNS
        assert server.asked["gone.test", AAAA] == 0  # the name, not the type, does not exist
        asked = resolver.lookups
        clock.advance(GONE_SECONDS - 1)
        await refused(resolver, "gone.test")
        assert resolver.lookups == asked
        clock.advance(2)
        await refused(resolver, "gone.test")
        assert resolver.lookups == asked + 1

    play(scenario)


def test_a_failing_server_is_a_passing_error_and_soon_asked_again() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = SERVFAIL
        error = await refused(resolver, "a.test")
        assert not error.permanent and error.reason == Reason.DNS
        server.table["a.test"] = [(A, 300, "93.184.216.34")]
        clock.advance(config.Politeness().backoff_seconds)
        assert (await resolver.resolve("a.test")).address == "93.184.216.34"

    play(scenario)


def test_a_silent_server_costs_the_deadline_and_is_a_passing_error() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = SILENCE
        assert not (await refused(resolver, "a.test")).permanent

    play(scenario, dns_seconds=0.3)


def test_no_server_at_all_is_a_passing_error() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        resolver = Resolver(config.Network(resolvers=[f"127.0.0.1:{port}"], dns_seconds=0.5), VirtualClock())
        assert not (await refused(resolver, "a.test")).permanent
        await resolver.close()

    asyncio.run(main())


def test_literals_are_answered_without_asking() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        for name, address in [
            ("93.184.216.34", "93.184.216.34"),
            ("[2606:2800:220:1::1]", "2606:2800:220:1::1"),
            ("2606:2800:220:1:0:0:0:1", "2606:2800:220:1::1"),
            ("[::ffff:93.184.216.34]", "93.184.216.34"),  # the same machine, the same clock
        ]:
            found = await resolver.resolve(name)
            assert found.address == address and found.expires > clock.now()
        assert not server.asked and not resolver.lookups

    play(scenario)


PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1",
    "192.0.0.1", "192.0.0.9", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "203.0.113.9", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "64:ff9b::7f00:1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "fc00::1",
    "fd12::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
    "64:ff9b:1::7f00:1", "::ffff:0:127.0.0.1", "2001:0:5db8:d822::80ff:fffe", "2002:a9fe:a9fe::", "fd00:ec2::254",
    "fe80::a9fe:a9fe", "100.100.100.200", "168.63.129.16", "192.0.0.192", "5f00::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_outside_public_space_are_refused_by_name_and_as_literal(address: str) -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["trap.test"] = [(AAAA if ":" in address else A, 300, address)]
        for name in ("trap.test", address):
            error = await refused(resolver, name)
            assert error.permanent and error.reason == Reason.ADDRESS

    play(scenario)


def test_of_mixed_addresses_only_the_public_ones_are_used() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["mix.test"] = [(A, 300, "10.0.0.1"), (A, 300, "93.184.216.34"), (A, 300, "127.0.0.1")]
        assert (await resolver.resolve("mix.test")).address == "93.184.216.34"
        resolver.another("mix.test")
        assert (await resolver.resolve("mix.test")).address == "93.184.216.34"

    play(scenario)


def test_of_a_name_with_addresses_of_both_kinds_only_the_public_one_is_used() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["four.test"] = [(A, 300, "93.184.216.34"), (AAAA, 300, "::1"), (AAAA, 300, "fe80::1")]
        server.table["six.test"] = [(A, 300, "127.0.0.1"), (AAAA, 300, "2606:2800:220:1::1")]
        server.table["none.test"] = [(A, 300, "127.0.0.1"), (AAAA, 300, "::1")]
        for name, address in (("four.test", "93.184.216.34"), ("six.test", "2606:2800:220:1::1")):
            for _ in range(4):
                assert (await resolver.resolve(name)).address == address
                resolver.another(name)
        assert (await refused(resolver, "none.test")).reason == Reason.ADDRESS

    play(scenario, prefer="ipv6")


def test_a_name_with_a_dot_at_its_end_is_judged_like_the_one_without() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["trap.test"] = [(A, 300, "10.0.0.1")]
        for name in ("trap.test.", "localhost.", "x.localhost."):
            assert (await refused(resolver, name)).reason == Reason.ADDRESS

    play(scenario)


def test_behind_a_proxy_that_resolves_names_addresses_and_localhost_are_refused_all_the_same() -> None:
    async def main() -> None:
        resolver = Resolver(config.Network(), VirtualClock(), proxied=lambda name: True)
        assert is_stand_in((await resolver.resolve("a.test")).address)
        for name in ("127.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "169.254.169.254", "localhost", "x.localhost."):
            assert (await refused(resolver, name)).reason == Reason.ADDRESS
        await resolver.close()

    asyncio.run(main())


def test_addresses_found_before_are_judged_as_new_ones() -> None:
    resolver = Resolver(config.Network(allow=["10.0.0.0/8"], resolvers=["127.0.0.1"]), VirtualClock())
    assert resolver.admits("10.1.2.3") and resolver.admits("93.184.216.34")
    assert not resolver.admits("127.0.0.1") and not resolver.admits("::ffff:192.168.0.1")


def test_a_name_that_turns_to_a_private_address_is_refused_then() -> None:
    """Rebinding: what is connected to is the address that was judged, and a new answer is judged anew."""

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["turns.test"] = [(A, 0, "93.184.216.34")]
        assert (await resolver.resolve("turns.test")).address == "93.184.216.34"
        server.table["turns.test"] = [(A, 0, "169.254.169.254")]
        assert (await resolver.resolve("turns.test")).address == "93.184.216.34"  # it is held to its word for a minute
        clock.advance(61)
        assert (await refused(resolver, "turns.test")).reason == Reason.ADDRESS

    play(scenario)


def test_aliases_in_a_circle_are_no_address() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = [(CNAME, 60, "b.test"), (CNAME, 60, "a.test")]
        assert (await refused(resolver, "a.test")).reason == Reason.DNS
        assert len(server.asked) <= 4

    play(scenario)


def test_a_name_with_a_thousand_addresses_filled_the_cache() -> None:
    """All of them were kept, of each such name. One of them serves, the same whatever the order of the answer."""

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        addresses = [f"93.184.{i // 250}.{i % 250 + 1}" for i in range(1000)]
        server.table["many.test"] = [(A, 0, address) for address in addresses]
        first = await resolver.resolve("many.test")
        known = resolver._cache["many.test"]
        assert first.address in addresses and len(known.addresses) <= dns.KEPT_MAX
        clock.advance(61)
        server.table["many.test"] = [(A, 0, address) for address in reversed(addresses)]
        assert (await resolver.resolve("many.test")).address == first.address
        server.table["inside.test"] = [(A, 0, f"10.0.{i // 250}.{i % 250}") for i in range(1000)]
        assert len(str(await refused(resolver, "inside.test"))) < 200

    play(scenario)


def test_networks_that_are_allowed_may_be_contacted() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["docs.test"] = [(A, 300, "127.0.0.77")]
        server.table["lan.test"] = [(A, 300, "10.0.0.1")]
        assert (await resolver.resolve("docs.test")).address == "127.0.0.77"
        assert (await resolver.resolve("localhost")).address == "127.0.0.1"
        assert (await resolver.resolve("x.localhost")).address == "127.0.0.1"
        assert (await resolver.resolve("[::1]")).address == "::1"
        assert (await resolver.resolve("[::ffff:127.0.0.5]")).address == "127.0.0.5"
        assert (await refused(resolver, "lan.test")).reason == Reason.ADDRESS

    play(scenario, allow=["127.0.0.0/8", "::1/128"])


def test_localhost_is_never_asked_for_and_refused_unless_allowed() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        for name in ("localhost", "www.localhost"):
            assert (await refused(resolver, name)).reason == Reason.ADDRESS
        assert not server.asked

    play(scenario)


def test_one_name_asked_by_many_at_once_is_one_question() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = [(A, 300, "93.184.216.34")]
        server.held = []
        many = [asyncio.ensure_future(resolver.resolve("a.test")) for _ in range(20)]
        while not server.held:
            await asyncio.sleep(0)
        many[3].cancel()  # takes nothing from the others
        server.held[0]()
        answers = await asyncio.gather(*many, return_exceptions=True)
        assert sum(isinstance(answer, Resolved) for answer in answers) == 19
        assert server.asked["a.test", A] == resolver.lookups == 1

    play(scenario)


def test_names_in_flight_are_bounded_and_room_tells() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.held = []
        names = [f"n{i}.test" for i in range(10)]
        for name in names:
            server.table[name] = [(A, 300, "93.184.216.34")]
        assert resolver.room == 3
        many = [asyncio.ensure_future(resolver.resolve(name)) for name in names]
        answered = 0
        while answered < len(names):
            await asyncio.sleep(0)
            if len(server.held) == min(3, len(names) - answered):
                assert resolver.room == max(0, 3 - len([task for task in many if not task.done()]))
                server.held.pop(0)()
                answered += 1
        assert len(await asyncio.gather(*many)) == 10
        assert server.open_most == 3 and resolver.room == 3

    play(scenario, dns_in_flight_max=3)


def test_the_cache_is_bounded_and_keeps_what_is_used() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        for i in range(20):
            server.table[f"n{i}.test"] = [(A, 300, "93.184.216.34")]
        for i in range(20):
            await resolver.resolve(f"n{i}.test")
            await resolver.resolve("n0.test")
        assert resolver.names == 5 and resolver.lookups == 20

    play(scenario, dns_cache_names=5)


def test_c_ares_kept_every_answer_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "CHANNEL_NAMES", 8)

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        for i in range(20):
            server.table[f"n{i}.test"] = [(A, 3600, "93.184.216.34")]
        for _ in range(3):
            for i in range(20):
                await resolver.resolve(f"n{i}.test")
        assert all(server.asked[f"n{i}.test", A] == 3 for i in range(20)), "only the server and our cache answer"

    play(scenario, dns_cache_names=5)


def test_each_channel_ends_with_its_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "CHANNEL_NAMES", 2)
    opened: list[aiodns.DNSResolver] = []
    open_ones: set[aiodns.DNSResolver] = set()

    class Counted(aiodns.DNSResolver):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            opened.append(self)
            open_ones.add(self)

        async def close(self) -> None:
            open_ones.remove(self)
            await super().close()

    monkeypatch.setattr(aiodns, "DNSResolver", Counted)

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        for i in range(12):
            server.table[f"n{i}.test"] = [(A, 300, "93.184.216.34")]
        server.held = []
        many = [asyncio.ensure_future(resolver.resolve(f"n{i}.test")) for i in range(12)]
        while len(server.held) < 12:
            await asyncio.sleep(0)
        assert len(open_ones) == 6
        many[3].cancel()
        for answer in reversed(server.held):
            answer()
        server.held = None
        answers = await asyncio.gather(*many, return_exceptions=True)
        assert sum(isinstance(answer, Resolved) for answer in answers) == 11
        server.table["more.test"] = [(A, 300, "93.184.216.34")]
        await resolver.resolve("more.test")  # after all the others: only its channel is left
        while len(open_ones) > 1:
            await asyncio.sleep(0)
        await resolver.close()
        assert not open_ones and len(opened) == 7 + 1, "one more for the sign of life"

    play(scenario)


def test_a_name_keeps_its_address_whatever_the_order_of_the_answer_and_another_on_demand() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        addresses = [f"93.184.216.{i}" for i in range(4)]
        server.table["a.test"] = [(A, 60, address) for address in addresses]
        first = (await resolver.resolve("a.test")).address
        server.table["a.test"] = [(A, 60, address) for address in reversed(addresses)]
        clock.advance(61)
        assert (await resolver.resolve("a.test")).address == first
        seen = {first}
        for _ in range(3):
            resolver.another("a.test")
            seen.add((await resolver.resolve("a.test")).address)
        assert seen == set(addresses)

    play(scenario)


def test_a_name_with_a_private_ipv4_address_had_no_other() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = [(A, 60, "10.1.2.3"), (AAAA, 60, "2606:2800:220:1::1")]
        assert (await resolver.resolve("a.test")).address == "2606:2800:220:1::1"

    play(scenario)


@pytest.mark.parametrize("prefer", ["ipv4", "ipv6"])
def test_a_name_was_back_at_its_dead_address_whenever_its_answer_had_expired(prefer: str) -> None:
    """Hosts rest for a minute and more, and many answers hold for less: such a host was given up."""

    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.table["a.test"] = [(A, 60, "93.184.216.1"), (A, 60, "93.184.216.2"), (AAAA, 60, "2606:2800:220:1::1")]
        tried = []
        for _ in range(6):
            tried.append((await resolver.resolve("a.test")).address)
            resolver.another("a.test")
            clock.advance(3600)
        assert len(set(tried[:3])) == 3 and tried[3:] == tried[:3]

    play(scenario, prefer=prefer)


@pytest.mark.parametrize("name", ["", ".", "a..b", "x" * 64 + ".test", "a." * 200 + "test", "süß.test"])
def test_what_is_no_host_name_is_refused_without_asking(name: str) -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        error = await refused(resolver, name)
        assert error.permanent and error.reason == Reason.DNS and not server.asked

    play(scenario)


def test_closing_ends_what_is_under_way() -> None:
    async def scenario(server: Nameserver, resolver: Resolver, clock: VirtualClock) -> None:
        server.held = []
        waiting = asyncio.ensure_future(resolver.resolve("a.test"))
        while not server.held:
            await asyncio.sleep(0)
        await resolver.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    play(scenario)


@pytest.fixture
def hosts_file(tmp_path: object) -> Iterator[str]:
    path = f"{tmp_path}/hosts"
    with open(path, "w", encoding="utf-8") as file:
        file.write("# comment\n10.9.8.7  Intra.Test intra # short\nfe80::1%lo0 scoped\n")
        file.write("nonsense\n\n93.184.216.34 out.test\n")
    yield path


def test_the_systems_resolver_includes_the_hosts_file(hosts_file: str) -> None:
    async def main() -> None:
        resolver = Resolver(config.Network(allow=["10.0.0.0/8"]), VirtualClock(), hosts_file)
        assert (await resolver.resolve("intra.test")).address == "10.9.8.7"
        assert (await resolver.resolve("out.test")).address == "93.184.216.34"
        assert (await refused(resolver, "scoped")).reason == Reason.ADDRESS
        assert resolver.lookups == 0
        await resolver.close()

    asyncio.run(main())


def test_explicit_resolvers_are_asked_whatever_the_hosts_file_says(hosts_file: str) -> None:
    resolver = Resolver(config.Network(resolvers=["127.0.0.1"]), VirtualClock(), hosts_file)
    assert not resolver._fixed


@pytest.mark.parametrize("text", ["", "dns.test", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:70000", "1.2.3", "[::1]:0"])
def test_a_malformed_resolver_names_its_key(text: str) -> None:
    with pytest.raises(config.ConfigError, match=r"network\.resolvers"):
        Resolver(config.Network(resolvers=[text]), VirtualClock())


def test_a_malformed_network_names_its_key() -> None:
    with pytest.raises(config.ConfigError, match=r"network\.allow"):
        Reach(["10.0.0.0/40"])


def test_ordinary_addresses_are_public() -> None:
    reach = Reach([])
    for address in ["1.1.1.1", "93.184.216.34", "223.255.255.1", "2606:4700::1111", "2a00:1450:4001::1"]:
        assert reach.admits(ip_address(address))


def test_importing_the_frontier_does_not_import_the_dns_library() -> None:
    code = "import sys, irlcrawl.frontier.dispatch.dispatch; assert 'aiodns' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
