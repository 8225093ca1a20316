"""Whether this machine is fit for a crawl: what would go wrong later, and what to do about it now."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from irlcrawl.base.clock import SystemClock
from irlcrawl.config.checks import check_start
from irlcrawl.config.keys import Config, ConfigError
from irlcrawl.config.proxies import parse, read_logins
from irlcrawl.terminal import words

FILES_GOOD = 4096
FREE_BYTES_GOOD = 10_000_000_000
MEMORY_BYTES_GOOD = 1_000_000_000
SYNC_SECONDS_GOOD, WRITE_RATE_GOOD = 0.2, 20e6
PROBE_BYTES = 32 << 20
YEAR_LEAST = 2024


class Check(NamedTuple):
    """advice: what to do; empty if all is well."""

    name: str
    told: str
    advice: str = ""


def examine(
    directory: Path, config: Config, dependencies: tuple[str, ...], files_min: int, configured: bool = False
) -> Iterator[Check]:
    """One check after the other, of a machine and of the disk of `directory` (which need not exist yet). configured:
    `config` is a file's, with which a crawl is to begin."""
    while not directory.exists():
        directory = directory.parent
    yield _versions(dependencies)
    yield _open_files(files_min)
    yield _clock(time.time())
    yield _memory()
    yield from _disk(directory, config)
    yield _shared_memory(Path(config.politeness.machine_clocks))
    if configured:
        yield _configuration(config)
    if names_resolved_here(config):
        yield _dns(config)
    yield from _proxies(config)


def _versions(dependencies: tuple[str, ...]) -> Check:
    missing = []
    for name in dependencies:
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    told = f"Python {'.'.join(map(str, sys.version_info[:3]))}"
    if missing:
        return Check("versions", f"{told}; missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    return Check("versions", told)


def _open_files(files_min: int) -> Check:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = f"a process may open {words.count(hard)}"
    if hard < files_min:
        return Check("files", told, f"a crawl does not start with fewer than {files_min}: raise `ulimit -Hn`")
    return Check("files", told, "" if hard >= FILES_GOOD else f"raise `ulimit -Hn` to {FILES_GOOD} for several workers")


def _clock(now: float) -> Check:
    told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    wrong = time.gmtime(now).tm_year < YEAR_LEAST
    return Check(
        "clock", told, "the date is wrong: archives carry it, and certificates are checked by it" if wrong else ""
    )


def _memory(file: str = "/proc/meminfo") -> Check:
    values = dict(line.split(":", 1) for line in Path(file).read_text().splitlines())
    free = int(values["MemAvailable"].split()[0]) * 1024
    few = "at least 1 GB: a crawl takes 256 MB and more for merges (crawl.ram_bytes), and 50 MB a worker"
    return Check("memory", f"{words.size(free)} available", "" if free >= MEMORY_BYTES_GOOD else few)


def _disk(directory: Path, config: Config) -> Iterator[Check]:
    from irlcrawl.crawl.disk_space import HYSTERESIS

    if not directory.is_dir():
        yield Check("disk", f"{directory} is a file", "name a directory")
        return
    free = shutil.disk_usage(directory).free
    least = (config.frontier.disk_reserve_bytes or config.archive.roll_bytes) * HYSTERESIS
    few = f"a crawl begins with {words.size(least)} (frontier.disk_reserve_bytes), and archives grow: about 10 GB for "
    good = free >= max(FREE_BYTES_GOOD, least)
    yield Check("disk", f"{words.size(free)} free in {directory}", "" if good else few + "500,000 pages")
    if not os.access(directory, os.W_OK | os.X_OK):
        yield Check("disk", f"{directory} cannot be written", "name a directory that this user may write to")
        return
    if free < 4 * PROBE_BYTES:
        return
    try:
        written, synced = _speed(directory)
    except OSError as error:
        yield Check("disk", f"{directory}: {error.strerror}", "name a directory that this user may write to")
        return
    slow = synced > SYNC_SECONDS_GOOD or written < WRITE_RATE_GOOD
    told = f"writes {words.size(written)}/s, a flush takes {words.duration(synced)}"
    yield Check(
        "disk speed", told, "slow: use a local disk; a network file system holds every commit up" if slow else ""
    )


def _speed(directory: Path, timer: Callable[[], float] = time.perf_counter) -> tuple[float, float]:
    """(bytes a second, seconds of a small flush). OSError."""
    path = directory / f".irlcrawl-doctor-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        block, began = os.urandom(1 << 20), timer()
        for _ in range(PROBE_BYTES >> 20):
            os.write(fd, block)
        os.fsync(fd)
        written, began = timer() - began, timer()
        os.pwrite(fd, b"x", 0)
        os.fsync(fd)
        return PROBE_BYTES / max(written, 1e-6), timer() - began
    finally:
        os.close(fd)
        path.unlink()


def _shared_memory(directory: Path) -> Check:
    if str(directory) == ".":
        return Check(
            "shared", "crawls on this machine keep no gaps after each other (politeness.machine_clocks is off)"
        )
    if directory.is_dir() and os.access(directory, os.W_OK | os.X_OK):
        return Check("shared", f"{directory} can be written: crawls on this machine keep each other's gaps")
    return Check("shared", f"{directory} cannot be written", "name another directory in politeness.machine_clocks")


def _configuration(config: Config) -> Check:
    """What a start checks: the files that keys name, above all."""
    try:
        check_start(config)
    except ConfigError as error:
        return Check("config", "no crawl begins with it", str(error))
    return Check("config", "a crawl may begin with it; the files that it names can be read")


def names_resolved_here(config: Config) -> bool:
    """Whether there may be hosts that no proxy resolves."""
    sites = [site.proxy for site in config.site.values() if site.proxy is not None]
    found = [parse(text, "proxy") for text in (config.network.proxy, *sites)]
    return any(proxy is None or not proxy.by_name for proxy in found)


def _proxies(config: Config) -> Iterator[Check]:
    """Whether each proxy takes connections, and our login if it is one of SOCKS5."""
    from irlcrawl.worker.fetch.proxied import answers

    try:
        logins = read_logins(file) if (file := config.network.proxy_logins_file) else {}
    except ConfigError:  # _configuration says it
        logins = {}
    texts = [config.network.proxy, *(site.proxy or "" for site in config.site.values())]
    for proxy in dict.fromkeys(found for text in texts if (found := parse(text, "proxy")) is not None):
        alive = asyncio.run(answers(proxy, logins.get(proxy.place, ""), config.fetch.connect_seconds))
        told = f"{proxy} {'answers' if alive else 'does not answer, or refuses us'}"
        advice = "is it running? its login stands in network.proxy_logins_file; its hosts would wait for it"
        yield Check("proxy", told, "" if alive else advice)


def _dns(config: Config) -> Check:
    from irlcrawl.frontier.dispatch.dns import Resolver

    async def ask() -> bool:
        resolver = Resolver(config.network, SystemClock())
        try:
            return await resolver.reachable()
        finally:
            await resolver.close()

    began = time.monotonic()
    alive = asyncio.run(ask())
    seconds = time.monotonic() - began
    if alive:
        slow = "slow: a resolver on this machine (unbound, dnsmasq) with network.resolvers" if seconds > 1 else ""
        return Check("DNS", f"a resolver answers within {words.duration(seconds)}", slow)
    return Check("DNS", "no resolver answers", "check the network and /etc/resolv.conf, or set network.resolvers")
